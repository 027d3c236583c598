"""A `.skitter` that came with a repository or an archive has no effect on any command; one that
this user's Skitter made goes on working."""

from __future__ import annotations

import io
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from skitter.cli.main import run_command
from skitter.embedded import EmbeddedServer, hold, running, start, stop
from skitter.errors import DirectoryUnusable
from skitter.server import keyring
from skitter.sinks.destination import store_of
from skitter.trust import KEY, MARK, OBEYED, check_known, make_ours, spelled, state_dir, trust

SPIDER = """
from skitter import Spider
spider = Spider("books", "http://127.0.0.1:1/")
@spider.page
def nothing(page):
    pass
"""
COMMANDS = [
    "status",
    "status books",
    "up",
    "down",
    "doctor",
    "push books https://a.test/",
    "run books.py",
    "worker books.py",
    "create books",
    "top",
    "audit books",
    "why books https://a.test/",
    "token list",
    "serve --port 0",
    "load books --to books.csv",
    "export books --to -",
    "metrics books",
]
Call = Callable[..., tuple[int, str]]


@pytest.fixture
def home(monkeypatch) -> Iterator[Path]:
    """Where a user works; what belongs to the user is elsewhere."""
    base = Path(tempfile.mkdtemp(prefix="sk-", dir="/tmp"))
    (base / "project").mkdir()
    monkeypatch.chdir(base / "project")
    monkeypatch.setenv("XDG_STATE_HOME", str(base / "state"))
    for name in ("SKITTER_REDIS_URL", "SKITTER_DIR"):
        monkeypatch.setenv(name, "")  # counts as unset, and is put back after the test
    Path("books.py").write_text(SPIDER)
    yield base / "project" / ".skitter"
    shutil.rmtree(base)


@pytest.fixture
def skitter(monkeypatch, capsys) -> Call:
    def call(*words: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["skitter", *words])
        monkeypatch.setattr(sys, "stdin", io.StringIO())
        code: Any = 0
        try:
            run_command()
        except SystemExit as stop:
            code = stop.code or 0
        captured = capsys.readouterr()
        return int(code), " ".join((captured.out + captured.err).split())

    return call


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


