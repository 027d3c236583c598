"""What became of pages that callers asked for, kept for those who come back for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skitter.frontier.frontier import Frontier

#: How long an answer is kept, and how long it is known that somebody waits for one.
KEPT_S: Final = 600
WAITING_S: Final = 86_400


async def note_waiting(frontier: Frontier, id: str, answer: bytes) -> None:
    """Somebody will come back for it. Never replaces an answer."""
    key = frontier.home.keys.key("answer", id)
    await frontier.server.command("SET", key, answer, "NX", "EX", WAITING_S)


async def keep_answer(frontier: Frontier, id: str, answer: bytes) -> None:
    key = frontier.home.keys.key("answer", id)
    await frontier.server.command("SET", key, answer, "EX", KEPT_S)


async def read_answers(frontier: Frontier, ids: Sequence[str]) -> list[bytes | None]:
    """In the order of the ids; None: nothing is known of it."""
    keys = [frontier.home.keys.key("answer", id) for id in ids]
    found: list[bytes | None] = await frontier.server.command("MGET", *keys)
    return found
