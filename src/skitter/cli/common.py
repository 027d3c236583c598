"""What all commands share: common options, and access to the server."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import click

from skitter.app import open_server
from skitter.cli.parameters import Argument, Exit, Made, Option
from skitter.cli.show.output import print_progress
from skitter.errors import BadOption, SkitterError, UsageError
from skitter.frontier.frontier import Frontier
from skitter.frontier.jobs import open_job
from skitter.frontier.transport.connection import Server
from skitter.settings import Settings, find_server
from skitter.settings.option import seconds_of as seconds_of

if TYPE_CHECKING:
    from skitter.frontier.records.operators import NewAction

T = TypeVar("T")

Job = Annotated[str, Argument(metavar="JOB", help="The job's name.", show_default=False)]
Redis = Annotated[
    str | None,
    Option(
        "--redis",
        metavar="URL",
        help="Redis or Valkey server, such as redis://host:6379. Default: the embedded one.",
        show_default=False,
    ),
]
Directory = Annotated[
    Path | None,
    Option(
        "--dir",
        help="Directory of the embedded server. Default: .skitter",
        show_default=False,
    ),
]
Arguments = Annotated[
    list[str] | None,
    Option("-a", metavar="NAME=VALUE", help="An argument of the spider; may be repeated."),
]
Method = Annotated[str, Option("--method", help="The method of the request.")]
Body = Annotated[str, Option("--body", help="The body of the request.")]
Yes = Annotated[bool, Option("--yes", help="Do not ask for confirmation.")]
Json = Annotated[bool, Option("--json", help="Print JSON.")]


def pairs_of(arguments: list[str] | None) -> dict[str, str]:
    for argument in arguments or []:
        if "=" not in argument:
            raise BadOption("-a", argument, "name=value")
    return dict(argument.split("=", 1) for argument in arguments or [])


def as_bytes(argument: str) -> bytes:
    """The argument as typed, even if it is not UTF-8."""
    return argument.encode("utf-8", "surrogateescape")


def _find(redis: Redis = None, directory: Directory = None) -> Settings:
    return find_server(redis, directory)


#: The server of a command, by --redis and --dir.
Where = Annotated[Settings, Made(_find)]
SERVER = Settings()


def confirm(question: str, *, what: str) -> None:
    """Ask before doing `what`. Exits with 1 if the answer is no."""
    if not sys.stdin.isatty():
        raise UsageError(f"{what}, and there is no terminal to confirm on: add --yes.")
    if not click.confirm(question, err=True):
        raise Exit(1)


def on_server(
    where: Settings, work: Callable[[Server], Awaitable[T]], *, action: NewAction | None = None
) -> T:
    """Run `work` on the configured server. `action` goes into the action log."""
    import uvloop  # `status` needs none, and imports this module

    async def main() -> T:
        async with open_server(where, progress=print_progress) as server:
            result = await work(server)
            if action:
                await _note(server, action)
            return result

    return uvloop.run(main())


async def _note(server: Server, action: NewAction) -> None:
    from skitter.frontier.records.operators import note_action, this_user

    try:
        await note_action(server, this_user(), action)
    except SkitterError as error:  # the command itself has succeeded
        print_progress(f"this could not be recorded in the action log: {error}")


def on_job(
    where: Settings,
    job: str,
    work: Callable[[Frontier], Awaitable[T]],
    *,
    action: NewAction | None = None,
) -> T:
    """Run `work` on an existing job."""

    async def with_frontier(server: Server) -> T:
        return await work(await open_job(server, job))

    return on_server(where, with_frontier, action=action)
