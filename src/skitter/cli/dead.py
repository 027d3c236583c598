"""Dead letters: list, show, retry, drop, export."""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import msgspec
import typer

from skitter.cli.clean import clean
from skitter.cli.common import Body, Directory, Job, Json, Method, Redis, as_bytes, on_job, settings
from skitter.cli.console import indented, out
from skitter.cli.output import answer, emit_json, grid, pairs, say
from skitter.errors import UsageError, shorten
from skitter.frontier.admin.actions import NewAction
from skitter.frontier.admin.dead import PAGE, Filter, dead_letters, drop, find_dead, masked, revive
from skitter.frontier.audit.rules import is_fingerprint
from skitter.frontier.frontier import Frontier
from skitter.frontier.wire import batched
from skitter.model import DeadLetter
from skitter.redact import redact, redact_text
from skitter.report import DATE_AND_TIME, moment, some
from skitter.urls import fingerprint, identify

Target = Annotated[
    list[str] | None, typer.Argument(metavar="[URL...]", help="URLs or fingerprints.")
]
Match = Annotated[
    str | None,
    typer.Option(
        "--match", help="Only URLs that contain this text, or match this pattern with * and ?."
    ),
]
Reason = Annotated[
    str | None, typer.Option("--reason", help="Only those whose reason contains this text.")
]
LONGEST_REASON = 300
Batches = Callable[[Frontier], AsyncIterator[list[DeadLetter]]]
All = Annotated[bool, typer.Option("--all", help="All dead letters.")]
WithSecrets = Annotated[
    bool,
    typer.Option(
        "--with-secrets",
        help="Show passwords in URLs, secret headers and request bodies instead of ***.",
    ),
]

group = typer.Typer(no_args_is_help=True, help="List, retry or drop URLs that were given up.")


@group.command("list")
def list_letters(
    job: Job,
    match: Match = None,
    reason: Reason = None,
    limit: Annotated[int, typer.Option(min=0, help="Maximum number to show.")] = 50,
    with_secrets: WithSecrets = False,
    redis: Redis = None,
    directory: Directory = None,
    as_json: Json = False,
) -> None:
    """List dead letters, oldest first."""

    async def work(frontier: Frontier) -> tuple[list[DeadLetter], int]:
        letters: list[DeadLetter] = []
        async for letter in dead_letters(frontier, Filter(url=match, reason=reason)):
            if len(letters) >= limit:
                break
            letters.append(letter)
        return letters, (await frontier.stats()).dead

    letters, dead = on_job(settings(redis, directory), job, work)
    if as_json:
        emit_json([_document(one, with_secrets) for one in letters])
    elif not letters and limit:
        say(f"{job}: no dead letters{' that match' if dead else ''}.")
    else:
        _show_list([_cells(one, with_secrets) for one in letters])
        if dead > len(letters):
            more = "; see --limit, --match and --reason" if len(letters) == limit else " match"
            say(f"{len(letters):,} of {dead:,} dead letters{more}.")


def _cells(one: DeadLetter, with_secrets: bool = False) -> list[object]:
    name = _name(one, with_secrets)
    name = name if one.can_be_fetched else shorten(name)  # messages may be long
    reason = shorten(redact_text(one.reason), LONGEST_REASON)
    return [name, reason, one.failures + one.losses, moment(one.at, DATE_AND_TIME)]


def _show_list(rows: list[list[object]]) -> None:
    """A table if rows fit on a line; else the URL, and the rest on the line below."""
    widths = [
        max((len(str(cell)) for cell in column), default=0) for column in zip(*rows, strict=True)
    ]
    if not out.is_terminal or sum(widths) + 2 * len(widths) <= out.width:
        grid(["url", "reason", "tries", "given up"], rows)
        return
    for url, reason, tries, given_up in rows:
        say(clean(str(url)))
        indented(f"{reason}; {some(int(str(tries)), 'try', 'tries')}, given up {given_up}")


@group.command("show")
def show(
    job: Job,
    url: Annotated[str, typer.Argument(metavar="URL", help="URL or fingerprint.")],
    method: Method = "GET",
    body: Body = "",
    with_secrets: WithSecrets = False,
    redis: Redis = None,
    directory: Directory = None,
    as_json: Json = False,
) -> None:
    """Show everything about one dead letter, by URL or fingerprint."""

    async def work(frontier: Frontier) -> DeadLetter:
        return await _find(frontier, url, method, body)

    letter = on_job(settings(redis, directory), job, work)
    document = _document(letter, with_secrets)
    if as_json:
        emit_json(document)
    else:
        pairs(_rows(letter, document))


def _rows(letter: DeadLetter, document: dict[str, Any]) -> Iterator[tuple[str, object]]:
    request = document["request"]
    yield "url", document["url"] or _name(letter)
    yield "reason", document["reason"]
    yield "given up", moment(letter.at, DATE_AND_TIME)
    yield "failures", letter.failures
    yield "lost workers", letter.losses
    yield "priority", letter.priority
    yield "found on", request.get("parent") or "pushed"
    yield "depth", letter.request.depth
    yield "method", letter.request.method
    for i, (name, value) in enumerate(request.get("headers", {}).items()):
        yield "headers" if i == 0 else "", f"{name}: {value}"
    if letter.request.body:
        yield "body", f"{len(letter.request.body):,} bytes"
    yield "meta", msgspec.json.encode(request.get("meta", {})).decode()
    yield "fingerprint", letter.fingerprint


