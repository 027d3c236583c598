"""Verbs by hand, with fingerprints of the test's choice, and the keys as they lie on the server."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from skitter.frontier.delays import open_host
from skitter.frontier.totals import read_totals
from skitter.frontier.transport.messages import decode, encode
from skitter.frontier.transport.scripts import Code
from skitter.frontier.transport.shard import scan_keys
from skitter.settings import JobOptions, Limits, Politeness, Retries

if TYPE_CHECKING:
    from skitter.frontier.transport.shard import Shard

HOST = "a.test"
#: Turns are apart by so much more than the delay, where several requests may be under way.
SLACK_MS = 10


def feedback(rest_ms: int, said: dict[str, Any] | None = None) -> bytes:
    rest = {"rest_ms": rest_ms} if rest_ms else {}
    return encode({**rest, **(said or {})}) if rest or said else b""


@dataclass
class Grant:
    """The answer of `lease`, taken apart."""

    state: str
    again_ms: int
    token: str
    is_short: bool
    rows: list[tuple[str, bytes, bytes]]  # fingerprint, record, trouble
    to_reopen: int
    depths: dict[str, int]

    @property
    def fps(self) -> list[str]:
        return [fp for fp, _, _ in self.rows]

    @property
    def claims(self) -> list[tuple[str, str]]:
        return [(fp, self.token) for fp in self.fps]


@dataclass
class Raw:
    """One shard, seen by one client."""

    shard: Shard
    leased_ms: int = -1  # the job's time when it last leased

    # --- verbs ------------------------------------------------------------------------------------

    async def call(self, verb, each=(), **values) -> Any:
        answer = await self.shard.call(verb, [part for group in each for part in group], **values)
        return [Code(code) for code in answer] if isinstance(answer, list) else answer

    def numbered(self, seq: int) -> Raw:
        """The same client, whose next call has this number."""
        return Raw(replace(self.shard, _numbers=count(seq)))

    async def add(self, *fps, links=0, **about):
        return await self.call("add", [self.link(fp, **about) for fp in fps], links=links)

    @staticmethod
    def link(fp, host=HOST, priority=0, depth=0, body=b"body"):
        return (fp, host, priority, depth, f"{priority} {host} ".encode() + body)

    async def lease(self, limit=10, *, ttl_ms=60_000, since_ms=-1, lane="", company=0) -> Grant:
        """`since_ms`: since it last leased, by its own clock; -1: unknown."""
        vouched_ms = self.vouched_ms(since_ms)
        answer = await self.shard.call(
            "lease",
            limit=limit,
            ttl_ms=ttl_ms,
            vouched_ms=vouched_ms,
            lane=lane,
            company=company,
        )
        state, again_ms, token, short, _, _, to_reopen, _, self.leased_ms, _, *rest = answer
        width = 3 if to_reopen < 0 else 4
        rows = list(zip(*(rest[i::width] for i in range(width)), strict=True))
        taken = [(fp.decode(), record, trouble) for fp, record, trouble, *_ in rows]
        depths = {fp.decode(): int(more[0] or 0) for fp, _, _, *more in rows if more}
        return Grant(
            state.decode(), again_ms, token.decode(), bool(short), taken, to_reopen, depths
        )

    def vouched_ms(self, since_ms: int) -> int:
        return self.leased_ms + since_ms if self.leased_ms >= 0 <= since_ms else -1

    async def complete(self, *ends, block_ms=0, into="", said=None):
        """Each end is a claim, or a claim with links and items: (fp, token, links, items)."""
        full = [(*end, [], [])[:4] for end in ends]
        heads = [
            (fp, token, f"{len(ls)} {len(its)}", feedback(block_ms, said))
            for fp, token, ls, its in full
        ]
        links = [link for _, _, ls, _ in full for link in ls]
        items = [(item,) for *_, its in full for item in its]
        return await self.call(
            "complete",
            [*heads, *links, *items],
            leases=len(full),
            links=len(links),
            list=into,
            report=0,
        )

    async def extend(self, *claims, ttl_ms=60_000, alone=0):
        return await self.call("extend", claims, ttl_ms=ttl_ms, alone=alone)

    async def retry(self, *claims, after_ms=1000, block_ms=0, error="timeout", said=None):
        ends = [(*claim, after_ms, error, feedback(block_ms, said)) for claim in claims]
        return await self.call("retry", ends)

    async def bury(self, *claims, block_ms=0, reason="gone", said=None):
        rows = [(*claim, reason, feedback(block_ms, said), "", 0) for claim in claims]
        return await self.call("bury", rows)

    async def release(self, *claims, after_ms=0):
        return await self.call("release", [(*claim, after_ms) for claim in claims])

    async def reap(self, at_most=100):
        return await self.call("reap", at_most=at_most)

    async def revive(self, *fps):
        return await self.call("revive", [fps])

    async def drop(self, *fps, forget=0):
        return await self.call("drop", [fps], forget=forget)

    async def host(self, *names, field="", value=""):
        return await self.call("host", [names], field=field, value=value)

    async def control(self, **fields):
        return await self.call("control", fields.items(), create=0)

    async def allow(self, *, granted=0, keep=-1) -> list[int]:
        """granted, ceded, used"""
        return list(await self.shard.call("allow", granted=granted, keep=keep))

    async def grant(self, *shares) -> list[int]:
        """Each share is granted, ceded, used and want."""
        return list(await self.shard.call("grant", [part for share in shares for part in share]))

    async def idle(self) -> bool:
        return (await read_totals([self.shard])).idle

    async def stats(self) -> dict[str, Any]:
        state, *pairs = await self.shard.call("stats")
        counters = zip(pairs[::2], pairs[1::2], strict=True)
        return {"state": state.decode()} | {name.decode(): int(n) for name, n in counters}

    # --- keys -------------------------------------------------------------------------------------

    async def read(self, name, member=None) -> Any:
        """One key: hash -> dict, zset -> dict in order, set -> set, stream -> list of fields."""
        client: Any = self.shard.server.client
        keys = self.shard.keys
        key = keys.key(name, member)
        match keys.spec(name).type:
            case "hash":
                opened = {f.decode(): v for f, v in (await client.hgetall(key)).items()}
                return {field: _open(name, value) for field, value in opened.items()}
            case "zset":
                return {m.decode(): s for m, s in await client.zrange(key, 0, -1, withscores=True)}
            case "set":
                return {member.decode() for member in await client.smembers(key)}
            case "stream":
                entries = await client.xrange(key)
                return [{f.decode(): v for f, v in fields.items()} for _, fields in entries]
            case "list":
                return [row.decode() for row in await client.lrange(key, 0, -1)]
            case "string":
                return await client.get(key)

    async def known(self, host=HOST) -> Any:
        """What `hosts` has about a host."""
        return (await self.read("hosts"))[host]

    async def counter(self, name) -> Any:
        return (await self.read("stats")).get(name, 0)

    async def dump(self) -> dict[Any, Any]:
        """Every key of the shard and what it holds."""
        found: Any = {
            self.shard.keys.name_of(key) async for keys in scan_keys(self.shard) for key in keys
        }
        return {name: await self.read(*name) for name in sorted(found, key=str)}

    async def dump_without_traces(self) -> dict[Any, Any]:
        """The dump without what a call that changes nothing leaves: its own answer, the counter
        `late`, and the job's clock."""
        dump = await self.dump()
        dump.get(("stats", None), {}).pop("late", None)
        dump.get(("control", None), {}).pop("clock", None)
        return {name: value for name, value in dump.items() if name[0] != "recent"}

    async def state_of(self, fp) -> list[str]:
        """Where a fingerprint is. A healthy one is in one place."""
        dump = await self.dump()
        places = [name for name in ("delayed", "lease", "dead") if fp in dump.get((name, None), {})]
        queues = [value for (name, _), value in dump.items() if name == "queue" and fp in value]
        return [*places, *("queue" for _ in queues)]

    @staticmethod
    def score(priority, ticket):
        return -priority * 2**40 + ticket


