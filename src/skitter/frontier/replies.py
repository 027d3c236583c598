"""Replies to plain reads, as redis-py returns them.

Only commands that a short read of a job sends: redis-py knows all others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def _as_sent(reply: Any) -> Any:
    return reply


def _pairs(reply: list[Any]) -> dict[Any, Any]:
    return dict(zip(reply[::2], reply[1::2], strict=True))


def _texts(reply: list[bytes]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in _pairs(reply).items()}


def _info(reply: bytes) -> dict[str, int | str]:
    """`name:value` a line, with numbers where they are whole."""
    lines = (line.partition(":") for line in reply.decode("utf-8", "replace").splitlines())
    return {
        name: int(value) if value.isdecimal() else value for name, colon, value in lines if colon
    }


READERS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(
        ("EXISTS", "GET", "HGET", "HKEYS", "HLEN", "HMGET", "LLEN", "LRANGE", "ZRANGE"), _as_sent
    ),
    "CONFIG GET": _texts,
    "HGETALL": _pairs,
    "HSCAN": lambda reply: (int(reply[0]), _pairs(reply[1])),
    "INFO": _info,
    "TIME": lambda reply: (int(reply[0]), int(reply[1])),
}