def _document(letter: DeadLetter, with_secrets: bool) -> dict[str, Any]:
    """A dead letter for JSON; secrets are masked unless asked for."""
    return msgspec.to_builtins(letter) if with_secrets else masked(letter)


@group.command("retry")
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
    """Make dead letters pending again. Name them, or say which: --match, --reason, --all."""
    batches = _selection(urls, match, reason, everything=everything)

    async def work(frontier: Frontier) -> int:
        return sum([await revive(frontier, batch) async for batch in batches(frontier)])

    action = NewAction(job, "retry", _chosen(urls, match, reason))
    retried = on_job(settings(redis, directory), job, work, action=action)
    _report(job, "retried", retried, as_json=as_json)


@group.command("drop")
def drop_letters(
    job: Job,
    urls: Target = None,
    match: Match = None,
    reason: Reason = None,
    everything: All = False,
    forget: Annotated[
        bool,
        typer.Option(
            "--forget", help="Also forget the URL, so that a later link can add it again."
        ),
    ] = False,
    redis: Redis = None,
    directory: Directory = None,
    as_json: Json = False,
) -> None:
    """Remove dead letters: the named ones, those that match, or --all."""
    batches = _selection(urls, match, reason, everything=everything)

    async def work(frontier: Frontier) -> int:
        found = batches(frontier)
        return sum([await drop(frontier, batch, forget=forget) async for batch in found])

    action = NewAction(job, "drop", _chosen(urls, match, reason))
    dropped = on_job(settings(redis, directory), job, work, action=action)
    _report(job, "dropped", dropped, as_json=as_json)


@group.command("export")
def export(
    job: Job,
    to: Annotated[Path, typer.Option("--to", help="The file to write.")],
    urls: Target = None,
    match: Match = None,
    reason: Reason = None,
    with_secrets: WithSecrets = False,
    redis: Redis = None,
    directory: Directory = None,
    as_json: Json = False,
) -> None:
    """Write dead letters to a file, one JSON document per line. Only you can read it."""
    batches = _selection(urls, match, reason, everything=True)

    async def work(frontier: Frontier) -> int:
        count = 0
        try:
            with _open_private(to) as file:
                async for batch in batches(frontier):
                    lines = (msgspec.json.encode(_document(one, with_secrets)) for one in batch)
                    file.writelines(line + b"\n" for line in lines)
                    count += len(batch)
        except OSError as error:
            raise UsageError(
                f"cannot write {redact(str(to))}: {error.strerror}. Choose another with --to."
            ) from None
        return count

    _report(job, "exported", on_job(settings(redis, directory), job, work), as_json=as_json)


def _open_private(path: Path) -> BinaryIO:
    """Open a file that only its owner can read, even if it existed before."""
    file = open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb")  # noqa: SIM115, PTH123
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # not for /dev/stdout
        os.fchmod(file.fileno(), 0o600)
        file.truncate()
    return file


def _chosen(urls: list[str] | None, match: str | None, reason: str | None) -> str:
    """The selection as text for the action log."""
    filters = {"match": match, "reason": reason}
    said = [f"{name}={text}" for name, text in filters.items() if text]
    return " ".join([*(urls or []), *said]) or "all"


def _selection(
    urls: list[str] | None, match: str | None, reason: str | None, *, everything: bool
) -> Batches:
    """The dead letters that a command's options select, in batches."""
    which = Filter(url=match, reason=reason)
    if not urls and which == Filter() and not everything:
        raise UsageError(
            "no dead letters were selected: name URLs, or use --match, --reason or --all."
        )

    async def batches(frontier: Frontier) -> AsyncIterator[list[DeadLetter]]:
        if urls:
            yield [await _find(frontier, url) for url in urls]
            return
        async for batch in batched(dead_letters(frontier, which), PAGE):
            yield batch

    return batches


async def _find(frontier: Frontier, url: str, method: str = "GET", body: str = "") -> DeadLetter:
    known = url
    if not is_fingerprint(url):
        canonical = identify(url, frontier.layout.canonical).canonical
        known = fingerprint(canonical, method=method, body=as_bytes(body))
    letter = await find_dead(frontier, known) or await _find_by_url(frontier, url)
    if letter is None:
        raise UsageError(
            f"{shorten(redact(url))} is not among the dead letters of {frontier.job!r}: "
            f"`skitter why {frontier.job} URL` says where it is."
        )
    return letter


async def _find_by_url(frontier: Frontier, url: str) -> DeadLetter | None:
    """Find a letter whose fingerprint came from an engine."""
    async for letter in dead_letters(frontier, Filter(url=url)):
        if letter.url == url and letter.request.identity:
            return letter
    return None


def _name(letter: DeadLetter, with_secrets: bool = False) -> str:
    url = letter.url if with_secrets else redact_text(letter.url)
    return url or f"unreadable, {letter.fingerprint}"


def _report(job: str, verb: str, count: int, *, as_json: bool) -> None:
    answer({"job": job, verb: count}, f"{job}: {count:,} {verb}.", as_json=as_json)
