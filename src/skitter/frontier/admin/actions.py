"""The action log: every change an operator makes, from the command line or over HTTP.

There is one log per server, so it still shows who purged a job.
"""

from __future__ import annotations

import getpass
import socket
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from skitter.errors import shorten
from skitter.frontier.admin.log import open_entry
from skitter.frontier.keys import ACTIONS
from skitter.frontier.wire import cut

if TYPE_CHECKING:
    from skitter.frontier.connection import Server

ACTIONS_KEPT = 10_000
PAGE = 1000
LONGEST_DETAIL = 500


class NewAction(NamedTuple):
    """What was done. An empty job means all jobs."""

    job: str
    what: str
    detail: str = ""


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the log."""

    id: str
    at: float
    who: str
    job: str
    what: str
    detail: str = ""


def this_user() -> str:
    """The user running this process, as user@host."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


async def note_action(server: Server, who: str, action: NewAction) -> None:
    """Add a line. If the reply gets lost, the line may be added twice."""
    said = {"who": who, **action._asdict()}
    fields = [part for name, text in said.items() for part in (name, _short(text))]
    await server.command("XADD", ACTIONS, "MAXLEN", "~", ACTIONS_KEPT, "*", *fields)


def _short(text: str) -> str:
    return shorten(cut(text), LONGEST_DETAIL)


async def read_actions(
    server: Server, job: str = "", *, before: str = "", limit: int = 100
) -> list[Action]:
    """Actions on one job or on all, newest first; `before` is the id of the last one you have."""
    found: list[Action] = []
    end = f"({before}" if before else "+"
    while len(found) < limit:
        page = await server.command("XREVRANGE", ACTIONS, end, "-", "COUNT", PAGE)
        actions = [open_entry(Action, entry, fields) for entry, fields in page]
        found += [one for one in actions if not job or one.job == job]
        if len(page) < PAGE:
            break
        end = f"({actions[-1].id}"
    return found[:limit]
