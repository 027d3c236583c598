"""The seen-set: every fingerprint that a job has seen, in an exact set or a Bloom filter.

Only this module and lua/lib/seen.lua know which of the two a job uses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from skitter.frontier.transport.shard import scan_names
from skitter.settings import Bloom

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from skitter.frontier.transport.shard import Shard
    from skitter.settings import Layout

KEYS = ("seen", "bloom")
_FIELDS = ("bloom_blocks", "bloom_hashes")


class Bucket(NamedTuple):
    """Some members of one bucket of an exact set."""

    number: int
    of: int  # buckets
    members: list[str]

    def is_right_for(self, fingerprint: str) -> bool:
        """Whether lua/lib/seen_exact.lua would look for it here."""
        span = 1 << (self.of.bit_length() - 1)
        number = int(fingerprint[-9:]) % (2 * span)
        return self.number == (number if number < self.of else number - span)


class ExactSet:
    """Sets of integers, each split before it grows too big."""

    key = "seen"
    can_forget = True

    @property
    def fields(self) -> dict[str, object]:
        """The fields of `control` that scripts need."""
        return {}

    def problems(self, seen: int) -> list[str]:
        return []

    async def parts(self, shard: Shard) -> int:
        """How many keys it may have."""
        raw = await shard.command("HGET", "stats", "buckets")
        return max(1, int(raw)) if raw and raw.isdigit() else 1

    async def count(self, shard: Shard) -> int | None:
        """How many fingerprints there are; None: they cannot be counted."""
        keys = [shard.keys.key("seen", str(number)) for number in range(await self.parts(shard))]
        return sum([int(await shard.server.command("SCARD", key)) for key in keys])

    async def scan(self, shard: Shard) -> AsyncIterator[Bucket]:
        buckets = await self.parts(shard)
        for number in range(buckets):
            async for members in scan_names(shard, "seen", str(number)):
                yield Bucket(number, buckets, members)


class BloomFilter(msgspec.Struct, frozen=True):
    """Takes less memory, but mistakes some new fingerprints for seen ones."""

    bloom: Bloom
    key = "bloom"
    can_forget = False

    @property
    def fields(self) -> dict[str, object]:
        return {"bloom_blocks": self.bloom.blocks, "bloom_hashes": self.bloom.hashes}

    def problems(self, seen: int) -> list[str]:
        """Beyond its capacity it keeps working, but skips more and more new URLs."""
        if seen <= self.bloom.capacity:
            return []
        return [
            f"was made for {self.bloom.capacity:,} URLs but holds {seen:,}: it mistakes about "
            f"{self.bloom.errors_at(seen):.2%} of new URLs for seen ones and drops them. "
            "Create a job with a larger filter."
        ]

    async def parts(self, shard: Shard) -> int:
        return self.bloom.blocks

    async def count(self, shard: Shard) -> int | None:
        return None

    async def scan(self, shard: Shard) -> AsyncIterator[Bucket]:
        return
        yield


SeenSet = ExactSet | BloomFilter


def seen_set(layout: Layout) -> SeenSet:
    return BloomFilter(layout.bloom) if layout.bloom else ExactSet()


def is_seen_set_of(control: Mapping[str, str], layout: Layout) -> bool:
    """Whether scripts use the seen-set that the job was created with."""
    wanted = {name: str(value) for name, value in seen_set(layout).fields.items()}
    return wanted == {name: control[name] for name in _FIELDS if name in control}
