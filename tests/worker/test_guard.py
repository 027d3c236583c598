"""Which addresses a worker dials is up to its own configuration, whatever the job's options say."""

from __future__ import annotations

import pytest

from conftest import rude
from fetch.site import reply, serve
from skitter.engine.assembly import open_worker
from skitter.fetch import FetchOptions
from skitter.frontier.control import change_options
from skitter.frontier.dead import dead_letters
from skitter.frontier.jobs import create_job
from skitter.settings import WorkerConfig
from skitter.spider import Spider


def page(page):
    yield from page.follow_all()


@pytest.fixture
def crawl(server, job):
    """Crawl a site with `also_hosts`; the pages that were given up."""

    async def run(site, also_hosts, *allowed):
        frontier = await create_job(server, job, options=rude())
        await change_options(frontier, {"also_hosts": also_hosts})
        spider = Spider(job, site.url())
        spider.page(page)
        await frontier.add([seed async for seed in spider.seeds()])
        config = WorkerConfig(fetch=FetchOptions(allow_hosts=allowed))
        async with open_worker(frontier, spider, config) as worker:
            await worker.run()
        return [letter async for letter in dead_letters(frontier)]

    return run


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "127.1"])
async def test_a_private_host_that_also_hosts_lets_in_is_not_dialled(crawl, name):
    async with serve({"/": reply(b"internal")}) as internal:
        links = f"<a href='{internal.url(host=name)}'>in</a>".encode()
        async with serve({"/": reply(links, "content-type: text/html")}) as site:
            [letter] = await crawl(site, f"{name}:{internal.port}")

    assert "loopback address" in letter.reason or "localhost" in letter.reason
    assert letter.failures == 1
    assert internal.connections == 0


async def test_it_is_dialled_where_the_worker_s_operator_allows_it(crawl):
    async with serve({"/": reply(b"internal")}) as internal:
        links = f"<a href='{internal.url()}'>in</a>".encode()
        async with serve({"/": reply(links, "content-type: text/html")}) as site:
            host = f"127.0.0.1:{internal.port}"
            assert await crawl(site, host, host) == []

    assert internal.paths == ["/robots.txt", "/"]
