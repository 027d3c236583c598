"""What a user sets reaches the wire, and the job; real processes, a real server."""

from __future__ import annotations

import asyncio
import http.server
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from forks import Nursery
from skitter.app import open_server
from skitter.embedded import stop
from skitter.frontier.jobs import open_job
from skitter.settings import JobOptions, Settings

pytestmark = pytest.mark.timeout(300)

SPIDER = """
from skitter import FetchOptions, Limits, Politeness, Spider

def spider(path: str = "one") -> Spider:
    made = Spider("site", start=["{url}/" + path], politeness=Politeness(delay_s=0.5),
                  fetch=FetchOptions(headers={{"X-From": "spider"}}))

    @made.page
    def page(page):
        yield {{"path": path, "size": len(page.body)}}

    return made
"""


@dataclass
class Site:
    url: str = ""
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def headers(self, path: str) -> dict[str, str]:
        return next(headers for asked, headers in self.asked if asked == path)


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.asked.append((self.path, {k.lower(): v for k, v in self.headers.items()}))
            body = b"" if self.path == "/robots.txt" else b"x" * 20_000
            self.send_response(404 if self.path == "/robots.txt" else 200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            if self.path == "/slow":
                gone.wait(30)
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    gone = threading.Event()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    site.url = f"http://127.0.0.1:{server.server_port}"
    yield site
    gone.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def skitter(short_dir, site, nursery: Nursery):
    """In a folder with the spider; answers the report of `run --json`, and what was said."""
    folder = short_dir / f"set{os.getpid()}-{len(list(short_dir.iterdir()))}"
    folder.mkdir()
    (folder / "site.py").write_text(SPIDER.format(url=site.url))
    clean = {k: v for k, v in os.environ.items() if not k.startswith("SKITTER_")}

    def call(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return nursery.call(words, folder=folder, environment=clean | environment)

    call.folder = folder  # type: ignore[attr-defined]
    yield call
    stop(folder / ".skitter")


def run(skitter, *words: str, **environment: str):
    """Into a file: two processes less import SQLAlchemy."""
    out = ("-o", "site.jsonl")
    return skitter("run", "site.py", "--workers", "1", "--json", *out, *words, **environment)


def test_what_is_set_reaches_the_wire(skitter, site):
    (skitter.folder / "skitter.toml").write_text(
        '[fetch]\nuser_agent = "file"\n[fetch.headers]\nX-From = "file"\n'
        '[job.site.fetch]\naccept = "text/x-job"\n'
    )

    done = run(skitter, "--user-agent", "flag/1", "-a", "path=two", "--log-level", "debug")

    assert json.loads(done.stdout)["items"] == 1, done.stderr
    sent = site.headers("/two")
    assert (sent["user-agent"], sent["accept"], sent["x-from"]) == ("flag/1", "text/x-job", "file")
    assert site.headers("/robots.txt")["user-agent"] == "flag/1"


def test_the_environment_and_the_spider_reach_the_wire(skitter, site):
    run(skitter, SKITTER_FETCH_USER_AGENT="env/1")

    assert site.headers("/one")["user-agent"] == "env/1"
    assert site.headers("/one")["x-from"] == "spider"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-s", "fetch.max_body_mb=0.01"], "the body is over 0.01 MB"),
        (
            ["-a", "path=slow", "--timeout", "0.5", "-s", "retries.max_retries=0"],
            "longer than 0.5 s",
        ),
    ],
)
def test_limits_reach_the_wire(skitter, words, says):
    done = run(skitter, *words)

    assert says in done.stdout, done.stdout + done.stderr


def test_a_secret_header_is_neither_in_the_process_list_nor_in_what_is_shown(skitter, site):
    check = (
        "import os\n"
        "        words = open('/proc/self/cmdline').read()\n"
        "        assert 'hush' not in words and 'SKITTER_WORKER' not in os.environ\n"
        "        yield"
    )
    spider = (skitter.folder / "site.py").read_text().replace("yield", check)
    (skitter.folder / "site.py").write_text(spider)

    done = run(skitter, "--header", "Authorization: hush")

    assert json.loads(done.stdout)["items"] == 1, done.stdout + done.stderr
    assert site.headers("/one")["authorization"] == "hush"
    shown = skitter("config", "--header", "Authorization: hush")
    assert '{Authorization = "(hidden)"}' in shown.stdout
    assert "hush" not in shown.stdout


async def options_in(folder: Path) -> JobOptions:
    async with open_server(Settings(directory=folder / ".skitter")) as server:
        return (await open_job(server, "site")).options


def test_what_an_operator_set_stays_until_a_flag_or_fresh(skitter):
    def limits() -> tuple[float, object]:
        found = asyncio.run(options_in(skitter.folder))
        return found.politeness.delay_s, found.limits.max_pages

    run(skitter)
    assert limits() == (0.5, None)
    skitter("set", "site", "--delay", "2", "--max-pages", "7")

    kept = run(skitter)
    assert limits() == (2, 7)
    assert "keeps what `skitter set` changed: delay_s=2.0 (not 0.5), max_pages=7" in kept.stderr

    flagged = run(skitter, "--delay", "0.1")
    assert limits() == (0.1, 7)
    assert "--delay replaces delay_s=2.0, which `skitter set` had set" in flagged.stderr

    run(skitter)
    assert limits() == (0.5, 7)  # the flag was for that run

    run(skitter, "--fresh", "--yes")
    assert limits() == (0.5, None)


def test_one_spider_has_several_jobs(skitter):
    skitter("run", "site.py", "--workers", "1", "-a", "path=two", "--job", "second")

    assert "second" in skitter("status", "--json").stdout
    assert (skitter.folder / "second.db").exists()


def test_a_mistake_is_one_sentence_and_exit_code_2(skitter):
    """Others are in tests/cli/test_mistakes.py, without a process."""
    done = skitter("run", "site.py", "-a", "pth=1")

    assert done.returncode == 2
    assert done.stderr.startswith("skitter: ")
    assert len(done.stderr.splitlines()) == 1
    assert not (skitter.folder / ".skitter").exists()


def test_config_tells_where_each_value_came_from(skitter):
    (skitter.folder / "skitter.toml").write_text("[job.site.limits]\nmax_pages = 5\n")

    shown = json.loads(skitter("config", "site.py", "--json", "-s", "log.level=error",
                               SKITTER_REDIS_URL="redis://u:hush@h:1").stdout)  # fmt: skip

    assert shown["politeness.delay_s"] == {"value": 0.5, "from": "the spider"}
    assert shown["limits.max_pages"]["value"] == 5
    assert shown["limits.max_pages"]["from"].endswith("skitter.toml, [job.site]")
    assert shown["log.level"] == {"value": "error", "from": "flag --log-level"}
    assert shown["retries.max_retries"] == {"value": 3, "from": "default"}
    assert shown["server.redis_url"]["from"] == "SKITTER_REDIS_URL"
    assert "hush" not in json.dumps(shown)
