"""Mistakes of every kind: one sentence and the right exit code, never a stack trace of ours."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from needs import need
from skitter import URLQueue

LONG = "x" * 300


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where the commands run: things that are not what their names say."""
    for name in ("adir", "adir.py", "adir.db"):
        (tmp_path / name).mkdir()
    (tmp_path / "junk.db").write_bytes(b"not a database at all" * 100)
    (tmp_path / "bin.py").write_bytes(b"\xff\xfe\x00\x01")
    (tmp_path / "spider.py").write_text(
        "from skitter import Spider\n"
        "spider = Spider('sp', ['http://127.0.0.1:9/'])\n"
        "@spider.page\n"
        "def page(page):\n"
        "    yield {'u': page.url}\n"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["run", f"{LONG}.py"], 2, "file name too long"),
        (["run", "adir.py"], 2, "is not a file"),
        (["run", "bin.py"], 2, "the spider cannot be loaded"),
        (["run", "\udcff.py"], 2, "there is no file"),
        (["run", "spider.py", "-o", f"{LONG}.db"], 2, "file name too long"),
        (["run", "spider.py", "-o", "adir.db"], 2, "is a directory"),
        (["run", "spider.py", "-o", "x.xyz"], 2, "postgresql://USER:PASSWORD@host/database"),
        (["run", "spider.py", "-o", "/proc/x.jsonl"], 3, "/proc/x.jsonl"),
        (["run", "spider.py", "--workers", "²"], 2, "--workers must be a number"),
        (["run", "spider.py", "-c", "99999999999"], 2, "--concurrency"),
        (["run", "spider.py", "--max-dead", "-1"], 2, "--max-dead"),
        (["run", "spider.py", "-a", "path"], 2, "name=value"),
        (["run", "spider.py", "-s", "fetch.nothing=1"], 2, "fetch.nothing"),
        (["run", "spider.py", "--header", "accept"], 2, "--header must be 'NAME: VALUE'"),
        (["items", "{job}"], 2, "Did you mean 'export'?"),
        (["retry", "{job}"], 2, "Did you mean 'dead retry'?"),
        (["mark_failed", "{job}"], 2, "Did you mean 'dead list'?"),
        (["run", "spider.py", "--delay", "soon"], 2, "--delay"),
        (["run", "spider.py", "--log-level", "loud"], 2, "--log-level"),
        (["config", "--max-pages", "0"], 2, "--max-pages"),
        (["crawl", "http://a.test/", "--rate", "2", "--delay", "1"], 2, "choose one"),
        (
            ["run", "spider.py", "--engine", "celery", "--max-memory", "500"],
            2,
            "--max-memory-per-child=512000",
        ),
        (["crawl", "http://127.0.0.1:9/", "--rate", "1e-300"], 2, "--rate must be requests per"),
        (
            ["export", "j", "--to", "/proc/x.csv", "--from", "junk.db"],
            2,
            "cannot write /proc/x.csv",
        ),
        (["export", "j", "--to", f"{LONG}.csv", "--from", "junk.db"], 2, "file name too long"),
        (["export", "j", "--to", "x.csv"], 2, "there is no database j.db"),
        (["export", "j", "--to", "x.xls", "--from", "junk.db"], 2, "x.xls has no known suffix"),
        (["export", "j", "--to", "-", "--from", "junk.db"], 2, "not a database. Choose another."),
        (["export", "a b", "--to", "x.csv"], 2, "is not a job name"),
        (["dead", "export", "{job}", "--to", LONG], 2, "File name too long"),
        (["dead", "export", "{job}", "--to", "adir"], 2, "Is a directory"),
        (["dead", "show", "{job}", "https://a.test/", "--body", "\udcff"], 2, "is not among"),
        (["dead", "list", "{job}", "--match", "[" * 5000], 0, ""),
        (["why", "{job}", "https://a.test/", "--body", "\udcff"], 0, ""),
        (["logs", "{job}", "-n", "99999999999999999999"], 0, ""),
        (["rejected", "{job}", "--limit", "99999999999999999999"], 0, ""),
        (["rejected", "{job}", "--limit", "-1"], 2, "--limit"),
        (["host", "{job}", ""], 2, "the host must be as in a URL"),
        (["host", "{job}", "a b"], 2, "the host must be as in a URL"),
        (["host", "{job}", "\udcff"], 2, "the host must be as in a URL"),
        (["host", "{job}", LONG], 2, "has no URL of host"),
        (["set", "{job}", "--delay", "inf"], 2, "got 'inf'"),
        (["push", "{job}", "https://a.test/\udcff"], 2, "lone surrogate"),
        (["push", "j\udcff", "https://a.test/"], 2, "is not a job name"),
        (["status", "--redis", "redis://\udcff"], 3, "does not answer"),
        (["status", "--redis", "redis://h:-1"], 2, "must be a server's URL"),
    ],
)
def test_a_mistake_is_answered_with_one_sentence(skitter, job, folder, words, code, says):
    skitter("push", job, "https://a.test/seed")
    answer = skitter(*(word.format(job=job) for word in words))

    assert answer.exit_code == code, answer.err
    assert says in " ".join(answer.err.replace("│", " ").split())
    assert "Traceback" not in answer.err


