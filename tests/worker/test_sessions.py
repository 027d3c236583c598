"""Cookies and sessions, from the first Set-Cookie to the worker that continues."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from conftest import rude
from skitter.frontier.audit.auditor import audit
from skitter.frontier.frontier import Frontier
from skitter.frontier.jobs import create_job
from skitter.frontier.sites.sessions import Wanted, open_sessions
from skitter.settings import Layout, Politeness, SessionPool
from skitter.spider import Scope, Spider
from web import Answer, Asked, serve_web

EVERYWHERE = Scope(hosts=["*"])


@pytest.fixture
async def frontier(server, job) -> Frontier:
    """On the server's own clock, for a worker waits for it; one request after the other."""
    options = replace(rude(), politeness=Politeness(delay_s=0, max_in_flight=1))
    return await create_job(server, job, options=options)


def setting(*cookies: str, body: str = "", **answer) -> Answer:
    return Answer(body, headers=tuple(("set-cookie", one) for one in cookies), **answer)


def chain(job: str, start: str, **options) -> Spider:
    """A spider that follows every link."""
    spider = Spider(job, start=[start], scope=EVERYWHERE, **options)

    @spider.page
    def page(page):
        yield from page.follow_all()

    return spider


async def session(frontier: Frontier, name: str = "shop.test/") -> dict[str, bytes]:
    wanted = [Wanted(name.partition("/")[0], name, make=False)]
    return (await open_sessions(frontier, wanted, SessionPool()))[0].fields


async def test_cookies_of_a_page_are_sent_with_the_next_ones(frontier, job):
    def shop(asked: Asked) -> Answer:
        if asked.path == "/":
            return setting("id=1", "theme=dark; Path=/other", body="<a href=/next>")
        return (
            setting("id=2; Max-Age=100", body="<a href=/last>")
            if asked.path == "/next"
            else Answer()
        )

    async with serve_web(shop) as web:
        await web.crawl(frontier, chain(job, web.url()))

    assert [(one.path, one.cookies) for one in web.asked] == [
        ("/", {}),
        ("/next", {"id": "1"}),
        ("/last", {"id": "2"}),
    ]
    assert (await audit(frontier)).clean


@pytest.mark.parametrize("shards", [1, 7])
async def test_the_cookie_of_a_redirect_counts_also_at_another_host_of_the_site(
    server, job, shards
):
    def shop(asked: Asked) -> Answer:
        if asked.host == "www.shop.test":
            to = (("location", web.url("/in", host="my.shop.test")),)
            cookies = (("set-cookie", "id=1; Domain=shop.test"), ("set-cookie", "own=1"))
            return Answer(status=302, headers=to + cookies)
        return Answer(f"<a href='{web.url('/', host='other.test')}'>")

    frontier = await create_job(server, job, options=rude(), layout=Layout(shards=shards))
    async with serve_web(shop) as web:
        await web.crawl(frontier, chain(job, web.url(host="www.shop.test")))

    assert [(one.host, one.cookies) for one in web.asked] == [
        ("www.shop.test", {}),
        ("my.shop.test", {"id": "1"}),
        ("other.test", {}),
    ]


async def test_the_cookie_of_a_redirect_to_the_page_itself_is_sent_at_once(frontier, job):
    def shop(asked: Asked) -> Answer:
        if asked.cookies:
            return Answer("welcome")
        return Answer(status=302, headers=(("location", "/?utm_source=x"), ("set-cookie", "ok=1")))

    async with serve_web(shop) as web:
        await web.crawl(frontier, chain(job, web.url()))

    assert [one.cookies for one in web.asked] == [{}, {"ok": "1"}]
    assert (await frontier.stats()).done == 1


async def test_a_site_without_cookies_costs_no_call_and_leaves_no_key(frontier, job, monkeypatch):
    calls: list[str] = []
    call = type(frontier.server).call

    async def counted(self, code, *rest, **how):
        calls.append(code.name)
        return await call(self, code, *rest, **how)

    monkeypatch.setattr(type(frontier.server), "call", counted)
    async with serve_web(lambda asked: Answer("<a href=/next>")) as web:
        await web.crawl(frontier, chain(job, web.url()))

    assert len(web.asked) == 2
    assert "open_sessions" not in calls


@pytest.mark.parametrize("options", [{"cookies": False}, {"sessions": SessionPool(cookies=False)}])
async def test_cookies_can_be_switched_off(frontier, job, options):
    async with serve_web(lambda asked: setting("id=1", body="<a href=/next>")) as web:
        await web.crawl(frontier, chain(job, web.url(), **options))

    assert [one.cookies for one in web.asked] == [{}, {}]
    assert not await session(frontier)


async def test_a_cookie_header_of_the_users_own_is_sent_as_it_is(frontier, job):
    async with serve_web(lambda asked: setting("id=1", body="<a href=/next>")) as web:
        spider = Spider(job, start=[web.url()])

        @spider.page
        def page(page):
            yield page.follow("/own", headers={"Cookie": "mine=1"})

        await web.crawl(frontier, spider)

    assert [one.cookies for one in web.asked] == [{}, {"mine": "1"}]


