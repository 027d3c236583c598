"""One message: lease and fetch for a while, hand in, tell how much it was."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from skitter.celery.care import confirm_room, look_again, look_for_room, send_pumps
from skitter.celery.charges import read_charge
from skitter.celery.config import GRACE_S, PUMP_S
from skitter.celery.unload import GONE, unloading
from skitter.errors import SkitterError
from skitter.frontier.admin.permits import renew_ticket, return_ticket
from skitter.frontier.admin.workers import log
from skitter.spider.source_line import describe
from skitter.worker.loop import WorkerOptions
from skitter.worker.pulse import cancel_all

if TYPE_CHECKING:
    from skitter.celery.office import Desk, Office
    from skitter.worker.loop import Worker

#: A pump that did not renew its ticket for so long is dead, and is replaced.
ALIVE_S = 12.0
RENEW_S = 3.0
LOOK_S = 0.2
#: So long no page of a process went on: that was no busy moment, somebody blocked it.
STANDSTILL_S = 5.0
#: A pump works at least so long, also when others wait for its place.
TURN_S = 5.0
#: How long a pump of `scrape` waits for more work: the next caller finds it running.
LINGER_S = 2.0


class Pumped(TypedDict):
    """What a pump did."""

    job: str
    pages: int
    errors: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Message:
    """Which pump this is."""

    job: str
    ticket: str
    machine: str  # Celery's name of the worker


async def pump(office: Office, message: Message) -> Pumped:
    """Work on a job for PUMP_S, if the ticket is good; then see to the next pump.

    A pump that fails keeps its ticket until it runs out: whatever it is, it will not be tried
    again at once.
    """
    done = Pumped(job=message.job, pages=0, errors=0, seconds=0.0)
    charge = await read_charge(await office.server(), message.job)
    if charge is None:  # over, or a message from long ago
        await _give_back(office, message)
        return done
    try:
        async with office.desk(charge) as desk:
            done = await _counted(office, desk, message)
    except GONE:
        pass  # it was purged
    except Exception as error:
        await _tell(office, message, error)
        raise
    if not office.closing:
        await look_again(office, message.job)
    return done


async def _counted(office: Office, desk: Desk, message: Message) -> Pumped:
    began, before = time.monotonic(), (desk.tally.pages, desk.tally.errors)
    if await renew_ticket(desk.frontier, message.ticket, ttl_s=ALIVE_S):
        await _work(office, desk, message)
        await return_ticket(desk.frontier, message.ticket)
    return Pumped(
        job=message.job,
        pages=desk.tally.pages - before[0],
        errors=desk.tally.errors - before[1],
        seconds=round(time.monotonic() - began, 3),
    )


async def _give_back(office: Office, message: Message) -> None:
    """Whoever takes charge next need not wait until the ticket has run out."""
    with suppress(*GONE):
        frontier = await office.frontier(message.job)
        await return_ticket(frontier, message.ticket)


async def _tell(office: Office, message: Message, error: Exception) -> None:
    """Whoever runs `skitter logs` hears of it; the trace is in Celery's log."""
    text = str(error) if isinstance(error, SkitterError) else describe(error)
    with suppress(SkitterError):
        frontier = await office.frontier(message.job)
        await log(frontier, "error", f"celery-{os.getpid()}", text)


async def _work(office: Office, desk: Desk, message: Message) -> None:
    lingers = desk.charge.kind == "scrape"
    worker = desk.worker(
        WorkerOptions(
            concurrency=desk.charge.concurrency,
            lease_s=desk.charge.lease_s,
            grace_s=GRACE_S,
            for_s=PUMP_S,
            keep_alive=lingers,
            stuck_s=office.settings.stuck_s,
            kind="celery",
            watch_signals=False,  # Celery minds them
        )
    )
    async with unloading(office, desk):
        beside = [asyncio.create_task(_mind(office, desk, worker, message))]
        if lingers:
            beside.append(asyncio.create_task(_go_home_when_idle(desk, worker)))
        try:
            await worker.run()
        finally:
            await cancel_all(beside)


async def _mind(office: Office, desk: Desk, worker: Worker, message: Message) -> None:
    """Stop when Celery shuts down, when there are pumps too many, or when others wait."""
    looked_at = began = time.monotonic()
    while not office.closing:
        await _notice_standstill(desk)
        if time.monotonic() - looked_at > RENEW_S:
            looked_at = time.monotonic()
            if not await _goes_on(office, desk, message):
                break
            if looked_at - began > TURN_S and await _is_waited_for(desk):
                break
    worker.stop()


async def _notice_standstill(desk: Desk) -> None:
    """Nothing of ours runs while a handler blocks; afterwards there is somebody to blame."""
    before = time.monotonic()
    await asyncio.sleep(LOOK_S)
    stood_s = time.monotonic() - before
    if stood_s > STANDSTILL_S:
        text = f"a handler blocked all other pages of its process for {stood_s:.0f} s"
        desk.first.logbook("warning", f"{text}: let it await, or use asyncio.to_thread")


async def _goes_on(office: Office, desk: Desk, message: Message) -> bool:
    """Keep the ticket, and see to the other pumps: if all places of all workers are taken by
    pumps, nobody else does. Not if the charge is gone: somebody stopped the crawl."""
    frontier, server = desk.frontier, desk.frontier.shards[0].server
    try:
        await confirm_room(server, message.machine)
        charge = await read_charge(server, message.job)
        if charge is None or charge.mark != desk.charge.mark:
            return False
        stats = await frontier.stats()
        if not stats.crawled:
            await send_pumps(office, frontier, desk.charge, stats)
        return await renew_ticket(frontier, message.ticket, ttl_s=ALIVE_S)
    except SkitterError as error:
        return error.retryable  # the server is away: the worker waits for it


async def _is_waited_for(desk: Desk) -> bool:
    """There are more jobs than places: the next message of this one goes behind theirs."""
    try:
        return (await look_for_room(desk.frontier.shards[0].server, desk.charge.job)).is_crowded
    except SkitterError:
        return False


async def _go_home_when_idle(desk: Desk, worker: Worker) -> None:
    busy_at = time.monotonic()
    while time.monotonic() - busy_at < LINGER_S:
        await asyncio.sleep(LOOK_S)
        try:
            if not (await desk.frontier.stats()).crawled:
                busy_at = time.monotonic()
        except SkitterError:
            busy_at = time.monotonic()
    worker.stop()
