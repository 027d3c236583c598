"""push: lines of a file, and of somebody who is still writing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from skitter.cli.commands.jobs import BATCH
from skitter.frontier.feed import take_feed
from skitter.frontier.identities import SCRAPY, scrapy_identity
from skitter.frontier.jobs import note_fingerprinter, open_job
from skitter.frontier.transport.keys import feed_key
from skitter.model import Added, Request
from waiting import PATIENCE_S, Child, until


def test_a_bad_line_is_told_with_what_went_in_before_it(skitter, job, tmp_path):
    first, later = tmp_path / "first.txt", tmp_path / "later.txt"
    first.write_text("no-url\nhttps://a.test/\n")
    later.write_text("".join(f"https://a.test/{n}\n" for n in range(BATCH)) + "no-url\n")

    at_once, after = skitter("push", job, "-f", str(first)), skitter("push", job, "-f", str(later))

    assert (at_once.exit_code, after.exit_code) == (2, 2)
    assert f"{first}, line 1: " in at_once.err
    assert "Nothing was added. Correct the line, or " in at_once.err
    assert f"{later}, line 2,001: " in after.err
    assert "2,000 URLs before it went in, and may be pushed again without harm." in after.err


def test_a_file_that_is_not_there_is_told_with_its_option(skitter, job):
    answer = skitter("push", job, "--file", "nowhere.txt")
    assert answer.err == (
        "skitter: cannot read nowhere.txt: no such file or directory. Check the path of --file.\n"
    )


def test_one_ctrl_c_ends_a_push_that_waits_for_lines(skitter, job, server_url):
    with Child(
        [sys.executable, "-m", "skitter", "push", job, "-"],
        env={**os.environ, "SKITTER_REDIS_URL": server_url},
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as push:
        assert push.stdin is not None
        push.stdin.write("".join(f"https://a.test/{n}\n" for n in range(BATCH)))
        push.stdin.flush()
        until(lambda: f" {BATCH:,}" in skitter("status", job).out)
        push.send_signal(signal.SIGINT)
        assert push.wait(PATIENCE_S) == 130
        assert push.stderr is not None
        assert push.stderr.read() == ""


def test_lines_are_pushed_as_they_come(skitter, job, server_url):
    with Child(
        [sys.executable, "-m", "skitter", "push", job, "-", "--skip-bad"],
        env={**os.environ, "SKITTER_REDIS_URL": server_url},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as push:
        assert push.stdin is not None
        push.stdin.write("https://a.test/1\n\nhttps://a.test/")
        push.stdin.flush()
        until(lambda: skitter("status", job, "--json").out.find('"pending": 1') > 0)
        push.stdin.write("2\nno-url\nhttps://a.test/ü")
        out, err = push.communicate(timeout=PATIENCE_S)

    assert (push.returncode, out) == (0, f"{job}: 3 new, 0 already seen, 1 bad\n")
    assert err.startswith("skipped standard input, line 4: ")


async def test_a_url_that_a_scrapy_node_has_fetched_is_not_new(server, frontier, skitter_here):
    url = "https://shop.test/?a=1&b=2"
    await note_fingerprinter(frontier, SCRAPY)
    await frontier.add([Request(url, identity=scrapy_identity(url, "GET", b""), slot="shop.test")])

    pushed = await skitter_here("push", frontier.job, "https://shop.test/?b=2&a=1")
    await server.command("LPUSH", feed_key(frontier.job), url)
    again = await open_job(server, frontier.job)

    assert pushed.out == f"{frontier.job}: 0 new, 1 already seen\n"
    assert await take_feed(again) == 1
    assert await again.add([Request(url)]) == [Added.SEEN]
    assert (await again.stats()).pending == 1


async def test_what_only_a_scrapy_node_can_identify_is_refused(frontier, skitter_here):
    await note_fingerprinter(frontier, "shop.fingerprints.Mine")

    refused = await skitter_here("push", frontier.job, "https://shop.test/")

    assert refused.exit_code == 2
    assert "tell pages apart with shop.fingerprints.Mine: only they can add a URL." in refused.err
    assert f"`redis-cli lpush skitter:{frontier.job}:feed URL` hands it to one." in refused.err
