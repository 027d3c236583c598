"""A job's schedule: when its rounds begin."""

from __future__ import annotations

import msgspec

from skitter.frontier.admin.schedule import (
    Schedule,
    new_schedule,
    read_schedule,
    remove_schedule,
    set_schedule,
)
from skitter.server.call import Call
from skitter.server.route import Removed


class When(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cron expression (UTC), or an interval in seconds."""

    cron: str = ""
    every_s: float = 0.0


async def schedule(call: Call) -> Schedule | None:
    """When rounds begin; null: the job has no schedule."""
    return await read_schedule(await call.frontier())


async def change_schedule(call: Call, body: When) -> Schedule:
    """Set or replace the job's schedule."""
    frontier = await call.frontier()
    now_ms = round(1000 * await frontier.server_time())
    made = new_schedule(cron=body.cron, every_s=body.every_s, now_ms=now_ms)
    await set_schedule(frontier, made)
    return made


async def drop_schedule(call: Call) -> Removed:
    """Remove the schedule of the job."""
    return Removed(await remove_schedule(await call.frontier()))
