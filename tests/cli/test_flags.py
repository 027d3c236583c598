"""Settings that the reference lists with a flag have it, and a flag means what it says."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "options.md"


class Site(BaseHTTPRequestHandler):
    """Each page links to all others."""

    PATHS = tuple(f"/{part}/{n}" for part in ("docs", "blog") for n in range(3))
    asked: ClassVar[list[str]] = []  # whole URLs, if we are asked as a proxy

    def do_GET(self):
        links = "".join(f"<a href='{path}'>{path}</a>" for path in self.PATHS)
        self.asked.append(self.path)
        body = f"<title>{self.path}</title><p>The page {self.path}. {links}".encode()
        self.send_response(404 if self.path.endswith("/robots.txt") else 200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def listed() -> set[str]:
    """Every flag in the reference of settings."""
    found = set(re.findall(r"`(--[a-z-]+)`", REFERENCE.read_text()))
    assert len(found) > 40
    return found


@pytest.mark.parametrize("command", ["run", "crawl"])
def test_every_flag_of_the_reference_exists(skitter, command):
    shown = skitter(command, "--help").out

    assert listed() - set(re.findall(r"--[a-z-]+", shown)) == set()


def test_patterns_may_be_given_one_by_one(skitter):
    words = ("--exclude", "/a/*", "--exclude", "/b/*", "--include", "/c/* /d/*", "--retry-cap", "7")

    found = skitter("config", *words, "--json").json

    assert found["limits.exclude"]["value"] == "/a/* /b/*"
    assert found["limits.include"]["value"] == "/c/* /d/*"
    assert found["retries.cap_s"] == {"value": 7.0, "from": "flag --retry-cap"}


def test_a_crawl_follows_what_include_names_and_leaves_out_what_exclude_does(
    skitter, job, tmp_path, site, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    words = ("--include", "/docs/*", "--exclude", "*/2", "--delay", "0", "-p", "1", "--job", job)

    report = skitter("crawl", site, *words, "--json")

    assert report.exit_code == 0
    assert (report.json["end"], report.json["dead"]) == ("finished", 0)
    assert report.json["kept_out"] == {"pattern": 4}
    rows = [json.loads(line) for line in (tmp_path / f"{job}.jsonl").read_text().splitlines()]
    paths = sorted(row["url"].removeprefix(site) for row in rows)
    assert paths == ["", "docs/0", "docs/1"]
    assert skitter("why", job, f"{site}blog/1").out.count("of the option include") == 1


def test_a_crawl_leaves_by_the_proxy_of_its_environment(skitter, job, tmp_path, site, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Site.asked.clear()
    monkeypatch.setenv("http_proxy", site.replace("://", "://me:s3cret@"))
    words = ("--job", job, "--include", "/docs/*", "--delay", "0", "-p", "1", "--json")

    report = skitter("crawl", "http://shop.example/", *words)

    assert (report.exit_code, report.json["pages"], report.json["dead"]) == (0, 4, 0)
    pages = ["", "docs/0", "docs/1", "docs/2", "robots.txt"]
    assert sorted(Site.asked) == [f"http://shop.example/{page}" for page in pages]
    assert "s3cret" not in report.out + report.err


def test_a_crawl_stops_at_max_time_and_goes_on_when_run_again(
    skitter, job, tmp_path, site, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    words = ("crawl", site, "--job", job, "-p", "1", "--json")

    first = skitter(*words, "--delay", "60", "--max-time", "3s")
    again = skitter(*words, "--delay", "0", "--in-flight", "9")

    pages = first.json["pages"]  # 0 on a machine that is very busy: then it has failed
    assert (first.exit_code, first.json["finished"]) == (int(not pages), False)
    left = "1 URL" if not pages else f"{7 - pages} URLs"
    assert first.json["end"] == f"stopped at --max-time 3 s; {left} left; run it again to continue"
    assert (again.exit_code, again.json["pages"], again.json["end"]) == (0, 7, "finished")
    rows = [json.loads(line) for line in (tmp_path / f"{job}.jsonl").read_text().splitlines()]
    assert len({row["url"] for row in rows}) == len(rows) == 7
    assert skitter(*words, "--max-time", "soon").exit_code == 2
