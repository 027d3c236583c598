"""Webhooks over HTTP: list, add, remove."""

from __future__ import annotations

import msgspec

from skitter.errors import AddressRefused
from skitter.fetch import Guard
from skitter.frontier.admin.webhooks import (
    Occasion,
    Share,
    Webhook,
    add_webhook,
    list_webhooks,
    new_webhook,
    remove_webhook,
    without_secrets,
)
from skitter.server.call import Call
from skitter.server.problems import Refusal
from skitter.server.route import Removed, Rows


class NewHook(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where to post messages, and about what; without `on`, about everything."""

    url: str
    on: list[Occasion] = []
    dead: int = 100
    failures: Share = 0.5
    blocked: Share = 0.2


class WhichHook(msgspec.Struct, frozen=True):
    """The id, as listed."""

    id: str


async def webhooks(call: Call) -> Rows[Webhook]:
    """The webhooks of the job, without their secrets."""
    found = await list_webhooks(await call.frontier())
    return Rows(rows=[without_secrets(one) for one in found])


async def webhook_add(call: Call, body: NewHook) -> Webhook:
    """Post messages about the job to an address. The secret that signs them is shown only now."""
    try:
        Guard().check_url(body.url)
    except AddressRefused as error:
        hint = "`skitter webhook add --allow-private` accepts it."
        raise Refusal(422, error.reason.partition(":")[0], field="url", hint=hint) from None
    limits = {"dead": body.dead, "failures": body.failures, "blocked": body.blocked}
    hook = new_webhook(body.url, body.on, **limits)
    await add_webhook(await call.frontier(), hook)
    return hook


async def webhook_remove(call: Call, query: WhichHook) -> Removed:
    """Remove a webhook."""
    if not await remove_webhook(await call.frontier(), query.id):
        raise Refusal(404, f"there is no webhook {query.id!r}.", field="id")
    return Removed(removed=True)
