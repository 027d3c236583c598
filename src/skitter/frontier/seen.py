"""The set of all fingerprints a job has met."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skitter.settings import Bloom


def filter_problems(bloom: Bloom | None, seen: int) -> Iterator[str]:
    """A Bloom filter past its capacity goes on, and drops more and more for no reason."""
    if bloom is not None and seen > bloom.capacity:
        yield (
            f"was made for {bloom.capacity:,} URLs and has met {seen:,}: it takes about "
            f"{bloom.errors_at(seen):.2%} of new ones for seen, and they are lost. "
            "Create a job with a larger one."
        )
