"""A key of the wrong type is found before anything is written: no page is in no list."""

from __future__ import annotations

import pytest

from skitter.errors import InfrastructureError

ENDS = {
    "complete": [
        "items",
        "trouble",
        "lease",
        "due",
        "wait",
        "stats",
        "hosts",
        "probation",
        "pages",
    ],
    "retry": ["delayed", "dead", "trouble", "lease", "due", "wait", "stats", "hosts", "probation"],
    "bury": ["dead", "trouble", "lease", "due", "wait", "stats", "hosts", "probation"],
    "release": ["delayed", "lease", "due", "wait", "stats", "hosts", "probation"],
    "trap": ["trapped", "looks", "lease", "due", "wait", "stats", "hosts", "probation"],
    "reclaim": ["dead", "trouble", "lease", "due", "wait", "stats", "hosts", "probation"],
    "reap": ["dead", "trouble", "due", "wait", "stats", "hosts", "probation"],
}


async def end(raw, clock, verb, claims):
    if verb == "complete":
        return await raw.complete(*((fp, token, [], [b"item"]) for fp, token in claims))
    if verb == "release":
        return await raw.release(*claims, after_ms=1000)
    if verb == "trap":
        rows = [part for fp, token in claims for part in (fp, token, 1, 0)]
        return await raw.shard.call("trap", rows)
    if verb == "reclaim":
        return await raw.call("reclaim", claims, seen=1, alone=0, why="")
    if verb == "reap":
        clock.advance(3600)
        return await raw.call("reap", at_most=9)
    return await getattr(raw, verb)(*claims)


@pytest.mark.parametrize(("verb", "name"), [(verb, key) for verb in ENDS for key in ENDS[verb]])
async def test_a_call_that_cannot_write_changes_nothing(make_raw, clock, verb, name):
    raw = await make_raw(shape_budget=1, max_losses=1)
    await raw.add("1", "2", "3")
    claims = (await raw.lease(2)).claims
    key = raw.shard.keys.key(name)
    await raw.shard.server.command("DEL", key)
    await raw.shard.server.command("SET", key, "planted")
    held, tasks = await raw.read("holder"), await raw.read("task")

    with pytest.raises(InfrastructureError, match="WRONGTYPE"):
        await end(raw, clock, verb, claims)

    assert await raw.read("holder") == held
    assert await raw.read("task") == tasks
    for other in {"lease", "delayed", "dead", "trapped", "items"} - {name}:
        found = await raw.read(other)
        assert len(found) == (2 if other == "lease" else 0)
