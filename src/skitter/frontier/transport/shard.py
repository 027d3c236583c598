"""One shard of a job: turns verbs into script calls."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

from skitter.errors import JobDamaged
from skitter.frontier.transport.keys import job_prefix
from skitter.frontier.transport.messages import batched
from skitter.frontier.transport.scripts import script
from skitter.frontier.transport.sync import turnstile
from skitter.frontier.transport.verbs import Verbs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence
    from contextlib import AbstractAsyncContextManager

    from skitter.frontier.transport.connection import Server
    from skitter.frontier.transport.keys import ShardKeys
    from skitter.frontier.transport.scripts import Script

JOB_MS = 8  # its place in the reply of lease.lua


@dataclass(slots=True)
class Shard(Verbs):
    """Calls verbs on the keys of one shard, numbered so that a repeat is recognised."""

    server: Server
    keys: ShardKeys
    client: str
    #: Server milliseconds, for tests and simulation. None: the server's own clock.
    clock: Callable[[], int] | None = None
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))
    _turns: defaultdict[str, AbstractAsyncContextManager[None]] = field(
        default_factory=lambda: defaultdict(turnstile)
    )
    _codes: dict[tuple[str, bool], tuple[Script, list[str]]] = field(default_factory=dict)
    #: The job's time when it was last leased, and when that call was sent, on the monotonic clock.
    _leased: tuple[int, float] | None = None

    async def call(
        self,
        verb: str,
        each: Sequence[object] = (),
        *,
        strict: bool = False,
        replicated: bool = False,
        **values: object,
    ) -> Any:
        """Run a verb, one call of each at a time: the server remembers only a client's last one.
        Replicated: return only when a replica has it."""
        code, keys = self._codes.get((verb, strict)) or self._code(verb, strict=strict)
        async with self._turns[verb]:
            number, sent_at = next(self._numbers), time.monotonic()
            common = {
                "now": self.clock() if self.clock else "",
                "seq": number,
                "token": f"{self.client}.{number}",
                "vouched_ms": self._vouched_ms(sent_at),
            }
            for name in code.common:
                values.setdefault(name, common[name])
            args = code.arguments(values, each)
            answer = await self.server.call(code, keys, args, replicated=replicated)
            if verb == "lease" and self.clock is None:  # not before: it may not have run
                self._leased = answer[JOB_MS], sent_at
            return answer

    def _vouched_ms(self, at: float) -> int:
        """The job's time by our own clock, which reveals jumps of the server's (lib/steady.lua);
        -1: we have not leased, or a test sets the clock."""
        if self._leased is None:
            return -1
        job_ms, since = self._leased
        return job_ms + math.ceil(1000 * (at - since))

    def _code(self, verb: str, *, strict: bool) -> tuple[Script, list[str]]:
        """A script and its keys. Kept: it has a dozen, and a client makes thousands of calls."""
        code = script(verb, strict=strict)
        keys = [
            self.keys.key(name, self.client if name == "recent" else None)
            for name in code.header.keys
        ]
        self._codes[verb, strict] = code, keys
        return code, keys

    async def command(self, word: str, name: str, *words: Any) -> Any:
        """Run a plain command on a key of the shard. Only for commands that may run twice."""
        return await self.server.command(word, self.keys.key(name), *words)

    async def read_hash(self, name: str) -> dict[str, str]:
        """A whole hash, as text; the bytes may be invalid, as anybody can write it."""
        raw = await self.command("HGETALL", name)
        return {
            field.decode("utf-8", "replace"): value.decode("utf-8", "replace")
            for field, value in raw.items()
        }

    async def counts(self) -> tuple[str, dict[str, int]]:
        """The state and all counts of the shard, in one atomic snapshot."""
        state, *pairs = await self.stats()
        counts = zip(pairs[::2], pairs[1::2], strict=True)
        try:
            return state.decode(), {name.decode(): int(value) for name, value in counts}
        except ValueError as error:
            raise JobDamaged(self.keys.job, f"a counter is not a number ({error})") from None


STEP = 500


async def scan_names(
    shard: Shard, name: str, member: str | None = None
) -> AsyncIterator[list[str]]:
    """The fields of a hash, or the members of a set or zset. A name may come twice."""
    command = {"hash": "HSCAN", "zset": "ZSCAN", "set": "SSCAN"}[shard.keys.spec(name).type]
    width = 1 if command == "SSCAN" else 2
    cursor: Any = 0
    while True:
        key = shard.keys.key(name, member)
        cursor, flat = await shard.server.command(command, key, cursor, "COUNT", STEP)
        # redis-py turns the replies of HSCAN and ZSCAN into a dict or pairs.
        names = list(flat) if width == 1 or isinstance(flat, dict) else [pair[0] for pair in flat]
        if names:
            yield [name.decode("utf-8", "backslashreplace") for name in names]
        if int(cursor) == 0:
            return


def scan_keys(shard: Shard) -> AsyncIterator[list[str]]:
    """All keys of the shard, in batches. A key may come twice."""
    return _scan(shard.server, shard.keys.prefix)


def scan_job(shard: Shard) -> AsyncIterator[list[str]]:
    """All keys of all shards of its job, even of shards that should not exist."""
    return _scan(shard.server, job_prefix(shard.keys.job))


async def _scan(server: Server, prefix: str) -> AsyncIterator[list[str]]:
    async for keys in batched(server.client.scan_iter(match=f"{prefix}*", count=STEP), STEP):
        yield [
            key.decode("utf-8", "backslashreplace") if isinstance(key, bytes) else key
            for key in keys
        ]
