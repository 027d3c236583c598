"""Dead letters: list, show, retry, drop, export."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from skitter.cli.common import Directory, Job, Json, Redis, on_job, settings
from skitter.cli.output import emit_json, grid, pairs, say
from skitter.errors import UsageError
from skitter.frontier.dead import PAGE, Filter, dead_letters, drop, find_dead, revive
from skitter.frontier.frontier import Frontier
from skitter.model import DeadLetter
from skitter.urls import fingerprint, identify

Target = Annotated[
    list[str] | None, typer.Argument(metavar="[URL...]", help="URLs or fingerprints.")
]
Match = Annotated[
    str | None, typer.Option("--match", help="Only URLs like this: a part, or a pattern with *.")
]
Reason = Annotated[str | None, typer.Option("--reason", help="Only those whose reason says this.")]
All = Annotated[bool, typer.Option("--all", help="All of them.")]


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, help="Dead letters: what was given up, and why.")
    for name, command in (
        ("list", list_letters),
        ("show", show),
        ("retry", retry),
        ("drop", drop_letters),
        ("export", export),
    ):
        group.command(name)(command)
    app.add_typer(group, name="dead", rich_help_panel="Check and repair")


def list_letters(
    job: Job,
    match: Match = None,
    reason: Reason = None,
    limit: Annotated[int, typer.Option(help="How many to show.")] = 50,
    redis: Redis = None,
    directory: Directory = None,
    as_json: Json = False,
) -> None:
    """List dead letters, oldest first."""

    async def work(frontier: Frontier) -> tuple[list[DeadLetter], int]:
        letters = []
        async for letter in dead_letters(frontier, Filter(url=match, reason=reason)):
            letters.append(letter)
            if len(letters) >= limit:
                break
        return letters, (await frontier.stats()).dead

    letters, dead = on_job(settings(redis, directory), job, work)
    if as_json:
        emit_json(letters)
    elif not letters:
        say(f"{job}: no dead letters{' that match' if dead else ''}.")
    else:
        grid(
            ["url", "reason", "tries", "given up"],
            [[one.url, one.reason, one.failures + one.losses, _when(one.at)] for one in letters],
        )
        if dead > len(letters):
            say(f"{len(letters):,} of {dead:,} dead letters; see --limit, --match and --reason.")


def show(
    job: Job, url: str, redis: Redis = None, directory: Directory = None, as_json: Json = False
) -> None:
    """Everything about one dead letter, by URL or fingerprint."""

    async def work(frontier: Frontier) -> DeadLetter:
        return await _find(frontier, url)

    letter = on_job(settings(redis, directory), job, work)
    if as_json:
        emit_json(letter)
        return
    request = letter.request
    pairs(
        [
            ("url", letter.url),
            ("reason", letter.reason),
            ("given up", _when(letter.at)),
            ("failures", letter.failures),
            ("lost workers", letter.losses),
            ("priority", letter.priority),
            ("found on", request.parent or "pushed"),
            ("depth", request.depth),
            ("method", request.method),
            ("meta", msgspec.json.encode(request.meta).decode()),
            ("fingerprint", letter.fingerprint),
        ]
    )


def retry(
    job: Job,
    urls: Target = None,
    match: Match = None,
    reason: Reason = None,
    everything: All = False,
    redis: Redis = None,
    directory: Directory = None,
    as_json: Json = False,
) -> None:
    """Make dead letters pending again: one, those that match, or --all."""

    async def work(frontier: Frontier) -> int:
        changed = 0
        async for part in _chosen(frontier, urls, Filter(url=match, reason=reason), everything):
            changed += await revive(frontier, part)
        return changed

    _report(job, "retried", on_job(settings(redis, directory), job, work), as_json)


def drop_letters(
    job: Job,
    urls: Target = None,
    match: Match = None,
    reason: Reason = None,
    everything: All = False,
    forget: Annotated[
        bool, typer.Option("--forget", help="As if never seen: a link may bring it back.")
    ] = False,
    redis: Redis = None,
    directory: Directory = None,
    as_json: Json = False,
) -> None:
    """Remove dead letters: one, those that match, or --all. They count as dropped, not as lost."""

    async def work(frontier: Frontier) -> int:
        changed = 0
        async for part in _chosen(frontier, urls, Filter(url=match, reason=reason), everything):
            changed += await drop(frontier, part, forget=forget)
        return changed

    _report(job, "dropped", on_job(settings(redis, directory), job, work), as_json)


def export(
    job: Job,
    to: Annotated[Path, typer.Option("--to", help="A file; JSON, one letter per line.")],
    match: Match = None,
    reason: Reason = None,
    redis: Redis = None,
    directory: Directory = None,
    as_json: Json = False,
) -> None:
    """Write dead letters to a file, one JSON document per line."""

    async def work(frontier: Frontier) -> int:
        written = 0
        try:
            with to.open("wb") as file:
                async for letter in dead_letters(frontier, Filter(url=match, reason=reason)):
                    file.write(msgspec.json.encode(letter) + b"\n")
                    written += 1
        except OSError as error:
            raise UsageError(f"cannot write {to}: {error.strerror}.") from None
        return written

    _report(job, "exported", on_job(settings(redis, directory), job, work), as_json)


async def _chosen(
    frontier: Frontier, urls: list[str] | None, which: Filter, everything: bool
) -> AsyncIterator[list[DeadLetter]]:
    """The dead letters that the options mean, in batches."""
    if not urls and which == Filter() and not everything:
        raise UsageError("which ones? Name URLs, use --match or --reason, or say --all.")
    if urls:
        yield [await _find(frontier, url) for url in urls]
        return
    part: list[DeadLetter] = []
    async for letter in dead_letters(frontier, which):
        part.append(letter)
        if len(part) >= PAGE:
            yield part
            part = []
    yield part


async def _find(frontier: Frontier, url: str) -> DeadLetter:
    known = url
    if not url.isdigit():
        known = fingerprint(identify(url, frontier.layout.canonical).canonical)
    letter = await find_dead(frontier, known)
    if letter is None:
        raise UsageError(
            f"{url} is not among the dead letters of {frontier.job!r}: "
            f"`skitter why {frontier.job} {url}` tells where it is."
        )
    return letter


def _report(job: str, verb: str, count: int, as_json: bool) -> None:
    if as_json:
        emit_json({"job": job, verb: count})
    else:
        say(f"{job}: {count:,} {verb}.")


def _when(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")
