"""Webhooks of a job: where messages go, about what, and which are not delivered yet."""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar, get_args

import msgspec

from skitter.errors import BadOption, UsageError
from skitter.redact import redact_webhook

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skitter.frontier.frontier import Frontier

Occasion = Literal[
    "finish", "dead", "failures", "quality", "blocked", "stuck", "no workers", "output", "away"
]
OCCASIONS: tuple[Occasion, ...] = get_args(Occasion)
MAX_WEBHOOKS, MAX_WAITING = 20, 1000
#: The holder of the lease sends; if it dies, another process takes over.
LEASE_S = 60

T = TypeVar("T")
Share = Annotated[float, msgspec.Meta(gt=0, le=1)]


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    """Where messages go, and about what."""

    id: str
    url: str
    secret: str
    on: list[Occasion]
    dead: Annotated[int, msgspec.Meta(ge=1)] = 100  # dead letters
    failures: Share = 0.5  # of recent attempts
    blocked: Share = 0.2  # of recent responses
    private: bool = False  # read by older releases only: the sender's own settings decide
    told: list[Occasion] = []  # still true, and already sent


def without_secrets(hook: Webhook) -> Webhook:
    """To be listed: many addresses are secrets themselves."""
    return msgspec.structs.replace(hook, secret="", url=redact_webhook(hook.url))


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A message that is not delivered yet."""

    id: Annotated[str, msgspec.Meta(pattern=r"\A[\w-]{1,64}\Z")]  # goes into a header
    webhook: str
    on: Occasion
    body: str  # as of then; what is sent is built anew
    next_at: float = 0.0
    tries: int = 0


async def add_webhook(frontier: Frontier, hook: Webhook) -> None:
    """Raises UsageError if there are too many."""
    if len(await list_webhooks(frontier)) >= MAX_WEBHOOKS:
        raise UsageError(f"{frontier.job} has {MAX_WEBHOOKS} webhooks: remove one first.")
    await save_webhook(frontier, hook)


def new_webhook(url: str, on: Iterable[str] = (), **limits: float) -> Webhook:
    """A webhook with a new secret. Raises BadOption for bad values."""
    wanted = list(dict.fromkeys(on)) or list(OCCASIONS)
    if strange := set(wanted) - set(OCCASIONS):
        raise BadOption("on", ", ".join(sorted(strange)), "one of " + ", ".join(OCCASIONS))
    made = {"id": secrets.token_hex(4), "secret": f"whsec_{secrets.token_urlsafe(32)}"}
    try:
        return msgspec.convert({**made, "url": url, "on": wanted, **limits}, Webhook)
    except msgspec.ValidationError as error:
        raise BadOption("a webhook limit", str(limits), str(error)) from None


async def list_webhooks(frontier: Frontier) -> list[Webhook]:
    return await _read(frontier, "webhooks", Webhook)


async def save_webhook(frontier: Frontier, hook: Webhook) -> None:
    await frontier.home.command("HSET", "webhooks", hook.id, msgspec.json.encode(hook))


async def remove_webhook(frontier: Frontier, identity: str) -> bool:
    return bool(await frontier.home.command("HDEL", "webhooks", identity))


async def list_deliveries(frontier: Frontier) -> list[Delivery]:
    """Deliveries in the order in which they are due."""
    found = await _read(frontier, "deliveries", Delivery)
    return sorted(found, key=lambda one: (one.next_at, one.id))


async def save_delivery(frontier: Frontier, delivery: Delivery) -> None:
    """Raises UsageError if MAX_WAITING are waiting already."""
    if await frontier.home.command("HLEN", "deliveries") >= MAX_WAITING:
        raise UsageError(f"{frontier.job} already has {MAX_WAITING:,} webhook deliveries waiting.")
    await frontier.home.command("HSET", "deliveries", delivery.id, msgspec.json.encode(delivery))


async def end_delivery(frontier: Frontier, delivery: Delivery) -> None:
    await frontier.home.command("HDEL", "deliveries", delivery.id)


async def hold_lease(frontier: Frontier, who: str) -> bool:
    """Take or extend the lease. True: we are the one that sends."""
    if await frontier.home.command("SET", "webhook_lease", who, "NX", "EX", LEASE_S):
        return True
    held = await frontier.home.command("GET", "webhook_lease")
    if held != who.encode():
        return False
    await frontier.home.command("EXPIRE", "webhook_lease", LEASE_S)
    return True


async def end_lease(frontier: Frontier, who: str) -> None:
    if await frontier.home.command("GET", "webhook_lease") == who.encode():
        await frontier.home.command("DEL", "webhook_lease")


async def _read(frontier: Frontier, name: str, kind: type[T]) -> list[T]:
    """All readable records; others are skipped."""
    found = []
    for raw in (await frontier.home.command("HGETALL", name)).values():
        with suppress(msgspec.MsgspecError):
            found.append(msgspec.json.decode(raw, type=kind))
    return found
