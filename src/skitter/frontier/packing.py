"""Commands and script calls as bytes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import hiredis


def pack(words: tuple[Any, ...]) -> bytes:
    """Pack a command, whose name may be of two words: CONFIG GET."""
    name = words[0].split() if isinstance(words[0], str) else (words[0],)
    packed: bytes = hiredis.pack_command((*name, *words[1:]))
    return packed


def pack_script(words: tuple[Any, ...]) -> bytes:
    """Pack `EVALSHA sha n keys... arguments...`. Up to the arguments it is the same at every call
    of a script on a shard, and most of the work."""
    fixed = 3 + words[2]
    return b"*%d\r\n%b%b" % (len(words), _packed_head(words[:fixed]), _packed(words[fixed:]))


@lru_cache(maxsize=1024)
def _packed_head(words: tuple[Any, ...]) -> bytes:
    return _packed(words)


def _packed(words: tuple[Any, ...]) -> bytes:
    """The words without their number, which hiredis puts in front."""
    packed: bytes = hiredis.pack_command(words)
    return packed[packed.index(b"\n") + 1 :]
