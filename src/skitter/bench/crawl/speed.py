"""speed: pages a second of one worker process, beside a bare loop and beside peers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from skitter.bench.crawl.bare import BareFigures, BareTask
from skitter.bench.crawl.field import crawl_all
from skitter.bench.crawl.processes import module_words, run_to_end
from skitter.bench.crawl.worker import Worked
from skitter.bench.report import Finding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skitter.bench.crawl.peers import Rival
    from skitter.bench.crawl.site import Site
    from skitter.bench.ground import Ground

CONCURRENT = 64
LEAST_OF_BARE = 0.6
LIMIT_S = 120.0

Contender = Callable[[], Awaitable[float]]  # -> pages a second


async def measure_speed(
    ground: Ground,
    site: Site,
    rivals: Sequence[Rival],
    *,
    pages: int,
    few_pages: int,
    rounds: int,
    rival_rounds: int,
) -> list[Finding]:
    """Peers are slow and crawl a site of `few_pages`, all of it: every contender follows every link,
    and finds one new page a page."""
    seed, small = site.publish(pages), site.publish(few_pages)
    ours, bares = Contest("worker"), Contest("bare loop")
    theirs = {rival.title: Contest(rival.title) for rival in rivals}
    for number in range(1, rounds + 1):
        ground.tell(f"speed: round {number} of {rounds}, worker")
        ours.take(await _worker(ground, seed, pages))
        ground.tell(f"speed: round {number} of {rounds}, bare loop")
        bares.take(await _bare(seed, pages))
        for rival in rivals if number <= rival_rounds else ():
            ground.tell(f"speed: round {number} of {rival_rounds}, {rival.title}")
            await ground.clear()
            await ground.quiet()
            figures = await rival.crawl(small, pages=few_pages, socket=ground.socket)
            if figures["pages"] < few_pages:
                raise AssertionError(f"{rival.title}: {figures['pages']} of {few_pages} pages")
            theirs[rival.title].rates.append(figures["pages"] / figures["seconds"])
    await ground.clear()
    return [
        _of_bare(ours, bares, pages),
        _cpu(ours, bares),
        *(_of_rival(ours, theirs[rival.title], rival, few_pages) for rival in rivals),
    ]
