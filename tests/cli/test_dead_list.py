"""The list of dead letters, whatever is in them."""

from __future__ import annotations

import io
import re
import sys

import pytest
from rich.console import Console

from skitter import URLQueue
from skitter.cli.commands import dead
from skitter.cli.commands.dead import _cells
from skitter.cli.show import console
from skitter.frontier.records.failed import FailedPage, FailedPages
from skitter.model import DeadLetter, Request


@pytest.mark.parametrize("url", ["feed:" + "x" * 300_000, "https://a.test/"])
def test_a_message_and_a_reason_of_any_length_take_a_few_lines(url):
    letter = DeadLetter(
        shard=0,
        fingerprint="1",
        url=url,
        reason="y" * 300_000,
        at=0.0,
        failures=1,
        losses=0,
        priority=0,
        request=Request(url),
    )
    assert all(len(str(cell)) < 350 for cell in _cells(letter))


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_line_break_in_a_message_looks_like_no_other_letter(monkeypatch, width, is_terminal):
    shown = io.StringIO()
    rich = Console(
        file=shown, force_terminal=is_terminal, width=width, highlight=False, soft_wrap=True
    )
    monkeypatch.setattr(shown, "isatty", lambda: is_terminal)
    monkeypatch.setattr(sys, "stdout", shown)
    monkeypatch.setattr(dead, "out", rich)
    monkeypatch.setattr(console, "out", rich)

    dead._show_list([["feed:x\nhttps://a.test/  404", "bad\nhttps://b.test/  404", 1, "now"]])

    assert not re.search(r"^(\x1b\[\d+m)*https://", shown.getvalue(), re.MULTILINE)
    assert "https://a.test/" in shown.getvalue()


@pytest.fixture
def gone(job, server_url):
    """Three pages that were not found, at addresses of their own, and one that was busy."""
    with URLQueue(job, redis=server_url) as queue:
        for host in ("a", "b", "c", "d"):
            queue.push(f"https://{host}.test/")
        while task := queue.pop():
            busy = task.host == "d.test"
            queue.fail(task, "503 Busy" if busy else f"404: {task.url}", retry=False)
    return job


REASONS = "The reasons are: 404: … (3); 503 Busy (1)."


@pytest.mark.parametrize("verb", ["list", "retry", "drop", "export"])
def test_a_reason_that_no_letter_has_is_answered_with_those_that_there_are(
    skitter, gone, verb, tmp_path
):
    to = ["--to", str(tmp_path / "dead.jsonl")] if verb == "export" else []
    said = skitter("dead", verb, gone, "--reason", "418", *to)
    assert (said.exit_code, said.err) == (0, "")
    assert said.out == f"{gone}: no dead letter has the reason '418'. {REASONS}\n"
    both = skitter("dead", verb, gone, "--reason", "503", "--match", "https://a*", *to)
    at_a = "no dead letter at a URL that matches 'https://a*' has the reason '503'"
    assert both.out == f"{gone}: {at_a}. {REASONS}\n"
    url = skitter("dead", verb, gone, "--match", "nowhere", *to).out
    assert url.startswith(f"{gone}: no dead letter has a URL that matches 'nowhere': ")


def test_a_reason_may_be_copied_from_the_list_of_those_that_there_are(skitter, gone):
    assert skitter("dead", "retry", gone, "--reason", "404: …").out == f"{gone}: 3 retried.\n"
    assert skitter("dead", "retry", gone, "--reason", "418", "--json").json["retried"] == 0
    skitter("dead", "drop", gone, "--all")
    assert skitter("dead", "retry", gone, "--reason", "418").out == f"{gone}: no dead letters.\n"


SHOP = """
from skitter import Spider

spider = Spider("shop", "https://shop.example/")


@spider.page
def book(page):
    yield {"price": float(page.css_first(".price").text())}
"""


async def test_a_page_that_failed_is_saved_handled_here_and_made_a_test(
    frontier, skitter_here, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    spider = tmp_path / "shop.py"
    spider.write_text(SHOP)
    url, other = "https://shop.example/b?token=geheim", "https://shop.example/c"
    pages = FailedPages(most=9, max_mb=9)
    for number, (address, body) in enumerate(
        [(url, b"<p class=price>free"), (other, b"<p class=price>9")], 7
    ):
        page = FailedPage(
            fingerprint=str(number),
            url=address,
            reason="handler book failed: ValueError",
            at=1.0,
            status=200,
            headers=[("content-type", "text/html")],
            body=body,
            traceback="ValueError: free",
            request={"parent": "https://shop.example/?token=geheim"},
        )
        pages.add(page)
    await pages.send(frontier)
    job, shown = frontier.job, "https://shop.example/b?token=***"

    for name in (url, shown, "7"):
        saved = await skitter_here("dead", "show", job, name, "--page")
        assert (saved.exit_code, shown in saved.out) == (0, True), saved.err
        assert "geheim" not in saved.out
    assert "ValueError: free" in saved.out
    assert (tmp_path / "failed-7.html").read_bytes() == b"<p class=price>free"
    assert (tmp_path / "failed-7.html").stat().st_mode & 0o77 == 0
    document = (await skitter_here("dead", "show", job, url, "--page", "--json")).json
    assert (document["url"], document["request"]["parent"][-3:]) == (shown, "***")
    whole = await skitter_here("dead", "show", job, url, "--page", "--json", "--with-secrets")
    assert whole.json["url"] == url
    missing = await skitter_here("dead", "show", job, "https://shop.example/x", "--page")
    assert (missing.exit_code, f"it has {shown}, {other}." in missing.err) == (2, True)

    again = await skitter_here("shell", shown, "--dead", job, "--spider", "shop.py", stdin="1 + 1")
    assert again.out == "2\n"
    assert "could not convert string to float: 'free'" in again.err
    assert "geheim" not in again.err
    repaired = await skitter_here("shell", other, "--dead", job, "--spider", "shop.py", stdin="1")
    assert "does not fail any more" in repaired.err

    fails = await skitter_here("test", "add", "shop.py", url, "--dead", job)
    assert (fails.exit_code, (tmp_path / "fixtures").exists()) == (1, False)
    added = await skitter_here("test", "add", "shop.py", other, "--dead", job)
    assert "1 item and 0 links" in added.out + added.err
    assert (await skitter_here("test")).exit_code == 0
    spider.write_text(SHOP.replace("float(", "1 + float("))
    assert (await skitter_here("test")).exit_code == 1