def _open(name: str, value: bytes) -> Any:
    if name == "hosts":
        return open_host(value)
    if name == "trouble":
        return decode(value)
    if name == "recent":
        number, _, answer = value.partition(b" ")
        return [int(number), decode(answer)]
    if name == "stats":
        return int(value)
    return value.decode() if name in ("control", "holder") else value


@pytest.fixture
def raw(frontier) -> Raw:
    """A job that hands out everything at once."""
    return Raw(frontier.shards[0])


@pytest.fixture
def make_raw(make_frontier):
    """A job with limits of the test's choice; without any, a second client of the same job."""

    async def make(layout=None, **given) -> Raw:
        options: dict[str, Any] = {"delay_s": 0, "max_in_flight": 1000, "max_retries": 3}
        options["max_losses"] = 3
        options |= {"latency_factor": 2.0, "max_delay_s": 300.0} | given

        def pick(*names):
            return {name: options.pop(name) for name in names}

        politeness = Politeness(**pick("delay_s", "max_in_flight", "latency_factor", "max_delay_s"))
        retries = Retries(**pick("max_retries", "max_losses"))
        chosen = JobOptions(politeness=politeness, retries=retries, limits=Limits(**options))
        return Raw((await make_frontier(chosen if given or layout else None, layout)).shards[0])

    return make


@pytest.fixture
def polite(make_raw):
    """One host with many pages, a delay of 1 s, and one request at a time."""

    async def make(delay_s=1.0, max_in_flight=1, **options):
        raw = await make_raw(delay_s=delay_s, max_in_flight=max_in_flight, **options)
        await raw.add(*map(str, range(1, 400)))
        return raw

    return make


async def visit(raw, clock, **said):
    """Ask once, as soon as the host may be asked, and hear that."""
    granted = await raw.lease(1)
    while not granted.fps:
        clock.advance(granted.again_ms / 1000)
        granted = await raw.lease(1)
    return await raw.complete(*granted.claims, said=said)


async def wait_ms(raw):
    """How long the host is left alone from now on."""
    return (await raw.lease(1)).again_ms
