"""Schedules: when the rounds of a job begin. Any process of the job may begin the next one.

docs/adr/0030-rounds-of-a-schedule.md explains why this needs no leader.
"""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import chain, islice, takewhile
from typing import TYPE_CHECKING

import msgspec
from cronsim import CronSim, CronSimError

from skitter.errors import BadOption, JobDamaged, UsageError
from skitter.frontier.frontier import ADD_BATCH
from skitter.frontier.sites.snapshots import open_body
from skitter.frontier.transport.messages import scatter
from skitter.frontier.transport.scripts import Code
from skitter.frontier.transport.shard import scan_names
from skitter.model import Added

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from skitter.frontier.frontier import Frontier
    from skitter.model import Request

SHORTEST_S, LONGEST_S = 1.0, 366 * 86_400.0
MAX_MISSED = 1000  # counting stops there


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """Rounds by a cron expression (UTC), or every so many seconds."""

    cron: str = ""
    every_s: float = 0.0
    next_ms: int = 0
    fired_ms: int = 0  # 0: never
    rounds: int = 0
    missed: int = 0  # while no process was running

    def moments_ms(self, after_ms: int) -> Iterator[int]:
        """When rounds begin after a moment. Raises BadOption."""
        if not self.cron:
            step_ms = round(1000 * self.every_s)
            yield from range(after_ms + step_ms, 2**53, step_ms)
            return
        after = datetime.fromtimestamp(after_ms / 1000, UTC)
        try:
            for moment in CronSim(self.cron, after):
                yield round(moment.timestamp() * 1000)
        except CronSimError as error:
            raise BadOption(
                "cron", self.cron, f"five fields, as in '0 3 * * *' ({error})"
            ) from None

    def is_due(self, now_ms: int) -> bool:
        """Also if the clock was ahead when the last round began, and was corrected since: rounds
        would be skipped until it is that late again."""
        if self.next_ms <= now_ms or self.fired_ms <= now_ms:
            return self.next_ms <= now_ms
        return any(moment < self.next_ms for moment in islice(self.moments_ms(now_ms), 1, 2))


def new_schedule(*, cron: str = "", every_s: float = 0.0, now_ms: int) -> Schedule:
    """Check a schedule and plan its first round. Raises BadOption."""
    _check(cron, every_s)
    schedule = Schedule(cron=cron, every_s=every_s)
    first = next(schedule.moments_ms(now_ms), None)
    if first is None:
        raise BadOption("cron", cron, "a schedule that matches some date")
    return msgspec.structs.replace(schedule, next_ms=first)


def _check(cron: str, every_s: float) -> None:
    if bool(cron) == bool(every_s):
        raise UsageError("a schedule needs either --cron or --every, such as --every 6h.")
    if len(cron) > 200:
        raise BadOption("cron", cron[:50], "five fields, as in '0 3 * * *'")
    if every_s and not SHORTEST_S <= every_s <= LONGEST_S:
        raise BadOption("every", every_s, "from 1 second to 366 days, such as 6h")


async def set_schedule(frontier: Frontier, schedule: Schedule) -> None:
    fields = msgspec.structs.asdict(schedule)
    await frontier.home.command("HSET", "schedule", *chain.from_iterable(fields.items()))


async def read_schedule(frontier: Frontier) -> Schedule | None:
    """None: the job has none. Raises JobDamaged."""
    stored = await frontier.home.read_hash("schedule")
    if not stored:
        return None
    try:
        schedule = msgspec.convert(stored, Schedule, strict=False)
        _check(schedule.cron, schedule.every_s)
    except (msgspec.ValidationError, UsageError) as error:
        raise JobDamaged(frontier.job, f"its schedule cannot be read ({error})") from None
    return schedule


async def remove_schedule(frontier: Frontier) -> bool:
    return bool(await frontier.home.command("DEL", "schedule"))


async def offer_round(frontier: Frontier, pages: Sequence[Request], *, due_ms: int) -> list[Added]:
    """Visit pages once more, each once in a round: NEW if it is pending now. Safe to repeat."""
    of_round = [msgspec.structs.replace(page, round=due_ms) for page in pages]
    codes = await _send(frontier, of_round, due_ms=str(due_ms))
    return [Added(code.name.lower()) for code in codes]


async def offer_again(frontier: Frontier, pages: Sequence[Request]) -> list[Added | None]:
    """The same of no round: pages are handled again, as they are offered. None: the job does not
    know it."""
    codes = await _send(frontier, pages, due_ms="")
    return [None if code is Code.LOST else Added(code.name.lower()) for code in codes]


async def _send(frontier: Frontier, pages: Sequence[Request], *, due_ms: str) -> list[Code]:
    offers = [frontier.offer(page) for page in pages]

    async def send(shard: int, part: list[int]) -> list[Code]:
        codes = await frontier.shards[shard].again(
            [offers[number].arguments for number in part],
            due_ms=due_ms,
            replicated=frontier.options.safety.replicated,
        )
        return [Code(code) for code in codes]

    weights = [offer.weight for offer in offers]
    return await scatter([offer.shard for offer in offers], send, weights=weights, batch=ADD_BATCH)


async def resting_pages(frontier: Frontier) -> AsyncIterator[Request]:
    """Done pages that will be visited again: their requests are still on the server. One may come
    twice; none is passed over, even if the caller makes them pending meanwhile."""
    for shard in frontier.shards:
        async for fps in scan_names(shard, "revisits"):
            for record in await shard.command("HMGET", "task", *fps):
                if record and (request := open_body(record)[2]):
                    yield request


async def advance(frontier: Frontier, schedule: Schedule, *, now_ms: int) -> tuple[bool, int]:
    """Plan the next round, as the one that was due has begun. Returns whether we were the first to
    do so, and how many rounds were missed."""
    since = takewhile(lambda moment: moment <= now_ms, schedule.moments_ms(schedule.next_ms))
    missed = sum(1 for _ in islice(since, MAX_MISSED))
    following = next(schedule.moments_ms(now_ms), schedule.next_ms)
    first = await frontier.home.next_round(
        due_ms=str(schedule.next_ms), next_ms=str(following), missed=missed
    )
    return bool(first), missed
