"""`skitter crawl` does what its help says."""

import json
import socket
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import redis

from skitter.cli.crawl import PLAIN, plan_of
from skitter.fetch.http import guard


def test_the_help_names_the_file_that_is_written(skitter):
    plan = plan_of(PLAIN, {"name": "JOB", "urls": ["https://a.test/"], "sitemap": False}, None, {})

    shown = skitter("crawl", "--help").out

    assert f"(crawl: {plan.out})" in shown


def test_a_start_url_that_is_none_is_named_whatever_the_job_is_called(skitter, job):
    answer = skitter("crawl", "http://127.0.0.1/", "nowhere", "--job", job)

    assert answer.exit_code == 2
    assert answer.err.startswith("skitter: cannot use 'nowhere' as a URL: it has no scheme")


def test_a_host_that_does_not_exist_is_told_before_a_job_is_made(skitter, job, monkeypatch):
    def look_up(name):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(guard, "_system_addresses", look_up)

    answer = skitter("crawl", "http://shop.invalid/", "http://shop.invalid/2", "--job", job)

    assert answer.exit_code == 1
    assert answer.err == "skitter: http://shop.invalid/2: host not found: shop.invalid\n"
    assert skitter("status", job).exit_code != 0


def test_a_name_server_that_is_away_does_not_refuse_a_crawl(skitter, job, monkeypatch, tmp_path):
    def look_up(name):
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(guard, "_system_addresses", look_up)
    monkeypatch.chdir(tmp_path)

    words = ("--job", job, "--max-time", "1s", "-p", "1")
    answer = skitter("crawl", "http://shop.invalid/", *words)

    assert "the name server does not answer: the crawl waits for it." in answer.err
    assert "stopped at --max-time 1 s; 1 URL left; run it again to continue" in answer.out


@contextmanager
def serving(folder):
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_a_crawl_at_its_limit_says_so_later_and_where_its_rows_are(
    skitter, tmp_path, monkeypatch, job
):
    (tmp_path / "index.html").write_text("<a href=two.html>next</a>")
    monkeypatch.chdir(tmp_path)
    with serving(tmp_path) as url:
        crawled = skitter("crawl", url, "--max-pages", "1", "-p", "1", "--job", job)

    assert crawled.exit_code == 0, crawled.err
    shown = map(str.split, skitter("status", job).out.splitlines())
    assert ["state", "finished,", "at", "max_pages"] in shown
    listed = next(line for line in skitter("status").out.splitlines() if line.startswith(job + " "))
    assert "at max_pages" in listed
    exported = skitter("export", job, "--to", "x.csv")
    assert f"the rows of {job} are in {job}.jsonl" in exported.err


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def test_each_format_of_the_same_urls_is_a_crawl_of_its_own(skitter, tmp_path, monkeypatch):
    """Rows of two formats do not mix, and a second run adds none."""
    (site := tmp_path / "site").mkdir()
    menu = "<nav>Menu <a href=two.html>next</a></nav>"
    (site / "index.html").write_text(f"{menu}<h1>Home</h1><p>Start</p>")
    (site / "two.html").write_text("<h1>Two</h1>")
    monkeypatch.chdir(tmp_path)
    with serving(site) as url:
        for more in 2 * [(), ("--format", "markdown")]:
            answer = skitter("crawl", url, "--delay", "0", "-p", "1", *more)
            assert answer.exit_code == 0, answer.err

    files = [one.read_text().splitlines() for one in tmp_path.glob("*.jsonl")]
    plain, written = sorted(([json.loads(line) for line in one] for one in files), key=str)
    if "markdown" in plain[0]:
        plain, written = written, plain
    assert sorted(row["text"] for row in plain) == ["Home\n\nStart", "Two"]
    assert sorted(row["markdown"] for row in written) == ["# Home\n\nStart", "# Two"]


#: Of a page with next to no text, the menu is a part.
LONG = 20 * " and on"


def test_a_job_of_an_earlier_release_goes_on_in_its_format_and_says_so(
    skitter, tmp_path, monkeypatch, job, server_url
):
    """Rows of one job mean the same, whatever the default is by now."""
    (site := tmp_path / "site").mkdir()
    (site / "index.html").write_text(f"<nav>Menu <a href=two.html>next</a></nav><p>Start{LONG}</p>")
    (site / "two.html").write_text(f"<nav>Menu</nav><p>Two{LONG}</p>")
    monkeypatch.chdir(tmp_path)
    words = ("--delay", "0", "-p", "1", "--job", job)

    def texts():
        return sorted(
            json.loads(line)["text"] for line in Path(f"{job}.jsonl").read_text().splitlines()
        )

    with serving(site) as url:
        skitter("crawl", url, *words, "--max-pages", "1", "--format", "raw-text")
        with redis.Redis.from_url(server_url) as client:  # they did not note it
            assert client.hdel(f"skitter:{{{job}:0}}:control", "says") == 1
        again = skitter("crawl", url, *words)
        other = skitter("crawl", url, *words, "--format", "markdown")
        mixed = texts()
        fresh = skitter("crawl", url, *words, "--fresh", "--yes")

    assert (
        f"{job} keeps --format raw-text, as it began: --fresh starts over with text." in again.err
    )
    assert mixed == [f"Menu Two{LONG}", f"Menu next Start{LONG}"]
    assert other.exit_code == 2
    assert f"job '{job}' was created with format=raw-text" in other.err
    assert fresh.exit_code == 0, fresh.err
    assert texts() == [f"Start{LONG}", f"Two{LONG}"]
