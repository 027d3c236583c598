"""What a job has fetched, as a file: to keep it after a purge, or for another job.

The first line says how pages are told apart; then comes a fingerprint a line. A file of URLs can be
read too.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from skitter.errors import BadURL, UsageError
from skitter.frontier.jobs import create_job, note_fingerprinter
from skitter.frontier.seen import ExactSet, seen_set
from skitter.frontier.sites.snapshots import each_request
from skitter.frontier.transport.messages import scatter
from skitter.frontier.transport.scripts import Code
from skitter.model import Request
from skitter.observe.report import some
from skitter.settings import Layout
from skitter.urls import Canonical

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.transport.connection import Server

HEAD = "# skitter seen "
STEP = 500


class Rule(msgspec.Struct, frozen=True):
    """How pages are told apart."""

    fingerprinter: str
    canonical: Canonical

    @classmethod
    def of(cls, layout: Layout) -> Rule:
        return cls(layout.fingerprinter, layout.canonical)


async def write_seen(frontier: Frontier, write: Callable[[str], object]) -> int:
    """What the job has fetched. Not what it has given up, so that it is tried again. Raises
    UsageError if it is not at rest: what waits would count as fetched elsewhere."""
    if not isinstance(seen_set(frontier.layout), ExactSet):
        raise UsageError(f"{frontier.job} has a Bloom filter, which cannot be read back.")
    before = await frontier.stats()
    if not before.crawled:
        raise UsageError(
            f"{frontier.job} has {some(before.remaining, 'page')} to fetch, which would count as "
            "fetched: let it finish first."
        )
    write(HEAD + msgspec.json.encode(Rule.of(frontier.layout)).decode())
    total = 0
    for shard in frontier.shards:
        kept = {
            fact.fingerprint
            async for facts in each_request(shard)
            for fact in facts
            if not fact.resting
        }
        async for bucket in ExactSet().scan(shard):
            fetched = set(bucket.members) - kept
            total += len(fetched)
            for one in sorted(fetched):
                write(one)
    if (await frontier.stats()).seen != before.seen:
        raise UsageError(f"{frontier.job} went on meanwhile: stop its workers, then try again.")
    return total


async def read_seen(server: Server, job: str, lines: Iterable[str]) -> tuple[int, int]:
    """Count pages as done elsewhere. Returns how many there were, and how many are news to the job,
    which is created if needed. Raises UsageError before it changes anything for another rule."""
    rest: Iterator[str] = filter(None, (line.strip() for line in lines))
    first = next(rest, "")
    if first.startswith(HEAD):
        rule = msgspec.json.decode(first.removeprefix(HEAD), type=Rule)
        frontier = await create_job(server, job, layout=Layout(canonical=rule.canonical))
        if not (await frontier.stats()).seen:
            await note_fingerprinter(frontier, rule.fingerprinter)
        _check(frontier, rule)
    else:
        rule, rest = None, iter([first, *rest] if first else [])
        frontier = await create_job(server, job)
    total = new = 0
    while page := list(islice(rest, STEP)):
        total += len(page)
        new += await (remember_urls(frontier, page) if rule is None else _remember(frontier, page))
    return total, new


def _check(frontier: Frontier, rule: Rule) -> None:
    if Rule.of(frontier.layout) != rule:
        raise UsageError(
            f"{frontier.job} tells pages apart in another way than the job that the file is from "
            f"({frontier.layout.fingerprinter or 'by URL'}, {rule.fingerprinter or 'by URL'}): use "
            "a list of URLs."
        )
    if len(frontier.shards) > 1:
        raise UsageError(
            f"{frontier.job} has {len(frontier.shards)} shards, and a fingerprint does not say "
            "which one its page belongs to: use a list of URLs."
        )


async def remember_urls(frontier: Frontier, urls: Iterable[str]) -> int:
    """How many were news. What the job has already stays what it is."""
    offers = []
    for url in urls:
        try:
            offers.append(frontier.offer(Request(url=url)))
        except BadURL as error:
            raise UsageError(f"{error} Nothing of its part of the file was remembered.") from None

    async def send(shard: int, part: list[int]) -> list[int]:
        return await frontier.shards[shard].adopt([offers[i].arguments[0] for i in part])

    codes = await scatter([offer.shard for offer in offers], send, batch=STEP) if offers else []
    return codes.count(Code.NEW)


async def _remember(frontier: Frontier, fingerprints: list[str]) -> int:
    if strange := next(
        (
            fingerprint
            for fingerprint in fingerprints
            if not fingerprint.isascii() or not fingerprint.isalnum()
        ),
        "",
    ):
        raise UsageError(f"the file has a line that is no fingerprint: {strange[:60]!r}.")
    return (await frontier.home.adopt(fingerprints)).count(Code.NEW)