def is_open(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def command(*words: str) -> str:
    return f"*{len(words)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words)


def plant_commands(home: Path, port: int) -> None:
    """As git writes them: readable by all, writable by the user."""
    files = {
        "appendonly.aof.manifest": "file appendonly.aof.1.incr.aof seq 1 type i\n",
        "appendonly.aof.1.incr.aof": command("SELECT", "0")
        + command("CONFIG", "SET", "port", str(port)),
    }
    (home / "appendonlydir").mkdir(parents=True)
    for name, text in files.items():
        (home / "appendonlydir" / name).write_text(text)


def plant_configuration(home: Path, port: int) -> None:
    """As tar writes it, with the modes of Skitter's own files, and what else may lie around."""
    home.mkdir(mode=0o700)
    files = {
        "keep": "",
        "valkey.conf": f'port {port}\nbind 127.0.0.1\nrequirepass "known"\n',
        "http-key": "0" * 64,
        "http-token": "skt_abcdefgh_" + "0" * 43,
        "secret": "0" * 64,
        "valkey.pid": f"{os.getpid()}\n",
        "start.lock": "",
        MARK: "0" * 64 + "\n",
    }
    for name, text in files.items():
        (home / name).write_text(text)
        (home / name).chmod(0o600)


def plant_store(home: Path, _port: int) -> None:
    (home / "stores").mkdir(parents=True)
    with closing(sqlite3.connect(home / "stores" / "books.db")) as store:
        store.execute("CREATE TABLE planted (n INTEGER)")


def contents(home: Path) -> dict[str, tuple[int, bytes]]:
    files = [one for one in home.rglob("*") if one.is_file()]
    return {str(one): (one.stat().st_mode, one.read_bytes()) for one in files}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("plant", [plant_commands, plant_configuration])
def test_a_planted_directory_has_no_effect_on_any_command(home, skitter, plant):
    plant(home, port := free_port())
    before = contents(home)

    for line in COMMANDS:
        code, says = skitter(*line.split())
        if line == "down" and plant is plant_commands:  # nothing says that a server ran there
            assert (code, says) == (0, f"No server was running in {home.name}.")
            continue
        if line == "export books --to -":
            assert "there is no database books.db" in says
            continue
        assert code == 3, (line, says)
        assert "was not made by your Skitter on this machine" in says, (line, says)
        assert f"run `skitter trust {home}`" in says, (line, says)
        assert not is_open(port), line

    celery = [sys.executable, "-m", "skitter", "celery", "inspect", "ping"]  # its app is made once
    done = subprocess.run(celery, capture_output=True, text=True, check=False)
    assert (done.returncode, "not made by your Skitter" in done.stderr) == (3, True), done.stderr
    assert contents(home) == before


def test_a_planted_store_is_neither_read_nor_written(home, skitter, server_url):
    plant_store(home, 0)
    before = contents(home)

    for line in ("export books --to -", f"load books --to books.csv --redis {server_url}"):
        code, says = skitter(*line.split())
        assert (code, f"run `skitter trust {home}`" in says) == (3, True), says

    assert contents(home) == before


def test_on_another_server_a_planted_directory_is_no_obstacle(home, skitter, server_url):
    """And its children are not told to trust it."""
    plant_configuration(home, 0)

    assert skitter("push", "planted", "https://a.test/", "--redis", server_url)[0] == 0
    assert spelled(home) == ".skitter"


def test_a_mark_is_good_for_the_directory_that_it_was_made_for(home):
    make_ours(home)
    (home / "keep").touch()
    copy = home.parent / "copy"
    shutil.copytree(home, copy)

    with pytest.raises(DirectoryUnusable, match="not made by your Skitter"), hold(copy):
        pass

    assert running(home) is None


def test_commands_that_a_pull_put_into_our_directory_are_not_run(home):
    with hold(home):
        pass
    shutil.rmtree(home / "appendonlydir")
    plant_commands(home, port := free_port())

    with pytest.raises(DirectoryUnusable, match="not made by your Skitter"), hold(home):
        pass

    assert not is_open(port)


def test_commands_in_the_place_of_an_older_server_are_not_run_either(home):
    """Of a directory that never had data, as with `--redis`: the server would take them over."""
    make_ours(home)
    (home / "appendonly.aof").write_text(command("CONFIG", "SET", "port", str(free_port())))

    with pytest.raises(DirectoryUnusable, match="not made by your Skitter"), hold(home):
        pass

    assert not (home / "appendonlydir").exists()


@pytest.mark.parametrize("name", ["AppendOnlyDir", "KEEP", "ke\u200cep", "\u212aeep", "ſecret"])  # noqa: RUF001
def test_other_spellings_count_where_the_disk_takes_them_for_the_same(home, name):
    """As disks of macOS do. What only looks odd is no obstacle."""
    home.mkdir()
    (home / "données.csv").touch()
    (home / "ПРИМЕР").touch()
    check_known(home)
    (home / name).mkdir()

    with pytest.raises(DirectoryUnusable, match="not made by your Skitter"):
        check_known(home)


@pytest.mark.timeout(60)
def test_a_planted_pipe_or_endless_file_stops_no_command(home, skitter):
    plant_configuration(home, 0)
    mark = home / MARK
    mark.unlink()
    os.mkfifo(mark, 0o600)
    assert skitter("status")[0] == 3
    mark.unlink()
    with mark.open("wb") as file:
        file.truncate(2**40)  # in a tar, this takes a kilobyte
    mark.chmod(0o600)
    assert skitter("status")[0] == 3


def test_a_key_in_the_working_directory_is_nobodys(home, monkeypatch):
    """A relative path, in a variable that is set for all folders."""
    make_ours(home)
    state = Path(os.environ["XDG_STATE_HOME"])
    shutil.copytree(state / "skitter", "state/skitter")
    (home / "keep").touch()
    monkeypatch.setenv("HOME", str(home.parent.parent))
    monkeypatch.setenv("XDG_STATE_HOME", "state")

    assert state_dir() == home.parent.parent / ".local" / "state"
    with pytest.raises(DirectoryUnusable, match="not made by your Skitter"):
        running(home)


# What goes on working


def value_in(home: Path) -> Any:
    with hold(home) as server, Redis.from_url(server.url, decode_responses=True) as client:
        return client.get("crawl")


@pytest.fixture
def crawled(home: Path) -> Path:
    """A directory of ours, with data."""
    with hold(home) as server, Redis.from_url(server.url) as client:
        client.set("crawl", "mine")
    return home


def test_a_directory_that_was_moved_or_restored_is_ours(crawled):
    moved = crawled.parent.rename(crawled.parent.parent / "elsewhere") / ".skitter"
    assert value_in(moved) == "mine"
    backup = moved.parent / "backup"
    shutil.copytree(moved, backup)
    shutil.rmtree(moved)
    shutil.copytree(backup, moved)
    assert value_in(moved) == "mine"


def test_the_command_in_the_message_is_the_remedy_with_all_data(crawled, skitter):
    """For a directory of an earlier release: it has no mark, and other modes perhaps."""
    (crawled / MARK).unlink()
    crawled.chmod(0o755)
    for file in (crawled / "appendonlydir").iterdir():
        file.chmod(0o644)
    code, says = skitter("status")
    assert (code, f"run `skitter trust {crawled}`" in says) == (3, True)

    assert skitter("trust", str(crawled)) == (0, f"Skitter uses {crawled} from now on.")

    assert skitter("status")[0] == 0
    assert value_in(crawled) == "mine"
    assert skitter("trust", "nowhere")[0] == 2


def test_a_folder_of_the_users_own_is_not_changed_by_mistake(home, skitter):
    """`skitter trust .`: what is in a project is none of our business."""
    Path("books.py").chmod(0o644)
    code, says = skitter("trust", ".")
    assert (code, f"such as {home}" in says) == (3, True), says

    Path("server.js").touch(0o644)  # it might be ours by its name
    skitter("trust", ".")
    assert Path("books.py").stat().st_mode & 0o777 == 0o644


def test_a_directory_is_known_in_each_home_of_its_user_that_trusts_it(crawled, monkeypatch):
    """The machine and a container that has its project mounted, in turn."""
    homes = [str(crawled.parent.parent / name) for name in ("state", "container")]
    monkeypatch.setenv("XDG_STATE_HOME", homes[1])
    with pytest.raises(DirectoryUnusable, match=f"set SKITTER_DIR={crawled} where no home lasts"):
        running(crawled)
    trust(crawled)
    for home in (*homes, *homes):
        monkeypatch.setenv("XDG_STATE_HOME", home)
        assert value_in(crawled) == "mine"


def test_a_link_is_not_trusted_even_if_asked(home, skitter):
    victim = home.parent / "victim"
    victim.write_text("mine")
    victim.chmod(0o644)
    plant_configuration(home, 0)
    (home / "valkey.log").symlink_to(victim)

    code, says = skitter("trust")

    assert (code, "is a link, which Skitter never creates" in says) == (3, True)
    assert victim.stat().st_mode & 0o777 == 0o644


def test_an_operator_who_names_a_directory_trusts_it(crawled, monkeypatch):
    """As in a container whose home is lost at each restart. A relative path is valid anywhere, so
    it is no such word."""
    shutil.rmtree(os.environ["XDG_STATE_HOME"])
    monkeypatch.setenv("SKITTER_DIR", ".skitter")
    with pytest.raises(DirectoryUnusable, match="skitter trust"):
        running(crawled)

    monkeypatch.setenv("SKITTER_DIR", str(crawled))
    assert value_in(crawled) == "mine"
    monkeypatch.delenv("SKITTER_DIR")
    assert value_in(crawled) == "mine"  # it was marked anew


def test_every_file_that_is_obeyed_is_on_the_list():
    files = [value._name for value in vars(EmbeddedServer).values() if hasattr(value, "_name")]
    stores = store_of("books", Path("x")).parent.name
    others = [keyring.TOKEN, keyring.KEY, "secret", stores, "appendonlydir", "appendonly.aof"]

    assert len(files) == 8
    assert [one for one in [*files, *others] if not one.startswith(OBEYED)] == []


@pytest.mark.parametrize("found", [(), (".gitignore",), ("logs", ".gitignore"), ("books.py",)])
def test_a_directory_without_data_is_simply_used(home, found):
    """A volume, what `--redis` left, or a folder with other things in it."""
    home.mkdir()
    for name in found:
        (home / name).mkdir() if name == "logs" else (home / name).touch()
    start(home)
    assert running(home)
    assert stop(home)


@pytest.mark.parametrize("why", ["relative", "read-only", "of another user"])
def test_without_a_home_directories_are_remembered_elsewhere(home, monkeypatch, why):
    place = home.parent.parent / "home"
    place.mkdir()
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(place))
    if why == "relative":
        monkeypatch.setenv("HOME", "home")
    elif why == "read-only":  # a file in the way: root writes anywhere
        (place / ".local").touch()
    elif os.geteuid() == 0:
        os.chown(place, 65534, -1)
    make_ours(home)
    (home / "keep").touch()

    assert running(home) is None
    assert why == "relative" or not (place / ".local" / "state").exists() or os.geteuid() != 0


def test_with_nowhere_to_remember_it_a_directory_must_be_named(home, monkeypatch):
    monkeypatch.setattr("skitter.trust._places", lambda: iter([Path("/proc/skitter")]))
    with pytest.raises(DirectoryUnusable, match=f"XDG_STATE_HOME.*SKITTER_DIR={home}"):
        make_ours(home)
    monkeypatch.setenv("SKITTER_DIR", str(home))
    with hold(home):
        assert running(home)


def test_the_key_is_the_users_alone(home):
    make_ours(home)
    key = Path(os.environ["XDG_STATE_HOME"]) / "skitter" / KEY
    assert (key.stat().st_mode & 0o777, key.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    key.chmod(0o644)  # others may have read it: what they sign is not ours
    (home / "keep").touch()
    with pytest.raises(DirectoryUnusable, match="skitter trust"):
        running(home)
    trust(home)
    assert running(home) is None
    assert EmbeddedServer(directory=home).keep.exists()
