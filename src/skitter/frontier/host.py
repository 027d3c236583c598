"""The record of a host in `hosts`, as lua/lib/host_record.lua packs it."""

from __future__ import annotations

import struct
from typing import Annotated

import msgspec

from skitter.frontier.wire import decode

LISTS = ("nowhere", "due", "wait")  # as lua/lib/host_record.lua numbers them
NEVER = -32768
_FORMAT = struct.Struct("<iiiihBddd")
_Count = Annotated[int, msgspec.Meta(ge=0)]


class HostRecord(msgspec.Struct, frozen=True, kw_only=True):
    """lua/lib/host_record.lua explains the fields; a new host is in no list and has no work."""

    in_flight: int = 0
    pages: _Count = 0
    shelved: _Count = 0
    tied: _Count = 1
    best: int = NEVER
    listed_in: Annotated[int, msgspec.Meta(ge=0, lt=len(LISTS))] = 0
    turn: Annotated[float, msgspec.Meta(ge=0)] = 0
    asked_at: float = 0
    blocked_until: float = 0
    own: dict[str, float] = {}


def open_host(packed: bytes) -> HostRecord:
    """Raises ValueError if it is not a host's record."""
    try:
        values = _FORMAT.unpack_from(packed)
    except struct.error as error:
        raise ValueError(str(error)) from None
    own = decode(packed[_FORMAT.size :]) if len(packed) > _FORMAT.size else {}
    fields = zip(HostRecord.__struct_fields__, (*values, own), strict=True)
    return msgspec.convert(dict(fields), HostRecord)
