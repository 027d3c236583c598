"""celery: the frontier on Celery workers, beside one task per URL on as many of them."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from benchmarks.crawl.field import JOB, begin, check_all
from benchmarks.crawl.peers import PROCESSES
from benchmarks.crawl.processes import ROOT, end
from benchmarks.crawl.speed import Contest, rival_rate
from benchmarks.report import Finding
from skitter.errors import InfrastructureError
from skitter.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from benchmarks.crawl.peers import Rival
    from benchmarks.crawl.site import Site
    from benchmarks.crawl.sizes import Sizes
    from benchmarks.ground import Ground
    from skitter.frontier.frontier import Frontier

SPIDER = "benchmarks.crawl.titles"
SECRET = secrets.token_hex(32)
LEAST_RATIO = 10.0
START_S, LIMIT_S = 120.0, 120.0


async def measure_engine(
    ground: Ground, site: Site, rivals: Sequence[Rival], sizes: Sizes
) -> list[Finding]:
    """Turn by turn, with as many processes each."""
    seed, small = site.publish(sizes.pages), site.publish(sizes.rival_pages)
    theirs = {rival.title: Contest() for rival in rivals}
    ours = Contest()
    for number in range(1, sizes.rounds + 1):
        ground.tell(f"celery: round {number} of {sizes.rounds}, pumps")
        ours.rates.append(await pages_per_second(ground, seed, sizes.pages))
        for rival in rivals if number <= sizes.rival_rounds else ():
            ground.tell(f"celery: round {number} of {sizes.rival_rounds}, {rival.title}")
            rate = await rival_rate(ground, rival, small, sizes.rival_pages)
            theirs[rival.title].rates.append(rate)
    await ground.clear()
    return [_finding(ours, rival, theirs[rival.title], sizes) for rival in rivals] or [
        _finding(ours, None, Contest(), sizes)
    ]


async def pages_per_second(ground: Ground, seed: str, pages: int) -> float:
    """A whole site by pumps, from the first message to the last page handed in."""
    frontier = await begin(ground, seed)
    async with _celery_worker(ground):
        began = time.perf_counter()
        await _send_pumps(ground, frontier, seed)
        async with asyncio.timeout(LIMIT_S):
            await _until_done(frontier, pages)
        seconds = time.perf_counter() - began
    await check_all(frontier, pages)
    return pages / seconds


async def _until_done(frontier: Frontier, pages: int) -> None:
    while True:
        if (await frontier.stats()).done >= pages:
            return
        await asyncio.sleep(0.01)


@asynccontextmanager
async def _celery_worker(ground: Ground) -> AsyncIterator[None]:
    """Celery's own command, as its users type it."""
    from skitter.celery.scheduling import count_slots

    words = ["-m", "celery", "-A", "skitter.celery", "worker", "-c", str(PROCESSES)]
    words += ["--without-mingle", "--without-gossip", "-l", "ERROR"]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *words,
        cwd=ROOT,
        env=os.environ | {"SKITTER_REDIS_URL": f"unix://{ground.socket}", "SKITTER_SECRET": SECRET},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + START_S
        while not await count_slots(ground.server):
            if process.returncode is not None or time.monotonic() > deadline:
                raise InfrastructureError("the Celery worker did not start.")
            await asyncio.sleep(0.05)
        yield
    finally:
        await end(process, grace_s=30.0)


async def _send_pumps(ground: Ground, frontier: Frontier, seed: str) -> None:
    from skitter.celery import CelerySettings, make_app
    from skitter.celery.registry import JobSpec, register_job
    from skitter.celery.runtime import runtime_of
    from skitter.celery.scheduling import send_pumps

    where = Settings(redis_url=f"unix://{ground.socket}")
    app = make_app(CelerySettings(where=where, secret=SECRET))
    allowed = (urlsplit(seed).netloc,)
    spec = runtime_of(app).sign(JobSpec(job=JOB, target=SPIDER, pumps=PROCESSES, allow=allowed))
    await register_job(ground.server, spec)
    await send_pumps(runtime_of(app), frontier, spec, await frontier.stats())
    app.close()


def _finding(ours: Contest, rival: Rival | None, theirs: Contest, sizes: Sizes) -> Finding:
    ratio = ours.best / theirs.best if rival else None
    judged = rival is not None and rival.least_ratio is not None
    return Finding(
        name="celery",
        what=f"the Celery engine, {PROCESSES} processes, {sizes.pages:,} pages, "
        f"best of {len(ours.rates)}",
        unit="pages/s",
        measured=ours.best,
        beside=f"{rival.title}, {sizes.rival_pages:,} pages" if rival else "",
        peer=theirs.best if rival else None,
        ratio=ratio,
        goal=f"{LEAST_RATIO:.0f} times" if judged else "",
        ok=ratio >= LEAST_RATIO if ratio is not None and judged else None,
        rounds=ours.rates,
        peer_rounds=theirs.rates,
    )