async def test_any_worker_continues_a_session(server, job):
    """Each page is fetched by another one; the last has never seen the first."""

    def shop(asked: Asked) -> Answer:
        n = int(asked.cookies.get("n", 0)) + 1
        return setting(f"n={n}", body=f"<a href=/{n}>" if n < 5 else "")

    frontier = await create_job(server, job, options=rude())
    async with serve_web(shop) as web:
        spider = chain(job, web.url())
        await frontier.add([seed async for seed in spider.seeds()])
        for _ in range(5):
            await web.crawl_one(await create_job(server, job), spider)

    assert [one.cookies.get("n") for one in web.asked] == [None, "1", "2", "3", "4"]


async def test_completions_side_by_side_both_set_their_cookies(server, job):
    """Two workers have a page each under way; neither takes the other's cookie away."""
    both = asyncio.Barrier(2)

    async def shop(asked: Asked) -> Answer:
        if asked.path == "/":
            return setting("old=1", body="<a href=/a><a href=/b>")
        await both.wait()
        return setting(f"{asked.path[1:]}=1", "old=; Max-Age=0" if asked.path == "/a" else "b2=1")

    frontier = await create_job(server, job, options=rude())
    async with serve_web(shop) as web:
        spider = chain(job, web.url())
        await frontier.add([seed async for seed in spider.seeds()])
        await web.crawl_one(frontier, spider)
        others = [await create_job(server, job) for _ in range(2)]
        await asyncio.gather(*(web.crawl_one(one, spider) for one in others))

    names = {key.rpartition(";")[2] for key in await session(frontier) if key.startswith("c:")}
    assert names == {"a", "b", "b2"}


async def test_classes_of_sessions_do_not_know_of_each_other(frontier, job):
    def shop(asked: Asked) -> Answer:
        who = asked.target.partition("?")[2]
        return setting(f"id={who}") if who and not asked.cookies else Answer(str(asked.cookies))

    async with serve_web(shop) as web:
        spider, seen = Spider(job, start=[web.url("/start")]), {}

        @spider.page
        def start(page):
            for name in ("a", "b"):
                yield page.follow(f"/?{name}", again, session=name)

        @spider.page
        def again(page):
            yield page.follow("/mine", mine)  # in the session of this page

        @spider.page
        def mine(page):
            seen[page.request.session] = page.text

        await web.crawl(frontier, spider)

    assert seen == {"a": "{'id': 'a'}", "b": "{'id': 'b'}"}


async def test_a_pool_hands_out_its_sessions_in_turn_and_retires_what_is_blocked(frontier, job):
    numbers = iter(range(1, 100))

    def shop(asked: Asked) -> Answer:
        if not asked.cookies:
            return setting(f"id={next(numbers)}; Path=/")
        return Answer(status=403) if asked.cookies["id"] == "1" else Answer()

    pool = SessionPool(size=2, max_errors=2)
    async with serve_web(shop) as web:
        start = [web.url(f"/{n}") for n in range(20)]
        spider = Spider(job, start=start, sessions=pool)

        @spider.page
        def page(page): ...

        await web.crawl(frontier, spider)

    used = [one.cookies.get("id", "-") for one in web.asked]
    assert used.count("1") == 2  # two refusals, and it was never used again
    assert {"2", "3"} <= set(used)


async def test_a_session_is_retired_after_so_many_pages(frontier, job):
    numbers = iter(range(1, 100))

    def shop(asked: Asked) -> Answer:
        return Answer() if asked.cookies else setting(f"id={next(numbers)}; Path=/")

    async with serve_web(shop) as web:
        start = [web.url(f"/{n}") for n in range(9)]
        spider = Spider(job, start=start, sessions=SessionPool(max_uses=3))

        @spider.page
        def page(page): ...

        await web.crawl(frontier, spider)

    used = [one.cookies.get("id", "-") for one in web.asked]
    assert used == ["-", "1", "1", "1", "-", "2", "2", "2", "-"]


async def test_a_hostile_site_fills_neither_us_nor_the_server(frontier, job):
    """Floods, cookies for others and for public suffixes, huge ones, and nonsense."""
    floods = [f"n{n}=x; Path=/" for n in range(500)]

    def shop(asked: Asked) -> Answer:
        n = int(asked.path[1:] or 0)
        if n == 30:
            return Answer()
        more = f"<a href=/{n + 1}>"
        if n == 0:
            evil = ["o=1; Domain=other.test", "p=1; Domain=test", "e=1; Domain=example.com"]
            return setting(*evil, "big=" + "x" * 50_000, "\x80=1", ";;;", body=more)
        if n == 1:
            return setting(*(f"m{i}={'x' * 3000}" for i in range(20)), body=more)
        return setting(*(f"{n}{one}" for one in floods), body=more)

    async with serve_web(shop) as web:
        spider = chain(job, web.url("/0"))
        await web.crawl(frontier, spider)
        await frontier.add([await anext(spider.seeds())])

    assert (await frontier.stats()).done == 31
    assert len(web.asked[-1].cookies) <= 180
    assert len(web.asked[-1].headers["cookie"]) < 70_000
    fields = await session(frontier)
    assert len(fields) < 260
    assert not any("other.test" in one or ";p" in one or "example" in one for one in fields)
    assert (await audit(frontier)).clean
