"""Checks the keys of a job: each must be known, of the right type, and have an owner."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from skitter.frontier.audit.rules import control_problems, is_workable
from skitter.frontier.keys import SHARD_KEYS, feed_key
from skitter.frontier.options import read_control
from skitter.frontier.scan import scan_job
from skitter.frontier.seen import KEYS as SEEN_KEYS
from skitter.frontier.seen import seen_set

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skitter.frontier.audit.report import AuditReport
    from skitter.frontier.frontier import Frontier
    from skitter.frontier.shard import Shard

TRIES = 3
FIGURES = ("totals", "counts", "timings", "tables")
EXPIRING = (
    *("recent", "robots", "reopening", "sessions", "pool", "session", "webhook_lease"),
    *FIGURES,
)
#: Fields that differ between shards: only the first has workers and a spare, each has its own
#: clock, and `born` changes when a shard forgets something.
OF_ONE_SHARD = dict.fromkeys(("workers", "fleet", "spare", "clock", "shift", "born"), "")


async def check_keys(frontier: Frontier, report: AuditReport) -> set[int]:
    """Returns the shards with a key of the wrong type, on which scripts would fail."""
    server, feed = frontier.server, feed_key(frontier.job)
    for key, wanted in ((feed, "list"), (f"{feed}:lock", "string")):
        found = await server.command("TYPE", key)
        report.note(key, _type_problems(found, wanted))
    damaged: set[int] = set()
    async for keys in scan_job(frontier.home):
        for shard, own in _by_shard(frontier, keys):
            if shard is None:
                for key in own:
                    report.note(key, ["belongs to a shard that does not exist"])
            elif not await _check_some(frontier, shard, own, report):
                damaged.add(shard.keys.shard)
    return damaged


def _by_shard(frontier: Frontier, keys: list[str]) -> Iterator[tuple[Shard | None, list[str]]]:
    """Groups keys by shard; None: there is no such shard."""
    shards = {shard.keys.prefix: shard for shard in frontier.shards}
    found: dict[str, list[str]] = defaultdict(list)
    for key in keys:
        tag, brace, _ = key.partition("}:")
        found[tag + brace].append(key)
    for prefix, own in found.items():
        yield shards.get(prefix), own


async def _check_some(
    frontier: Frontier, shard: Shard, keys: list[str], report: AuditReport
) -> bool:
    sound, own = True, seen_set(frontier.layout).key
    answers = await shard.audit_keys(keys)
    for key, found, ttl in zip(keys, answers[::2], answers[1::2], strict=True):
        known = shard.keys.name_of(key)
        if found == b"none":  # gone since
            continue
        if known is None or (known[0] in SEEN_KEYS and known[0] != own):
            report.note(key, ["is an unknown key"])
            continue
        problems = _type_problems(found, SHARD_KEYS[known[0]].type)
        sound = sound and not problems
        if known[0] in EXPIRING and ttl == -1:
            problems.append("never expires")
        report.note(key, problems)
    return sound


def _type_problems(found: bytes | str, wanted: str) -> list[str]:
    kind = found if isinstance(found, str) else found.decode()
    return [] if kind in (wanted, "none") else [f"is a {kind} but should be a {wanted}"]


async def check_families(frontier: Frontier, report: AuditReport, damaged: set[int]) -> None:
    """Check that each queue has its host, and each bucket a valid number."""
    numbered: list[tuple[int, str, str]] = []
    async for keys in scan_job(frontier.home):
        for shard, own in _by_shard(frontier, keys):
            if shard is None or shard.keys.shard in damaged:
                continue
            names = [(key, *(shard.keys.name_of(key) or ("", ""))) for key in own]
            hosts = [host or "" for _, name, host in names if name == "queue"]
            await _check_queues(shard, hosts, report)
            numbered += [
                (shard.keys.shard, key, number or "")
                for key, name, number in names
                if name in SEEN_KEYS
            ]
    # Read last: a growing crawl adds buckets meanwhile.
    limits = {
        shard.keys.shard: await seen_set(frontier.layout).parts(shard)
        for shard in frontier.shards
        if shard.keys.shard not in damaged
    }
    for place, key, number in numbered:
        if not number.isdigit() or int(number) >= limits[place]:
            report.note(key, ["is a bucket that does not exist"])


async def _check_queues(shard: Shard, hosts: list[str], report: AuditReport) -> None:
    if not hosts:
        return
    known = await shard.command("HMGET", "hosts", *hosts)
    for host, record in zip(hosts, known, strict=True):
        key = shard.keys.key("queue", host)
        if record is None and await shard.server.command("EXISTS", key):
            report.note(key, ["is the queue of an unknown host"])


async def check_control(frontier: Frontier, report: AuditReport, damaged: set[int]) -> set[int]:
    """Check state and limits. Returns the shards on which scripts do not run."""
    shards = [shard for shard in frontier.shards if shard.keys.shard not in damaged]
    for _ in range(TRIES):  # a change may be under way, shard by shard
        controls = [await read_control(shard) for shard in shards]
        limits = [{**control, **OF_ONE_SHARD} for control in controls]
        if all(one == limits[0] for one in limits):
            break
    else:
        report.note("control", ["differs between shards"])
    for shard, control in zip(shards, controls, strict=True):
        problems = control_problems(control, frontier.layout)
        report.note(shard.keys.key("control"), problems)
    pairs = zip(shards, controls, strict=True)
    return {one.keys.shard for one, control in pairs if not is_workable(control, frontier.layout)}
