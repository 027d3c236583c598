"""Scrapy's download slots with exact limits, leaving configured delays to the frontier."""

from __future__ import annotations

from collections import deque
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skitter.scrapy.options import NodeOptions


class Slots(dict[str, Any]):
    """Download slots whose configured delay the frontier already enforces."""

    def __init__(self, options: NodeOptions, slots: dict[str, Any]) -> None:
        super().__init__()
        self._options = options
        for key, slot in slots.items():
            self[key] = slot

    def __setitem__(self, key: str, slot: Any) -> None:
        # A lone node holds more requests than may be in flight (frontier/lua/spare.lua).
        slot.concurrency = min(slot.concurrency, self._options.max_in_flight(key))
        leaving = set[Any]()
        slot.queue = _Queue(leaving, slot.queue)
        slot.transferring = _Transferring(leaving, slot.transferring)
        slot.__class__ = _patient(type(slot), self._options.delay_s(key))  # type: ignore[arg-type]
        super().__setitem__(key, slot)


class _Queue(deque[Any]):
    """Waiting requests of a slot. For one loop iteration between here and `transferring`, Scrapy
    (2.19) does not count a request, and starts more than the slot allows."""

    def __init__(self, leaving: set[Any], waiting: Iterable[Any]) -> None:
        super().__init__(waiting)
        self.leaving = leaving

    def popleft(self) -> Any:
        found = super().popleft()
        self.leaving.add(found[0])
        return found


class _Transferring(set[Any]):
    """Requests of a slot that are in flight."""

    def __init__(self, leaving: set[Any], under_way: Iterable[Any]) -> None:
        super().__init__(under_way)
        self.leaving = leaving

    def add(self, request: Any) -> None:
        self.leaving.discard(request)
        super().add(request)


@lru_cache(maxsize=1000)
def _patient(kind: type[Any], kept_s: float) -> type[Any]:
    """A slot class with an exact limit that waits only if its delay exceeds the frontier's."""

    def download_delay(self: Any) -> float:
        return kind.download_delay(self) if self.delay > kept_s else 0.0

    def free_transfer_slots(self: Any) -> int:
        free: int = kind.free_transfer_slots(self) - len(self.queue.leaving)
        return free

    own = {"download_delay": download_delay, "free_transfer_slots": free_transfer_slots}
    return type(kind.__name__, (kind,), {"__slots__": (), **own})
