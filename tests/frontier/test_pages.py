"""What came of pages that are done: kept for `why`, up to a bound."""

from __future__ import annotations

import hashlib

import pytest
from msgspec.structs import replace

from conftest import rude
from fetch.site import redirect, reply, serve
from skitter.engine.assembly import open_worker
from skitter.frontier.audit.auditor import audit
from skitter.frontier.audit.why import why
from skitter.frontier.jobs import create_job
from skitter.frontier.sites.learned import DonePage, open_page, page_facts
from skitter.frontier.transport.scripts import script
from skitter.model import Completion, Feedback, Request, Response
from skitter.settings import WorkerConfig
from skitter.spider import Spider

URL = "https://a.test/page"
ANSWER = Response(url=URL, status=200, body=b"x" * 1234, elapsed_s=0.0351)


async def finish(frontier, url=URL, facts="200 35 1234 2 -"):
    await frontier.add([Request(url=url)])
    [lease] = (await frontier.lease(1)).leases
    await frontier.complete([Completion(lease=lease, feedback=Feedback(page=facts))])


async def test_why_tells_what_came_of_a_page(frontier):
    await finish(frontier, facts=page_facts(ANSWER, items=2, usage="train-ai=n"))

    found = await why(frontier, URL)

    assert found.state == "done"
    assert found.because == [
        f"it was done at 2023-11-14 22:13:20 UTC by {frontier.client}: 200, 1,234 bytes in 35 ms",
        "its handler found 2 items",
        "it restricts its use: train-ai=n",
    ]
    assert found.done == DonePage(
        at=1_700_000_000,
        worker=frontier.client,
        status=200,
        elapsed_s=0.035,
        size_bytes=1234,
        items=2,
        usage="train-ai=n",
    )
    assert (await audit(frontier)).clean


async def test_a_page_that_was_done_too_late_leaves_no_trace(frontier, clock):
    await frontier.add([Request(url=URL)])
    [lease] = (await frontier.lease(1, ttl_s=1)).leases
    clock.advance(2)
    await frontier.reap()
    await frontier.complete([Completion(lease=lease, feedback=Feedback(page="200 1 1 1 -"))])
    assert (await why(frontier, URL)).done is None


async def test_the_record_is_bounded_and_the_newest_stay(frontier, monkeypatch):
    code = script("complete")
    small = code.source.replace("PAGES_KEPT = 100000", "PAGES_KEPT = 20")
    assert small != code.source
    monkeypatch.setattr(
        "skitter.frontier.transport.shard.script", lambda verb, strict=False: of(verb, small)
    )
    urls = [f"{URL}/{n}" for n in range(50)]
    for url in urls:
        await finish(frontier, url)
    known = [url for url in urls if (await why(frontier, url)).done]
    assert known == urls[-len(known) :]
    assert 10 <= len(known) <= 20


def of(verb, source):
    code = script(verb)
    if verb != "complete":
        return code
    return replace(code, source=source, sha=hashlib.sha1(source.encode()).hexdigest())


@pytest.mark.parametrize(
    "line", ["", "x", "1 w 200 1 1", "1 w a b c d e", "nan w 200 1 1 1 -", "1e999 w 200 1 1 1 -"]
)
def test_a_line_that_somebody_else_wrote_is_survived(line):
    found = open_page(line)
    assert found is None or found.status == 200


async def test_a_worker_tells_of_redirects_and_of_pages_without_a_handler(server, job):
    pages = {
        "/": redirect("/to"),
        "/to": reply(b"<p>", "content-type: text/html"),
        "/picture": reply(b"GIF", "content-type: image/gif"),
    }
    async with serve(pages) as site:
        frontier = await create_job(server, job, options=rude())
        spider = Spider(job, [site.url(), site.url("/picture")], accept=("text/html",))
        spider.page(yield_two)
        await frontier.add([seed async for seed in spider.seeds()])
        async with open_worker(frontier, spider, WorkerConfig()) as worker:
            await worker.run()
        came = [(await why(frontier, site.url(path))).done for path in ("/", "/to", "/picture")]
    assert [(one.status, one.items, one.redirects_to, one.note) for one in came if one] == [
        (302, 0, site.url("/to"), ""),
        (200, 2, "", ""),
        (200, 0, "", "image/gif is not a wanted content type"),
    ]


def yield_two(page):
    yield {"a": 1}
    yield {"a": 2}
