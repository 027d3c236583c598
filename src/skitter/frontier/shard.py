"""One shard of a job: where a verb becomes a script call."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

from skitter.errors import JobDamaged
from skitter.frontier.scripts import script

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from skitter.frontier.connection import Server
    from skitter.frontier.keys import ShardKeys


def client_name() -> str:
    """Names a client for people (host and process) and for the server (unique for ever)."""
    host = "".join(c for c in socket.gethostname() if c.isalnum() or c == "-")[:30]
    return f"{host}-{os.getpid()}-{secrets.token_hex(4)}"


@dataclass(slots=True)
class Shard:
    """Calls verbs on the keys of one shard, numbered so that a repeat is recognised."""

    server: Server
    keys: ShardKeys
    client: str
    #: Server milliseconds, for tests and simulation. None: the server's own clock.
    clock: Callable[[], int] | None = None
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))
    _turns: defaultdict[str, asyncio.Lock] = field(
        default_factory=lambda: defaultdict(asyncio.Lock)
    )

    async def call(
        self, verb: str, each: Sequence[object] = (), *, strict: bool = False, **values: object
    ) -> Any:
        """One verb, alone of its kind: the server remembers only a client's last call of each."""
        code = script(verb, strict=strict)
        wanted = {name for name, _ in code.header.argv}
        keys = [
            self.keys.key(name, self.client if name == "recent" else None)
            for name in code.header.keys
        ]
        async with self._turns[verb]:
            number = next(self._numbers)
            common = {
                "now": self.clock() if self.clock else "",
                "seq": number,
                "token": f"{self.client}.{number}",
            }
            values |= {name: value for name, value in common.items() if name in wanted}
            return await self.server.call(code, keys, code.arguments(values, each))

    async def counts(self) -> tuple[str, dict[str, int]]:
        """The state and every number of the shard, at one moment."""
        state, *pairs = await self.call("stats")
        counts = zip(pairs[::2], pairs[1::2], strict=True)
        try:
            return state.decode(), {name.decode(): int(value) for name, value in counts}
        except ValueError as error:
            raise JobDamaged(self.keys.job, f"a counter is no number ({error})") from None
