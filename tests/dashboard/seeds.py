"""Jobs that a test looks at: what workers would have done, done by the test."""

from __future__ import annotations

import time

from conftest import rude
from skitter.frontier.frontier import Frontier
from skitter.frontier.jobs import create_job
from skitter.frontier.records.failed import FailedPage, FailedPages
from skitter.frontier.records.metrics import record
from skitter.frontier.sites.sessions import (
    Cost,
    FleetRoutes,
    RouteVerdict,
    Settled,
    Wanted,
    open_sessions,
)
from skitter.frontier.transport.connection import Server
from skitter.frontier.workers import Heartbeat, beat, log_lines
from skitter.model import Completion, Failure, Request
from skitter.observe.metrics import Batch, Row
from skitter.settings import SessionPool

#: Whoever makes HTML of it gets another title.
HOSTILE = "<img src=x onerror=document.title='hacked'><script>document.title='hacked'</script>"
#: A number that JavaScript would round.
UNSAFE = 2**53 + 1
REASONS = ("404 Not Found", "timeout after 30 s", f"handler failed: {HOSTILE}")


async def seed(redis: Server, job: str) -> Frontier:
    """Nine pages done with an item each, six given up for three reasons, five waiting, one worker
    and some lines of log; everything that a site or a log may say is hostile."""
    frontier = await create_job(redis, job, options=rude())
    await frontier.add([Request(f"http://a.test/{i}?q={HOSTILE}") for i in range(20)])
    leases = (await frontier.lease(15)).leases
    done, dead = leases[:9], leases[9:]
    item = {"title": HOSTILE, "price": 9.5, "id": UNSAFE}
    await frontier.complete([Completion(lease=one, items=[item]) for one in done])
    for at, lease in enumerate(dead):
        await frontier.bury([Failure(lease=lease, error=REASONS[at % 3])])
    await keep_failed(frontier)
    await log_lines(frontier, HOSTILE, [("error", HOSTILE, f"javascript:{HOSTILE}")])
    await log_lines(frontier, "w", [("info", f"line {i}", "") for i in range(30)])
    now = time.time()  # it is not silent before the tests are over
    worker = Heartbeat(
        name="w-1",
        host="box",
        pid=1,
        started_at=now - 60,
        at=now + 600,
        pages=9,
        errors=6,
        active=2,
        memory_mb=80.0,
        note=HOSTILE,
    )
    await beat(frontier, worker)
    return frontier


async def keep_failed(frontier: Frontier) -> None:
    """A page that a handler failed on, as hostile as a page can be."""
    title = "top.document.title='hacked';document.title='hacked'"
    attacks = (
        f'<script>{title}</script><img src=x onerror="{title}"><body onload="{title}">'
        '<meta http-equiv="refresh" content="0;url=http://a.test/">'
        f'<a id=out target=_top href="javascript:{title}">out</a><h1>It looks like this</h1>'
    )
    page = FailedPage(
        fingerprint="7",
        url=f"http://a.test/7?q={HOSTILE}",
        reason=REASONS[2],
        at=time.time(),
        status=200,
        headers=[("content-type", "text/html"), ("x-hostile", HOSTILE)],
        body=attacks.encode(),
        traceback=HOSTILE,
    )
    pages = FailedPages(20, 32)
    pages.add(page)
    await pages.send(frontier)


async def seed_routes(frontier: Frontier) -> None:
    """A route that brought three pages and was banned once, and a session; both took their time."""
    verdicts: list[RouteVerdict] = ["good", "good", "good", "ban"]
    left = [
        Settled(route="dc-1", domain="a.test", verdict=one, cost=Cost(2**20, 500))
        for one in verdicts
    ]
    await FleetRoutes.on(frontier.server).settle(left)
    await open_sessions(frontier, [Wanted("a.test", "a.test/shop", make=True)], SessionPool(size=1))
    took = Row(ok=4, ms=400, spread=(0, 0, 0, 0, 0, 4))
    await record(
        frontier, Batch(tables={"route": {"dc-1": took}, "session": {"a.test/shop/1": took}})
    )
