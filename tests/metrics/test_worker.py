"""A crawl measures itself: what its worker measured is what happened."""

from __future__ import annotations

import asyncio

import pytest

from metrics.loading import load
from skitter.engine.assembly import open_worker
from skitter.engine.parts import WorkerOptions
from skitter.engine.pulse import Figures, Pulse, cancel_all
from skitter.errors import JobMissing
from skitter.fetch import FetchOptions
from skitter.frontier.jobs import create_job, purge_job
from skitter.frontier.records.metrics import read_history, read_table, record
from skitter.frontier.workers import Vitals
from skitter.model import Request
from skitter.observe.logs import ClusterLog
from skitter.observe.metrics import MAX_KINDS
from skitter.settings import JobOptions, Politeness, Retries, WorkerConfig
from skitter.spider import Spider
from web import Answer, serve_web

OPTIONS = JobOptions(
    politeness=Politeness(delay_s=0, max_in_flight=8, max_delay_s=0.01),
    retries=Retries(base_s=0.01, max_retries=1),
)
BODY = "<title>x</title>"


@pytest.fixture
async def frontier(server, job):
    return await create_job(server, job, options=OPTIONS)


def spider_of(job, urls, items=()):
    spider = Spider(job, urls)

    @spider.page
    def page(page):
        yield from items

    return spider


async def total(frontier, *names):
    history = await read_history(frontier, names, since_s=300)
    return [sum(n or 0 for n in history.series[name]) for name in names]


def site(asked):
    if asked.path == "/busy":
        return Answer(status=503)
    return Answer(BODY, status=404 if asked.path == "/missing" else 200)


async def test_pages_items_outcomes_and_statuses_are_counted(frontier, job):
    async with serve_web(site) as web:
        paths = ["/1", "/2", "/3", "/missing", "/busy"]
        spider = spider_of(job, [web.url(path) for path in paths], [{"n": 1}, {"n": 2}])
        await web.crawl(frontier, spider)
        host = f"shop.test:{web.port}"

    names = ["pages", "items", "retries", "dead", "bytes", "fetch.ok", "fetch.http_error"]
    assert await total(frontier, *names) == [3, 6, 1, 2, 4 * len(BODY), 3, 3]
    assert await total(frontier, "status.2xx", "status.4xx", "status.5xx") == [3, 1, 2]
    [row] = await read_table(frontier, "host")
    assert (row.name, row.ok, row.failed, row.bytes) == (host, 3, 3, 4 * len(BODY))
    assert [row.name for row in await read_table(frontier, "route")] == ["direct"]
    assert {row.name: row.ok + row.failed for row in await read_table(frontier, "status")} == {
        "2xx": 3,
        "4xx": 1,
        "5xx": 2,
    }


async def median(frontier, name):
    history = await read_history(frontier, [name], since_s=300)
    return next((one for one in history.quantiles[name]["p50"] if one is not None), None)


async def test_waits_fetches_and_handlers_are_timed(frontier, job):
    async with serve_web(site) as web:
        await web.crawl(frontier, spider_of(job, [web.url("/1")]))

    found = [await median(frontier, one) for one in ("queue_wait", "fetch", "first_byte")]
    assert all(found)
    assert found[2] <= found[1] * 1.05
    assert await median(frontier, "handler")
    assert await median(frontier, "browser") is None


async def test_connecting_is_timed_where_the_client_tells(frontier, job):
    async with serve_web(site) as web:
        await web.crawl(frontier, spider_of(job, [web.url("/1")]), fetch={"client": "aiohttp"})

    connected, answered = [await median(frontier, one) for one in ("connect", "first_byte")]
    assert 0 < connected <= answered * 1.05


async def test_a_handler_is_timed_although_it_fails(frontier, job):
    spider = Spider(job, [])

    @spider.page
    def page(page):
        raise ValueError("oh")

    async with serve_web(site) as web:
        await frontier.add([Request(url=web.url("/1"))])
        await web.crawl(frontier, spider)

    assert await median(frontier, "handler")
    assert await total(frontier, "retries", "dead", "fetch.ok") == [0, 1, 1]


async def test_looking_up_a_name_is_timed(frontier, job):
    async with serve_web(site) as web:
        seed = f"http://localhost:{web.port}/1"
        config = WorkerConfig(fetch=FetchOptions(obey_robots=False))
        options = WorkerOptions.of(config, watch_signals=False)
        spider = spider_of(job, [seed])
        await frontier.add([Request(url=seed)])
        async with open_worker(frontier, spider, config, options=options) as worker:
            await worker.run()

    assert await total(frontier, "pages") == [1]
    assert await median(frontier, "dns")


async def test_sessions_have_rows_of_their_own(frontier, job):
    def shop(asked):
        return Answer(BODY, headers=(("set-cookie", "id=1; Path=/"),))

    async with serve_web(shop) as web:
        for path in ("/begins", "/continues"):
            await web.crawl(frontier, spider_of(job, [web.url(path)]))

    [row] = await read_table(frontier, "session")
    assert (row.name, row.ok) == ("shop.test//1", 1)


async def test_what_a_loader_stored_is_counted_and_timed(frontier, job, tmp_path):
    async with serve_web(site) as web:
        await web.crawl(frontier, spider_of(job, [web.url("/1")], [{"n": 1}, {"n": 2}]))
    figures = await load(frontier, tmp_path, items=2)
    await figures.send(frontier)

    assert await total(frontier, "stored") == [2]
    assert await median(frontier, "load")


async def test_what_the_server_did_not_take_is_sent_again(frontier, server):
    figures = Figures()
    figures.count("pages", 3)
    job, layout = frontier.job, frontier.layout
    await purge_job(frontier)
    with pytest.raises(JobMissing):
        await figures.send(frontier)
    figures.count("pages", 4)
    again = await create_job(server, job, layout=layout)

    await figures.send(again)

    assert await total(again, "pages", "reports") == [7, 2]


async def test_a_stop_while_figures_are_on_their_way_does_not_count_them_twice(
    frontier, monkeypatch
):
    arrived, answered = asyncio.Event(), asyncio.Event()

    async def record_slowly(frontier, batch):
        await record(frontier, batch)
        arrived.set()
        await answered.wait()

    monkeypatch.setattr("skitter.engine.pulse.record", record_slowly)
    figures = Figures()
    figures.count("pages", 3)
    pulse = Pulse(
        frontier=frontier,
        name="w1",
        kind="worker",
        logbook=ClusterLog(),
        vitals=Vitals,
        also=figures.send,
    )
    running = asyncio.create_task(pulse.run())
    await arrived.wait()
    await cancel_all([running])
    ending = asyncio.create_task(pulse.end())
    answered.set()
    await ending

    assert await total(frontier, "pages") == [3]


async def test_a_process_keeps_only_so_many_hosts_apart(frontier):
    figures = Figures()
    for n in range(MAX_KINDS + 500):
        figures.add_exchange(("ok", "2xx", f"h{n}.test", "", ""), size=1, ms=1.0)

    await figures.send(frontier)

    rows = await read_table(frontier, "host")
    assert sum(row.ok for row in rows) == MAX_KINDS + 500
    assert next(row for row in rows if row.name == "other").ok >= 500


async def test_a_request_without_an_answer_counts_as_an_error(frontier, job):
    async with serve_web(site) as web:
        url = web.url("/1")
    async with serve_web(site) as web:
        await web.crawl(frontier, spider_of(job, [url]))

    assert await total(frontier, "fetch.error", "status.none", "pages") == [2, 2, 0]
