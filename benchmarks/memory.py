"""memory: bytes per pending URL, then per seen URL when all of them are done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.ground import fill, make_urls
from benchmarks.report import Finding
from benchmarks.speed import RUDE
from skitter.frontier.admin.jobs import create_job, purge_job
from skitter.model import Completion, Request

if TYPE_CHECKING:
    from benchmarks.ground import Ground
    from benchmarks.peers import Peer
    from skitter.frontier.frontier import Frontier

MOST_SEEN, MOST_PENDING = 10.0, 300.0
LEASE = 500


async def measure_memory(
    ground: Ground, peer: Peer | None, *, urls: int, hosts: int
) -> list[Finding]:
    """One crawl gives both figures: all pending first, then all done."""
    listed = make_urls(urls, hosts=hosts)
    pending, seen = await _ours(ground, listed)
    theirs: dict[str, float | None] = {"pending": None, "seen": None}
    if peer:
        path = ground.directory / "all.txt"
        path.write_text("\n".join(listed))
        for verb in theirs:
            theirs[verb] = await _peer(ground, peer, verb, str(path), urls)
    length = sum(map(len, listed)) / urls
    return [
        _finding(
            f"a pending URL of {length:.0f} characters, {urls:,} of {hosts:,} hosts",
            pending,
            (theirs["pending"], "scrapy-redis's queue without its dupefilter"),
            most=MOST_PENDING,
        ),
        _finding(
            f"a seen URL, {urls:,} done",
            seen,
            (theirs["seen"], "scrapy-redis's dupefilter"),
            most=MOST_SEEN,
        ),
    ]


async def _ours(ground: Ground, urls: list[str]) -> tuple[float, float]:
    await ground.clear()
    await _load_scripts(ground)
    before = await ground.data_bytes()
    ground.tell(f"memory: adding {len(urls):,} URLs")
    frontier = await create_job(ground.server, "memory", options=RUDE)
    await fill(frontier, urls, ground.tell)
    pending = await ground.data_bytes() - before
    ground.tell(f"memory: finishing {len(urls):,} URLs")
    await _finish_all(frontier)
    seen = await ground.data_bytes() - before
    await ground.clear()
    return pending / len(urls), seen / len(urls)


async def _load_scripts(ground: Ground) -> None:
    """The scripts themselves take memory, once per server: not a matter of URLs."""
    frontier = await create_job(ground.server, "scripts", options=RUDE)
    await frontier.add([Request(url="https://a.test/")])
    await _finish_all(frontier)
    await frontier.stats()
    await purge_job(frontier)


async def _finish_all(frontier: Frontier) -> None:
    while leases := (await frontier.lease(LEASE)).leases:
        await frontier.complete([Completion(lease=lease) for lease in leases])


async def _peer(ground: Ground, peer: Peer, verb: str, path: str, urls: int) -> float:
    ground.tell(f"memory: {urls:,} {verb} URLs of the peer")
    before = await ground.data_bytes()
    figures = await peer.run(verb=verb, socket=str(ground.socket), urls=path)
    if figures["members"] != urls:
        raise AssertionError(f"the peer holds {figures['members']:,} of {urls:,} URLs")
    after = await ground.data_bytes()
    await ground.clear()
    return (after - before) / urls


def _finding(
    what: str, measured: float, beside: tuple[float | None, str], *, most: float
) -> Finding:
    peer, name = beside
    return Finding(
        name="memory",
        what=what,
        unit="bytes",
        measured=measured,
        beside=name if peer is not None else "",
        peer=peer,
        ratio=peer / measured if peer is not None else None,
        goal=f"at most {most:.0f}",
        ok=measured <= most,
    )
