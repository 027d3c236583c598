"""The action log over HTTP: who did what."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import msgspec

from skitter.errors import SkitterError
from skitter.fetch.guard import authority_of
from skitter.frontier.admin.actions import Action, NewAction, note_action, read_actions
from skitter.server.call import Call
from skitter.server.query import EntryId, First
from skitter.server.route import Rows

if TYPE_CHECKING:
    from collections.abc import Mapping

log = logging.getLogger("skitter.server")


class Which(First, frozen=True, kw_only=True):
    """`after`: the `next` of the previous page."""

    after: EntryId = ""


async def actions(call: Call, query: Which) -> Rows[Action]:
    """Who changed the job, when and how, newest first."""
    job, server = call.path("job"), call.site.server
    rows = await read_actions(server, job, before=query.after, limit=query.limit)
    return Rows(rows=rows, next=rows[-1].id if len(rows) == query.limit else None)


async def note_call(call: Call, what: str, values: Mapping[str, Any]) -> None:
    """Log a call that changed something."""
    assert call.caller
    parts = dict(call.request.path_params)
    detail = {**parts, **call.request.query_params, **_given(values.get("body"))}
    if detail.get("preview") is True or what.startswith("preview"):
        return
    job = str(detail.pop("job", ""))
    if what.startswith("webhook") and "url" in detail:
        detail["url"] = authority_of(detail["url"]).host  # its path may be a secret
    said = " ".join(f"{name}={_shown(value)}" for name, value in detail.items())
    token = call.caller.token
    try:
        await note_action(
            call.site.server, f"{token.name} ({token.id})", NewAction(job, what, said)
        )
    except SkitterError as error:  # the call itself succeeded
        log.warning("%s on %s was not written to the action log: %s", what, job, error)


def _given(body: Any) -> dict[str, Any]:
    """The fields that the body sets."""
    built = msgspec.to_builtins(body)
    return {k: v for k, v in built.items() if v is not None} if isinstance(built, dict) else {}


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
