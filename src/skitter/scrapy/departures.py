"""When a node's requests are sent: Scrapy's downloader waits for the host's next turn.

The last step before sending asks the gate of the lease, on the node's thread; if the engine's
thread resumes too late for that turn, it asks again. robots.txt and files use the gate of an active
page of their host.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import msgspec

from skitter.engine.departures import (
    PATIENCE_AFTER_REDIRECT_S,
    Gate,
    TooEarly,
)

if TYPE_CHECKING:
    from scrapy import Request

    from skitter.scrapy.mailbox import Entry, Mailbox
    from skitter.scrapy.node import Node

AGAIN_S = 1.0


class Downloads:
    """Holds requests back until they may be sent. Runs in the engine's thread."""

    def __init__(self, node: Node, mailbox: Mailbox) -> None:
        self._node, self._mailbox = node, mailbox
        self._gates: WeakKeyDictionary[Request, Gate] = WeakKeyDictionary()

    async def leave(self, request: Request) -> None:
        """Wait until it may be sent. Raises TooEarly if its lease should be returned instead."""
        entry = self._mailbox.active.get(request)
        gate = self._own_gate(entry) if entry else self._gate_at(_slot(request))
        if gate is None:
            return
        self._gates[request] = gate
        await self._pass(gate, waits=entry is None)
        while not gate.is_still_on_time():
            await self._pass(gate, waits=entry is None)

    def arrive(self, request: Request) -> None:
        """The exchange is over, with or without a response."""
        if gate := self._gates.pop(request, None):
            gate.arrive(request.url)

    async def _pass(self, gate: Gate, *, waits: bool) -> None:
        while True:
            try:
                return await self._node.wait_for(gate.leave())
            except TooEarly:
                if not waits:
                    raise
            await self._node.wait_for(asyncio.sleep(AGAIN_S))

    def _own_gate(self, entry: Entry) -> Gate | None:
        if entry.gate is None:
            entry.gate = self._node.departures.gate(entry.lease)
        return entry.gate

    def _gate_at(self, host: str) -> Gate | None:
        """For a request without a lease: the unused turn of a page, or an extra one."""
        pages = [one for one in self._mailbox.active.values() if one.lease.host == host]
        polite = [one for one in pages if self._own_gate(one)]
        if not polite:
            return None
        unused = [one for one in polite if one.gate and not one.gate.was_used]
        gate = unused[0].gate if unused else self._one_more(polite[0])
        if gate:
            gate.patience_s = PATIENCE_AFTER_REDIRECT_S
        return gate

    def _one_more(self, entry: Entry) -> Gate | None:
        lease = entry.lease
        if lease.pace is None:
            return None
        used = msgspec.structs.replace(lease.pace, moment_ms=0)
        return self._node.departures.gate(msgspec.structs.replace(lease, pace=used))


def _slot(request: Request) -> str:
    return str(request.meta.get("download_slot", ""))
