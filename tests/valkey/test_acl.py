"""docs/security.md has an ACL of least rights: a crawl and all commands work under it."""

from __future__ import annotations

import os
import re
import shlex
from itertools import count
from pathlib import Path

import pytest
from redis import Redis, RedisError

from cli.conftest import skitter  # noqa: F401
from forks import Place
from shops import open_bookshop
from skitter import Page, Politeness, Spider
from skitter.embedded import hold
from skitter.errors import ServerRefused, ServerUnreachable
from skitter.frontier.transport.connection import connect
from waiting import PATIENCE_S, until

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
COMMANDS = (
    "status crawler", "audit crawler", "audit crawler --politeness", "doctor", "dead list crawler",
    "logs crawler", "hosts crawler", "quality crawler", "pause crawler", "resume crawler",
    "set crawler --delay 2", "scale crawler 2", "schedule list", "proxy stats", "token list",
    "why crawler http://localhost:1/", "purge crawler --yes",
)  # fmt: skip


FOUND = re.search(r"^ *user crawler (on >PASSWORD .+)$", PAGE.read_text(), re.MULTILINE)
RIGHTS = FOUND[1].split() if FOUND else []
NUMBERS = count()


@pytest.fixture
def crawler(short_dir):
    """The address of the server for a user with the rights of the page, and its administrator."""
    with (
        hold(short_dir / f"acl{next(NUMBERS)}") as server,
        Redis.from_url(server.url) as administrator,
    ):
        administrator.execute_command("ACL", "SETUSER", "crawler", *RIGHTS)
        administrator.acl_log_reset()
        yield server.url.replace("unix://", "unix://crawler:PASSWORD@"), administrator


def test_a_crawl_and_all_commands_need_no_more_rights(crawler, skitter, tmp_path, monkeypatch):  # noqa: F811
    url, administrator = crawler
    with open_bookshop(tmp_path / "log", books=50) as shop:
        spider = Spider("crawler", shop.url, politeness=Politeness(delay_s=0, max_in_flight=8))

        @spider.page
        def home(page: Page):
            yield {"url": page.url}
            yield from page.follow_all("nav a")

        report = spider.run_sync(str(tmp_path / "out.db"), redis=url)
    assert report.finished
    assert report.items > 1
    monkeypatch.setenv("SKITTER_REDIS_URL", url)
    codes = {command: skitter(*shlex.split(command)).exit_code for command in COMMANDS}

    assert {command for command, code in codes.items() if code} == set()
    asked = {entry["object"] for entry in administrator.acl_log()}
    assert asked <= {"config|get"}  # which doctor can do without


SPIDER = """
from skitter import Spider, Politeness

spider = Spider("crawler", {url!r}, politeness=Politeness(delay_s=0, max_in_flight=4))

@spider.page
def any_page(page):
    yield {{"url": page.url}}
    yield from page.follow_all("nav a")
"""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mistake", ["-@all", "resetpass >ANOTHER"])
def test_a_crawl_waits_for_the_rights_that_it_had(crawler, skitter, nursery, tmp_path, mistake):  # noqa: F811
    url, administrator = crawler
    log = tmp_path / "run.log"
    with open_bookshop(tmp_path / "log", books=50) as shop, log.open("w") as output:
        (tmp_path / "spider.py").write_text(SPIDER.format(url=shop.url))
        words = ["run", "spider.py", "--workers", "1", "-o", "out.db", "--redis", url]
        run = nursery.start(words, Place(tmp_path, dict(os.environ), output, output))
        until(lambda: administrator.hlen("skitter:{crawler:0}:holder"))
        administrator.execute_command("ACL", "SETUSER", "crawler", *mistake.split())
        administrator.execute_command("CLIENT", "KILL", "USER", "crawler")
        until(lambda: "accepted us before and now refuses us" in log.read_text() or run.poll())
        administrator.execute_command("ACL", "SETUSER", "crawler", *RIGHTS)

        assert run.wait(timeout=PATIENCE_S) == 0, log.read_text()
    assert "The server is back after " in log.read_text()
    assert skitter("audit", "crawler", "--redis", url).exit_code == 0
    assert skitter("status", "crawler", "--redis", url, "--json").json["dead"] == 0


async def test_only_what_was_accepted_before_is_worth_waiting_for(crawler):
    url, administrator = crawler
    async with connect(url) as server:
        await server.command("HSET", "skitter:x", "a", 1)
        for _ in range(2):
            with pytest.raises(ServerRefused, match="enough rights"):
                await server.command("HSET", "books:stats", "a", 1)
        administrator.execute_command("ACL", "SETUSER", "crawler", "-@all")
        with pytest.raises(ServerUnreachable, match="accepted us before"):
            await server.command("HSET", "skitter:x", "a", 1)


@pytest.mark.parametrize(
    "command", ["FLUSHALL", "CONFIG SET dir /", "KEYS *", "ACL LIST", "SHUTDOWN", "SET other 1"]
)
def test_that_user_can_do_nothing_else_to_the_server(crawler, command):
    with Redis.from_url(crawler[0]) as client, pytest.raises(RedisError, match=r"[Nn]o permission"):
        client.execute_command(*command.split())
