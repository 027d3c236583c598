"""Log-ins: once per session, by one worker while others wait; again when a page says so."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from conftest import rude
from skitter.errors import SpiderError
from skitter.frontier.audit.auditor import audit
from skitter.frontier.dead import dead_letters
from skitter.frontier.frontier import Frontier
from skitter.frontier.jobs import create_job
from skitter.frontier.sites import sessions
from skitter.settings import JobOptions, Politeness, Retries, SessionPool
from skitter.spider import Scope, Spider
from web import Answer, Asked, serve_web
from worker.members import PASSWORD, Shop, member

TESTS = Path(__file__).parents[1]


@pytest.fixture
async def frontier(server, job) -> Frontier:
    return await create_job(server, job, options=rude())


async def everything(server) -> bytes:
    """All that the server holds."""
    found = b""
    async for key in server.client.scan_iter(count=1000):
        found += key + (await server.command("DUMP", key) or b"")
    return found


async def test_several_workers_log_in_once(server, frontier, job):
    shop = Shop(pages=40)
    async with serve_web(shop) as web:
        others = [await create_job(server, job) for _ in range(3)]
        await frontier.add([seed async for seed in member(job, web).seeds()])
        await asyncio.gather(*(web.crawl(one, member(job, web)) for one in others))

    assert shop.seen["/enter"] == 1
    stats = await frontier.stats()
    assert (stats.done, stats.dead, stats.retried) == (41, 0, 0)
    assert (await audit(frontier)).clean


async def test_a_session_that_was_logged_out_is_logged_in_again(frontier, job):
    shop = Shop(expires_after=4)
    async with serve_web(shop) as web:
        await web.crawl(frontier, member(job, web))

    stats = await frontier.stats()
    assert (stats.done, stats.dead) == (11, 0)
    assert shop.seen["/enter"] >= 3
    assert stats.retried > 0


async def test_a_page_may_say_so_in_its_own_words(frontier, job):
    shop, out = Shop(expires_after=4), []

    def polite_shop(asked: Asked) -> Answer:
        answer = shop(asked)
        return Answer("please log in") if answer.status == 302 else answer

    async with serve_web(polite_shop) as web:
        spider = member(job, web)

        @spider.is_logged_out
        async def is_logged_out(page):
            out.append("please" in page.text)
            return out[-1]

        await web.crawl(frontier, spider)

    stats = await frontier.stats()
    assert (stats.done, stats.dead, any(out)) == (11, 0, True)


async def test_a_sitemap_is_not_asked_whether_it_says_so(frontier, job):
    shop = Shop()

    def with_sitemap(asked: Asked) -> Answer:
        answer = shop(asked)
        listed = f"<urlset><url><loc>{web.url('/listed')}</loc></url></urlset>"
        return Answer(listed) if asked.path == "/sitemap.xml" and answer.status == 200 else answer

    async with serve_web(with_sitemap) as web:
        spider = member(job, web, sitemap=web.url("/sitemap.xml"))
        spider.is_logged_out(lambda page: "inside" not in page.text)
        await web.crawl(frontier, spider)

    assert (shop.seen["/sitemap.xml"], shop.seen["/listed"]) == (1, 1)
    assert (await frontier.stats()).dead == 0


async def test_a_rule_that_fails_is_named_and_not_taken_for_an_answer(server, job):
    options = JobOptions(politeness=rude().politeness, retries=Retries(max_retries=0))
    frontier = await create_job(server, job, options=options)
    async with serve_web(Shop(pages=0)) as web:
        spider = member(job, web)

        @spider.is_logged_out
        def is_logged_out(page):
            return page.url.endswith("/") and not page.nonsense

        await web.crawl(frontier, spider)

    [letter] = [one async for one in dead_letters(frontier)]
    assert letter.reason.startswith("the log-in failed: SpiderError: is_logged_out failed")
    assert "nonsense" in letter.reason


async def test_a_page_that_always_says_so_is_given_up(server, job):
    options = JobOptions(politeness=rude().politeness, retries=Retries(max_retries=2))
    frontier = await create_job(server, job, options=options)
    shop = Shop()
    async with serve_web(shop) as web:
        spider = member(job, web)
        spider.is_logged_out(lambda page: page.url.endswith("/p3"))
        await web.crawl(frontier, spider)

    [letter] = [one async for one in dead_letters(frontier)]
    assert letter.url.endswith("/p3")
    assert letter.reason == "its session is logged out"
    assert (await frontier.stats()).done == 10
    assert shop.seen["/p3"] == 3


async def test_a_wrong_password_is_said_and_not_tried_for_ever(server, job, monkeypatch, caplog):
    monkeypatch.setattr(sessions, "LOGIN_REST_S", 0.05)
    options = JobOptions(politeness=rude().politeness, retries=Retries(max_retries=2, base_s=0.01))
    frontier = await create_job(server, job, options=options)
    shop = Shop()
    async with serve_web(shop) as web:
        await web.crawl(frontier, member(job, web, password="wrong-password"))

    [letter] = [one async for one in dead_letters(frontier)]
    assert letter.reason == (
        f"the log-in failed: {web.url('/enter')} still asks to log in: "
        "check the user name and the password"
    )
    assert 1 <= shop.seen["/enter"] <= 3
    assert shop.seen["/"] == 0
    assert "wrong-password" not in caplog.text
    assert b"wrong-password" not in await everything(server)


async def test_the_password_is_never_on_the_server_nor_in_the_log(server, frontier, job, caplog):
    held = []

    async def looking(asked: Asked) -> Answer:
        if asked.path == "/enter":
            held.append(await everything(server))
        return shop(asked)

    shop = Shop(pages=3)
    async with serve_web(looking) as web:
        await web.crawl(frontier, member(job, web))

    assert shop.seen["/enter"] == 1
    assert not any(PASSWORD.encode() in one for one in (*held, await everything(server)))
    assert PASSWORD not in caplog.text


@pytest.mark.parametrize(
    "field",
    [
        "<input type=password name=pin>",  # sent in the query, and the page still asks for it
        "<select name=pin><option>1</select>",  # a page may call anything a password
    ],
)
async def test_a_log_in_that_fails_does_not_quote_the_password(
    server, job, monkeypatch, caplog, field
):
    monkeypatch.setattr(sessions, "LOGIN_REST_S", 0.01)
    monkeypatch.setenv("PIN", PASSWORD)
    options = JobOptions(politeness=rude().politeness, retries=Retries(max_retries=0))
    frontier = await create_job(server, job, options=options)
    async with serve_web(lambda asked: Answer(f"<form action=/enter>{field}</form>")) as web:
        spider = Spider(job, start=[web.url()])
        spider.page(print)

        @spider.login(web.url("/login"))
        def login(page):
            return page.form().fill(pin=os.environ["PIN"]).submit()

        await web.crawl(frontier, spider)

    [letter] = [one async for one in dead_letters(frontier)]
    assert "the log-in failed" in letter.reason
    assert PASSWORD.encode() not in await everything(server)
    assert PASSWORD not in caplog.text


async def test_each_session_of_a_pool_logs_in_for_itself(frontier, job):
    shop = Shop(pages=20)
    async with serve_web(shop) as web:
        await web.crawl(frontier, member(job, web, sessions=SessionPool(size=3)))

    assert shop.seen["/enter"] == 3
    assert len({one.cookies.get("sid") for one in web.asked if one.path.startswith("/p")}) == 3


async def test_a_token_goes_to_its_origin_alone_and_on_to_other_workers(server, frontier, job):
    def api(asked: Asked) -> Answer:
        if asked.path == "/token":
            return Answer('{"token": "t1"}' if asked.body == b'{"key":"k"}' else "", status=200)
        sent = asked.headers.get("authorization")
        if asked.host == "api.test" and asked.path != "/login" and sent != "Bearer t1":
            return Answer(status=401)
        return Answer(f"<a href=/2><a href='{web.url('/x', host='other.api.test')}'>{sent}")

    async with serve_web(api) as web:
        spider = Spider(job, start=[web.url(host="api.test")], scope=Scope(hosts=["*"]))

        @spider.login(web.url("/login", host="api.test"))
        async def login(page):
            answer = yield page.follow("/token", method="POST", json={"key": "k"})
            page.session.headers["authorization"] = f"Bearer {answer.json()['token']}"

        @spider.page
        def page(page):
            yield from page.follow_all()

        await frontier.add([seed async for seed in spider.seeds()])
        await web.crawl_one(frontier, spider)
        await web.crawl(await create_job(server, job), spider)

    sent = {(one.host, one.path): one.headers.get("authorization") for one in web.asked}
    assert sent["api.test", "/"] == sent["api.test", "/2"] == "Bearer t1"
    assert sent["other.api.test", "/x"] is None
    assert web.paths("POST") == ["/token"]


async def test_who_is_killed_after_the_log_in_leaves_a_session_that_others_use(
    server, server_url, job
):
    """kill -9 between the log-in and the answer to the first page."""
    shop, reached, go_on = Shop(pages=3), asyncio.Event(), asyncio.Event()

    async def shop_that_waits(asked: Asked) -> Answer:
        answer = shop(asked)
        if asked.path == "/" and shop.seen["/"] == 2:  # the first is the end of the log-in
            reached.set()
            await go_on.wait()
        return answer

    frontier = await create_job(server, job, options=rude())
    async with serve_web(shop_that_waits) as web:
        process = await asyncio.create_subprocess_exec(
            sys.executable, TESTS / "worker" / "members.py", server_url, job, web.url(),
            env={**os.environ, "PYTHONPATH": str(TESTS)},
        )  # fmt: skip
        await asyncio.wait_for(reached.wait(), 60)
        process.send_signal(signal.SIGKILL)
        await process.wait()
        go_on.set()
        await frontier.shards[0].server.command(
            "ZADD", frontier.shards[0].keys.key("lease"), "XX", 0, *await leased(frontier)
        )
        await web.crawl(frontier, member(job, web))

    assert shop.seen["/enter"] == 1
    stats = await frontier.stats()
    assert (stats.done, stats.dead, stats.lost) == (4, 0, 1)


async def test_who_is_stopped_in_a_log_in_holds_nobody_up(server, frontier, job):
    shop, reached = Shop(pages=1), asyncio.Event()

    async def slow_shop(asked: Asked) -> Answer:
        if asked.path == "/enter" and not reached.is_set():
            reached.set()
            await asyncio.Event().wait()
        return shop(asked)

    async with serve_web(slow_shop) as web:
        first = asyncio.create_task(web.crawl(frontier, member(job, web)))
        await reached.wait()
        first.cancel()
        await asyncio.wait([first])
        [fp] = await leased(frontier)
        shard = frontier.shards[0]
        await shard.server.command("ZADD", shard.keys.key("lease"), "XX", 0, fp)
        await web.crawl(await create_job(server, job), member(job, web))

    assert (await frontier.stats()).done == 2
    assert shop.seen["/enter"] == 1


async def test_the_steps_of_a_log_in_keep_the_delay_of_their_host(server, job):
    shop, times = Shop(pages=1), []

    def watched(asked: Asked) -> Answer:
        times.append(asyncio.get_running_loop().time())
        return shop(asked)

    options = JobOptions(politeness=Politeness(delay_s=0.2, max_in_flight=1))
    frontier = await create_job(server, job, options=options)
    async with serve_web(watched) as web:
        await web.crawl(frontier, member(job, web))

    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert len(gaps) == 4  # log-in page, form, where that leads, two pages
    assert min(gaps) > 0.1  # some may have taken longer to arrive than the next one


async def leased(frontier: Frontier) -> list[bytes]:
    shard = frontier.shards[0]
    found: list[bytes] = await shard.server.command("ZRANGE", shard.keys.key("lease"), 0, -1)
    return found


def test_a_log_in_is_declared_once_per_site_and_gives_requests():
    spider = Spider("s", start=["https://shop.test/"])

    @spider.login("https://shop.test/login")
    def login(page): ...

    with pytest.raises(SpiderError, match=r"logs in to shop\.test twice"):
        spider.login("https://www.shop.test/in")
    with pytest.raises(SpiderError, match="must take"):
        spider.login("https://other.test/")(lambda: None)


async def test_a_log_in_that_gives_something_else_says_so(server, job, monkeypatch):
    monkeypatch.setattr(sessions, "LOGIN_REST_S", 0.01)
    options = JobOptions(politeness=rude().politeness, retries=Retries(max_retries=0))
    frontier = await create_job(server, job, options=options)
    async with serve_web(Shop()) as web:
        spider = Spider(job, start=[web.url()])
        spider.login(web.url("/login"))(lambda page: {"user": "me"})
        spider.page(print)
        await web.crawl(frontier, spider)

    [letter] = [one async for one in dead_letters(frontier)]
    assert "returned a dict: return or yield a request" in letter.reason


async def test_the_spider_of_the_how_to_logs_in(frontier, job, monkeypatch):
    monkeypatch.setenv("SHOP_USER", "me")
    monkeypatch.setenv("SHOP_PASSWORD", PASSWORD)
    text = (TESTS.parent / "docs" / "howto" / "login.md").read_text()
    code = text.partition("```python\n")[2].partition("```")[0]
    shop = Shop(pages=3, expires_after=2)
    async with serve_web(shop) as web:
        found: dict[str, Any] = {}
        exec(code.replace("https://shop.example/", web.url()), found)
        await web.crawl(frontier, found["spider"])

    stats = await frontier.stats()
    assert (stats.done, stats.dead, stats.items) == (4, 0, 4)
    assert shop.seen["/enter"] >= 2
