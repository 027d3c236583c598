"""As many pumps as the work is worth, and what is due when it is done.

Called by whoever notices something: a task that hands URLs over, a pump at its end, the watch that
every Celery worker keeps, `skitter run --engine celery`. Nobody is in charge; the tickets on the
server see to it that all of them together send no more pumps than are wanted.
"""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kombu.exceptions import OperationalError

from skitter.celery.charges import (
    count_pumps,
    drop_charge,
    has_finale,
    is_over,
    let_go,
    read_charge,
    read_charges,
)
from skitter.celery.routing import destination
from skitter.errors import JobClosed, JobMissing
from skitter.fleet.plan import REQUESTS_PER_WORKER
from skitter.frontier.admin.permits import issue_tickets
from skitter.frontier.admin.reclaim import forfeit
from skitter.frontier.admin.workers import heartbeats, leave, log, server_time, wanted_workers
from skitter.frontier.keys import ROOMS
from skitter.model import State

if TYPE_CHECKING:
    from skitter.celery.charges import Charge
    from skitter.celery.office import Office
    from skitter.frontier.admin.workers import Heartbeat
    from skitter.frontier.connection import Server
    from skitter.frontier.frontier import Frontier
    from skitter.model import Stats

WATCH_S = 3.0  # how often each worker looks at all charges
#: How long a pump's message may wait in Celery's queue before it is taken for lost.
SENT_S = 30.0
#: Of one worker, and of all: more than anybody has.
MOST_PLACES = 100_000
#: A worker that has not been heard of for so long has no room for pumps.
SILENCE_S = 5 * WATCH_S
#: A pump that tells nothing for so long is dead, or stands still. Half of the usual lease.
SILENT_S = 30.0


async def look_after(office: Office, charge: Charge) -> None:
    """Send the pumps that are missing; let go of a job that is over."""
    try:
        frontier = await office.frontier(charge.job)
    except JobMissing:  # purged
        await drop_charge(await office.server(), charge.job)
        return
    stats = await frontier.stats()
    if not is_over(charge, stats):
        await send_pumps(office, frontier, charge, stats)
    elif has_finale(charge):
        await send(office, frontier, charge, "skitter.finish")
    else:
        await let_go(frontier, charge)


async def look_again(office: Office, job: str) -> None:
    """The same for whoever read its charge a while ago: it may be another by now, or gone."""
    if charge := await read_charge(await office.server(), job):
        with suppress(JobClosed):  # half purged
            await look_after(office, charge)


async def look_after_all(office: Office) -> None:
    """One job that is in trouble does not keep the others waiting; `skitter doctor` tells."""
    for charge in await read_charges(await office.server()):
        with suppress(JobClosed):
            await look_after(office, charge)


async def send_pumps(office: Office, frontier: Frontier, charge: Charge, stats: Stats) -> None:
    """Those that are missing; those too many lose their tickets."""
    await take_back(frontier)
    room = await look_for_room(frontier.shards[0].server, charge.job)
    wish = await wanted_workers(frontier)
    wanted = wanted_pumps(charge, stats, wish=wish, room=room)
    for ticket in await issue_tickets(frontier, wanted, ttl_s=SENT_S):
        await send(office, frontier, charge, "skitter.pump", ticket)


async def take_back(frontier: Frontier) -> None:
    """What pumps held that were killed, or ended themselves (worker/watchdog.py), is handed out
    again before their leases run out. Not while the process lives: a handler blocks it, and has
    until its lease runs out."""
    now = await server_time(frontier)
    for one in await heartbeats(frontier):
        if one.kind == "celery" and now - one.at > SILENT_S and not _lives_here(one):
            taken = await forfeit(frontier, one.name)
            await leave(frontier, one.name)
            text = f"process {one.pid} on {one.host} was killed, or a page held it up and it ended"
            text = f"{text} itself; {taken} requests were taken back from it"
            await log(frontier, "error", f"celery-{os.getpid()}", text)


def _lives_here(one: Heartbeat) -> bool:
    """On this machine, where we can see it."""
    if one.host != socket.gethostname():
        return False
    try:
        os.kill(one.pid, 0)
    except (ProcessLookupError, OverflowError):  # or no number of a process
        return False
    except PermissionError:
        pass  # somebody else's
    return True


async def send(office: Office, frontier: Frontier, charge: Charge, task: str, *words: str) -> None:
    """A message about a job. While the broker is away it stays unsent: somebody looks again."""
    queues = office.settings.queues
    queue = queues.browser if charge.browser else queues.http

    def publish() -> None:
        where = destination(office.app, task, queue)
        office.app.tasks[task].apply_async((charge.job, *words), **where)

    try:
        await asyncio.to_thread(publish)  # it blocks
    except OperationalError as error:
        await log(frontier, "warning", f"celery-{os.getpid()}", f"the broker is away: {error}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """How many tasks all workers run at a time, and which of those are pumps of other jobs."""

    places: int
    others: int = 0  # pumps
    jobs: int = 1  # with pumps, this one among them

    @property
    def free(self) -> int:
        """For the pumps of this job: what the others leave, or its share if they have more than
        theirs; they give it back. One place is for other tasks."""
        return max(self.places - 1 - self.others, (self.places - 1) // self.jobs)

    @property
    def is_crowded(self) -> bool:
        """Jobs take turns, and other tasks wait as well."""
        return self.jobs > 1 and self.others + 1 > max(1, self.places - 1)


def wanted_pumps(charge: Charge, stats: Stats, *, wish: int | None, room: Room) -> int:
    """What the operator wished (`skitter scale`), or the caller; otherwise as many as the work is
    worth and as there is room for. Pure."""
    if stats.state is State.PAUSE:
        return 1  # it waits for the job to be resumed
    asked = charge.pumps if wish is None else wish
    if asked:
        return min(asked, room.places) if room.places else asked
    waiting = stats.pending - stats.shelved + stats.delayed + stats.leased
    worth = -(-waiting // REQUESTS_PER_WORKER)
    return max(1, min(room.free, worth))


async def look_for_room(server: Server, job: str) -> Room:
    """As a job sees it."""
    pumps = {name: number for name, number in (await count_pumps(server)).items() if number}
    pumps.pop(job, None)
    return Room(places=await read_room(server), others=sum(pumps.values()), jobs=len(pumps) + 1)


async def note_room(server: Server, machine: str, places: int) -> None:
    """A Celery worker says how many tasks it runs at a time."""
    seconds, _ = await server.command("TIME")
    await server.command("HSET", ROOMS, machine, f"{places} {int(seconds)}")


async def confirm_room(server: Server, machine: str) -> None:
    """It is still there: while all its places are taken, it cannot say so itself."""
    if said := _heard(await server.command("HGET", ROOMS, machine) or b""):
        await note_room(server, machine, said[0])


async def read_room(server: Server) -> int:
    """How many tasks all workers run at a time, as far as they were heard of lately."""
    now = int((await server.command("TIME"))[0])
    room = 0
    for machine, said in (await server.command("HGETALL", ROOMS)).items():
        places, at = _heard(said) or (0, 0)
        if now - at < SILENCE_S:
            room += places
        elif now - at > 20 * SILENCE_S:
            await server.command("HDEL", ROOMS, machine)
    return min(room, MOST_PLACES)


def _heard(said: bytes) -> tuple[int, int] | None:
    """Places, and when that was; None for what no worker says."""
    words = said.split()
    if len(words) != 2 or not all(word.isdigit() and len(word) < 16 for word in words):
        return None
    return min(int(words[0]), MOST_PLACES), int(words[1])