def test_a_proxy_without_its_secret_is_noticed_before_a_crawl_is_discarded(skitter, job, folder):
    skitter("push", job, "https://a.test/")
    proxy = '[[proxy]]\nname = "p"\nurl = "http://127.0.0.1:9"\nuser = "u"\nsecret = "env:NOPE"\n'
    (folder / "skitter.toml").write_text(proxy)

    answer = skitter("run", "spider.py", "--job", job, "--fresh", "--yes")

    assert answer.exit_code == 2
    assert answer.err == "skitter: set NOPE: the secret of proxy p is expected there.\n"
    assert skitter("status", job, "--json").json["seen"] == 1


def run(server_url: str, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SKITTER_REDIS_URL": server_url}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=50, check=False
    )


def test_a_directory_that_was_removed_is_named_as_such(tmp_path):
    """The shell of the user still stands in it."""
    (tmp_path / "gone").mkdir()
    command = f"rmdir ../gone; exec {sys.executable} -P -m skitter status"
    answer = subprocess.run(
        [need("bash"), "-c", command],
        cwd=tmp_path / "gone",
        env={name: value for name, value in os.environ.items() if "SKITTER" not in name},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert answer.returncode == 2
    assert answer.stderr == (
        "skitter: the current directory was removed: change to one that exists.\n"
    )


@pytest.mark.parametrize(
    "words",
    [
        ["export", "{job}", "--to", "closed/x.csv", "--from", "junk.db"],
        ["dead", "export", "{job}", "--to", "closed/x"],
        ["run", "spider.py", "-o", "closed/x.jsonl"],
        ["new", "shop", "--dir", "closed"],
    ],
)
def test_a_folder_that_may_not_be_written_is_one_sentence(skitter, server_url, job, folder, words):
    """Root may write anywhere, unless it gives that right up."""
    skitter("push", job, "https://a.test/")
    (folder / "closed").mkdir(mode=0o555)
    give_up = [need("setpriv"), "--bounding-set=-all", "--inh-caps=-all"]
    words = [word.format(job=job) for word in words]
    answer = run(server_url, *give_up, sys.executable, "-m", "skitter", *words)

    assert answer.returncode in (2, 3), answer.stderr
    assert "Traceback" not in answer.stderr
    assert "closed" in answer.stderr
    assert "hoose another" in answer.stderr  # what to do
    assert list((folder / "closed").iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [["status", "{job}", "--json"], ["--help"], ["logs", "{job}", "--json"], ["set", "{job}"]],
)
def test_a_reader_that_leaves_is_no_error(skitter, server_url, job, words):
    skitter("push", job, "https://a.test/")
    command = " ".join(word.format(job=job) for word in words)
    script = f"{sys.executable} -m skitter {command} | head -0; echo ${{PIPESTATUS[0]}}"
    answer = run(server_url, need("bash"), "-c", script)

    assert answer.stdout == "0\n"
    assert answer.stderr == ""


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["why", "{job}", "https://a.test/"], r"\u65e5\U0001f600"),
        (["why", "{job}", "https://a.test/", "--json"], r"\u65e5\ud83d\ude00"),
        (["top", "{job}", "--once"], r"\xb7"),
    ],
)
def test_a_terminal_without_unicode_shows_escapes(skitter, job, server_url, words, shown):
    with URLQueue(job, redis=server_url) as queue:
        queue.push("https://a.test/")
        task = queue.pop()
        assert task is not None
        queue.fail(task, "\u65e5\U0001f600", retry=False)
    words = [word.format(job=job) for word in words]
    answer = run(
        server_url, need("bash"), "-c",
        f"PYTHONIOENCODING=ascii {sys.executable} -m skitter {' '.join(words)}",
    )  # fmt: skip

    assert answer.returncode == 0, answer.stderr
    assert shown in answer.stdout
