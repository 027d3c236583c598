"""URLs that count only once a replica has them: what a caller waits for, and what to do."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

from skitter.errors import ServerUnreachable
from skitter.frontier.transport.sync import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from skitter.frontier.frontier import Frontier

#: Longer than any replica takes that is well.
SLOW_S = 1.5


@contextmanager
def told_if_slow(frontier: Frontier, progress: Callable[[str], None]) -> Iterator[None]:
    """Say that a replica is waited for, if this takes long."""
    if not frontier.options.safety.replicated:
        yield
        return
    text = (
        f"Waiting for a replica to confirm the new URLs: {frontier.job} has durability=replicated."
    )
    telling = asyncio.get_running_loop().call_later(SLOW_S, progress, text)
    try:
        yield
    finally:
        telling.cancel()


@contextmanager
def explained(job: str) -> Iterator[None]:
    """If no replica has confirmed, say what to do."""
    try:
        yield
    except ServerUnreachable as error:
        if MISSING not in str(error):
            raise
        raise ServerUnreachable(
            f"no replica has confirmed the new URLs, and {job} has durability=replicated: start a "
            f"replica (docs/howto/cluster.md), or run `skitter set {job} --durability primary`. "
            "Then try again: no URL is added twice."
        ) from error
