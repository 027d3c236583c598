"""Tokens of the HTTP API: new, list, revoke."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from skitter.cli.common import Directory, Json, Redis, on_server, settings
from skitter.cli.output import answer, emit_json, grid, say
from skitter.frontier.admin.actions import NewAction
from skitter.frontier.admin.tokens import SHAPE, Token, list_tokens, new_token, revoke_token
from skitter.frontier.connection import Server

group = typer.Typer(no_args_is_help=True, help="Make, list and revoke tokens for the HTTP API.")


@group.command("new")
def new(
    scope: Annotated[
        list[str],
        typer.Option(help="read, push, or operate, which includes both; may be repeated."),
    ],
    name: Annotated[str, typer.Option(help="Who uses it; shown in the list.")] = "unnamed",
    job: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Only for these jobs: shop, 'shop-*'; repeatable."),
    ] = None,
    redis: Redis = None,
    directory: Directory = None,
    as_json: Json = False,
) -> None:
    """Make a token and print it. It is not shown again: the server keeps only a hash."""

    async def work(server: Server) -> str:
        return await new_token(server, name=name, scopes=scope, jobs=job or ())

    of = f" of {', '.join(job)}" if job else ""
    action = NewAction("", "token new", f"{name}: {', '.join(scope)}{of}")
    token = on_server(settings(redis, directory), work, action=action)
    found = SHAPE.fullmatch(token)
    answer({"id": found and found[1], "token": token}, token, as_json=as_json)


@group.command("list")
def show(redis: Redis = None, directory: Directory = None, as_json: Json = False) -> None:
    """List the tokens by id, name and scope. They are not shown themselves."""
    tokens = on_server(settings(redis, directory), list_tokens)
    if as_json:
        emit_json([_document(one) for one in tokens])
    elif tokens:
        grid(["id", "name", "scopes", "jobs", "created"], [_cells(one) for one in tokens])
    else:
        say("There are no tokens: `skitter token new` creates one.")


@group.command("revoke")
def revoke(
    identity: Annotated[str, typer.Argument(metavar="ID", help="As `list` shows it.")],
    redis: Redis = None,
    directory: Directory = None,
    as_json: Json = False,
) -> None:
    """Revoke a token. Browsers that logged in with it are logged out."""
    action = NewAction("", "token revoke", identity)
    on_server(
        settings(redis, directory), lambda server: revoke_token(server, identity), action=action
    )
    answer({"id": identity, "revoked": True}, f"{identity}: revoked.", as_json=as_json)


def _document(one: Token) -> dict[str, object]:
    return {
        "id": one.id,
        "name": one.name,
        "scopes": one.granted,
        "jobs": one.jobs,
        "created_at": one.created_at,
    }


def _cells(one: Token) -> list[str]:
    made = datetime.fromtimestamp(max(0, min(one.created_at, 2**34)), UTC)
    jobs = ", ".join(one.jobs) or "all"
    return [one.id, one.name, ", ".join(one.granted), jobs, f"{made:%Y-%m-%d %H:%M} UTC"]
