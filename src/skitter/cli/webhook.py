"""Webhooks: add, list, remove."""

from __future__ import annotations

from typing import Annotated

import typer

from skitter.cli.common import Directory, Job, Json, Redis, on_job, settings
from skitter.cli.output import answer, emit_json, grid, say
from skitter.errors import AddressRefused, UsageError
from skitter.fetch import Guard
from skitter.fetch.guard import authority_of
from skitter.frontier.admin.actions import NewAction
from skitter.frontier.admin.webhooks import (
    OCCASIONS,
    Webhook,
    add_webhook,
    list_webhooks,
    new_webhook,
    remove_webhook,
    without_secrets,
)
from skitter.frontier.frontier import Frontier

group = typer.Typer(
    no_args_is_help=True, help="Get a message when a crawl finishes or is in trouble."
)


@group.command("add")
def add(
    job: Job,
    url: Annotated[str, typer.Argument(metavar="URL", help="Where messages are posted.")],
    on: Annotated[
        list[str] | None,
        typer.Option("--on", help=f"{', '.join(OCCASIONS)}; may be repeated. Default: all."),
    ] = None,
    dead: Annotated[int, typer.Option(min=1, help="Send `dead` at this many dead letters.")] = 100,
    failures: Annotated[
        float, typer.Option(help="Send `failures` when this share of recent attempts fails.")
    ] = 0.5,
    blocked: Annotated[
        float,
        typer.Option(help="Send `blocked` when this share of recent responses are block pages."),
    ] = 0.2,
    private: Annotated[
        bool,
        typer.Option(
            "--allow-private",
            help="Accept a private address. The server must allow it, too: SKITTER_ALLOW_HOSTS.",
        ),
    ] = False,
    redis: Redis = None,
    directory: Directory = None,
    as_json: Json = False,
) -> None:
    """Post messages about a job to a URL. Prints the secret that signs them."""
    is_private = _check(url, private=private)
    limits = {"dead": dead, "failures": failures, "blocked": blocked, "private": private}
    hook = new_webhook(url, on or (), **limits)
    action = NewAction(job, "webhook add", f"{hook.id} {authority_of(url).host}")
    on_job(settings(redis, directory), job, lambda one: add_webhook(one, hook), action=action)
    says = f"{job}: webhook {hook.id}. Its secret, shown this once: {hook.secret}"
    if is_private:
        host = authority_of(url).host_port
        says += f"\n`skitter serve` posts there if it runs with SKITTER_ALLOW_HOSTS={host}"
    answer(hook, says, as_json=as_json)


def _check(url: str, *, private: bool) -> bool:
    """Whether its address is private. Raises UsageError if that was not asked for."""
    try:
        Guard().check_url(url)
    except AddressRefused as error:
        if private:
            return True
        why = error.reason.partition(": to ")[0]
        raise UsageError(f"{why}: to use it anyway, add --allow-private.") from None
    return False


@group.command("list")
def show(job: Job, redis: Redis = None, directory: Directory = None, as_json: Json = False) -> None:
    """List the webhooks of a job, without their secrets."""
    hooks = [without_secrets(one) for one in on_job(settings(redis, directory), job, list_webhooks)]
    if as_json:
        emit_json(hooks)
    elif hooks:
        grid(["id", "url", "on", "sent"], [_cells(one) for one in hooks])
    else:
        say(f"{job}: no webhooks.")


def _cells(hook: Webhook) -> list[object]:
    return [hook.id, hook.url, ", ".join(hook.on), ", ".join(hook.told)]


@group.command("remove")
def remove(
    job: Job,
    identity: Annotated[str, typer.Argument(metavar="ID", help="As `list` shows it.")],
    redis: Redis = None,
    directory: Directory = None,
    as_json: Json = False,
) -> None:
    """Remove a webhook."""

    async def work(frontier: Frontier) -> None:
        if not await remove_webhook(frontier, identity):
            raise UsageError(f"{job} has no webhook {identity!r}: `skitter webhook list {job}`.")

    action = NewAction(job, "webhook remove", identity)
    on_job(settings(redis, directory), job, work, action=action)
    answer({"id": identity, "removed": True}, f"{job}: {identity} removed.", as_json=as_json)
