"""Dead letters: list, show, retry, drop, export."""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, BinaryIO, NamedTuple

import msgspec

from skitter.cli.common import SERVER, Body, Job, Json, Method, Where, as_bytes, on_job
from skitter.cli.failed_pages import as_page, failed_page
from skitter.cli.parameters import Argument, Group, Option
from skitter.cli.show.console import indented, out
from skitter.cli.show.output import answer, emit_json, grid, pairs, print_progress, say
from skitter.errors import UsageError, shorten
from skitter.frontier.audit.rules import is_fingerprint
from skitter.frontier.dead import (
    PAGE,
    Filter,
    dead_kinds,
    dead_letters,
    drop,
    find_dead,
    masked,
)
from skitter.frontier.frontier import Frontier
from skitter.frontier.records.failed import FailedPage
from skitter.frontier.records.failed import retry as revive
from skitter.frontier.records.operators import NewAction
from skitter.frontier.transport.messages import batched
from skitter.model import DeadLetter
from skitter.observe.report import DATE_AND_TIME, moment, some
from skitter.redact import clean, redact, redact_request, redact_text
from skitter.spider.fixtures import suffix_of
from skitter.urls import fingerprint, identify

Target = Annotated[list[str] | None, Argument(metavar="[URL...]", help="URLs or fingerprints.")]
Match = Annotated[
    str | None,
    Option("--match", help="Only URLs that contain this text, or match this pattern with * and ?."),
]
Reason = Annotated[
    str | None, Option("--reason", help="Only those whose reason contains this text.")
]
LONGEST_REASON = 300
KINDS_SHOWN = 5
Batches = Callable[[Frontier], AsyncIterator[list[DeadLetter]]]
Verb = Callable[[Frontier, Sequence[DeadLetter]], Awaitable[int]]
All = Annotated[bool, Option("--all", help="All dead letters.")]
WithSecrets = Annotated[
    bool,
    Option(
        "--with-secrets",
        help="Show passwords in URLs, secret headers and request bodies instead of ***.",
    ),
]

group = Group(help="List, retry or drop URLs that were given up.")


@group.add("list")
def list_letters(
    job: Job,
    match: Match = None,
    reason: Reason = None,
    limit: Annotated[int, Option(min=0, help="Maximum number to show.")] = 50,
    with_secrets: WithSecrets = False,
    where: Where = SERVER,
    as_json: Json = False,
) -> None:
    """List dead letters, oldest first."""

    which = Filter(url=match, reason=reason)

    async def work(frontier: Frontier) -> tuple[list[DeadLetter], int, str]:
        letters: list[DeadLetter] = []
        async for letter in dead_letters(frontier, which):
            if len(letters) >= limit:
                break
            letters.append(letter)
        why_none = "" if letters or not limit else await _why_none(frontier, which)
        return letters, (await frontier.stats()).dead, why_none

    letters, dead, why_none = on_job(where, job, work)
    if as_json:
        emit_json([_document(one, with_secrets) for one in letters])
    elif not letters and limit:
        say(why_none)
    else:
        _show_list([_cells(one, with_secrets) for one in letters])
        print_progress(
            f"`skitter dead retry {job} --all` fetches them again; `skitter redo SPIDER` handles "
            "pages again that are done."
        )
        if dead > len(letters):
            more = "; see --limit, --match and --reason" if len(letters) == limit else " match"
            say(f"{len(letters):,} of {dead:,} dead letters{more}.")


def _cells(letter: DeadLetter, with_secrets: bool = False) -> list[object]:
    name = _name(letter, with_secrets)
    name = name if letter.can_be_fetched else shorten(name)  # messages may be long
    reason = shorten(redact_text(letter.reason), LONGEST_REASON)
    return [name, reason, letter.failures + letter.losses, moment(letter.at, DATE_AND_TIME)]


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


@group.add("show")
def show(
    job: Job,
    url: Annotated[str, Argument(metavar="URL", help="URL or fingerprint.")],
    page: Annotated[
        bool, Option("--page", help="Save the page that failed in this folder, as it came.")
    ] = False,
    method: Method = "GET",
    body: Body = "",
    with_secrets: WithSecrets = False,
    where: Where = SERVER,
    as_json: Json = False,
) -> None:
    """Show everything about one dead letter, by URL or fingerprint.

    With --page, also of a page that was done but had rejected items: the first pages of each kind
    of failure are kept on the server.
    """
    if page:
        found = on_job(where, job, partial(failed_page, url=url))
        _show_page(found, as_json=as_json, with_secrets=with_secrets)
        return

    async def work(frontier: Frontier) -> DeadLetter:
        return await _find(frontier, url, method, body)

    letter = on_job(where, job, work)
    document = _document(letter, with_secrets)
    if as_json:
        emit_json(document)
    else:
        pairs(_rows(letter, document))


def _show_page(page: FailedPage, *, as_json: bool, with_secrets: bool) -> None:
    """Says what failed; its body and screenshot become files."""
    path = Path(f"failed-{page.fingerprint}{suffix_of(as_page(page))}")
    picture = path.with_suffix(".png")
    with _open_private(path) as file:
        file.write(page.body)
    if page.screenshot:
        with _open_private(picture) as file:
            file.write(page.screenshot)
    files = [path, picture] if page.screenshot else [path]
    if not with_secrets:
        request = redact_request(page.request)
        page = msgspec.structs.replace(page, url=redact(page.url), request=request)
    if as_json:
        document = msgspec.to_builtins(msgspec.structs.replace(page, body=b"", screenshot=None))
        emit_json({**document, "body": str(path), "screenshot": page.screenshot and str(picture)})
        return
    pairs(
        [
            ("url", page.url),
            ("reason", page.reason),
            ("failed", moment(page.at, DATE_AND_TIME)),
            ("status", page.status),
            *(("header", f"{name}: {value}") for name, value in page.headers),
            ("saved", " and ".join(map(str, files)) + ", cut at 2 MB" * page.is_cut),
        ]
    )
    for line in page.traceback.splitlines():
        say(clean(line))
    print_progress("A browser would run its scripts: look at the source first.")


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


@group.add("retry")
def retry(
    job: Job,
    urls: Target = None,
    match: Match = None,
    reason: Reason = None,
    everything: All = False,
    where: Where = SERVER,
    as_json: Json = False,
) -> None:
    """Make dead letters pending again. Name them, or say which: --match, --reason, --all."""
    which = Filter(url=match, reason=reason)
    batches = _selection(urls, which, everything=everything)
    action = NewAction(job, "retry", _chosen(urls, which))
    work = partial(_change, batches, which, revive)
    did = on_job(where, job, work, action=action)
    _report(job, "retried", did, as_json=as_json)


@group.add("drop")
def drop_letters(
    job: Job,
    urls: Target = None,
    match: Match = None,
    reason: Reason = None,
    everything: All = False,
    forget: Annotated[
        bool,
        Option("--forget", help="Also forget the URL, so that a later link can add it again."),
    ] = False,
    where: Where = SERVER,
    as_json: Json = False,
) -> None:
    """Remove dead letters: the named ones, those that match, or --all."""
    which = Filter(url=match, reason=reason)
    batches = _selection(urls, which, everything=everything)
    action = NewAction(job, "drop", _chosen(urls, which))
    work = partial(_change, batches, which, partial(drop, forget=forget))
    did = on_job(where, job, work, action=action)
    _report(job, "dropped", did, as_json=as_json)


@group.add("export")
def export(
    job: Job,
    to: Annotated[Path, Option("--to", help="The file to write.")],
    urls: Target = None,
    match: Match = None,
    reason: Reason = None,
    with_secrets: WithSecrets = False,
    where: Where = SERVER,
    as_json: Json = False,
) -> None:
    """Write dead letters to a file, one JSON document per line. Only you can read it."""
    which = Filter(url=match, reason=reason)
    batches = _selection(urls, which, everything=True)

    async def work(frontier: Frontier) -> _Did:
        async def write(_: Frontier, letters: Sequence[DeadLetter]) -> int:
            lines = (msgspec.json.encode(_document(letter, with_secrets)) for letter in letters)
            file.writelines(line + b"\n" for line in lines)
            return len(letters)

        try:
            with _open_private(to) as file:
                return await _change(batches, which, write, frontier)
        except OSError as error:
            raise UsageError(
                f"cannot write {redact(str(to))}: {error.strerror}. Choose another with --to."
            ) from None

    _report(job, "exported", on_job(where, job, work), as_json=as_json)


def _open_private(path: Path) -> BinaryIO:
    """Open a file that only its owner can read, even if it existed before."""
    file = open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb")  # noqa: SIM115, PTH123
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # not for /dev/stdout
        os.fchmod(file.fileno(), 0o600)
        file.truncate()
    return file


class _Did(NamedTuple):
    """What a command did with the selected letters."""

    letters: int
    stuck: int  # selected, and no requests that could be fetched
    why_none: str  # if none was selected


async def _change(batches: Batches, which: Filter, verb: Verb, frontier: Frontier) -> _Did:
    matched = stuck = count = 0
    async for batch in batches(frontier):
        matched += len(batch)
        stuck += sum(not letter.can_be_fetched for letter in batch)
        count += await verb(frontier, batch)
    return _Did(count, stuck, "" if matched else await _why_none(frontier, which))


async def _why_none(frontier: Frontier, which: Filter) -> str:
    """Why no letter was selected: there is none, or not one of that URL or reason."""
    kinds = await dead_kinds(frontier)
    if not kinds or which == Filter():
        return f"{frontier.job}: no dead letters."
    if which.reason is None:
        shows = f"`skitter dead list {frontier.job}` shows them"
        return f"{frontier.job}: no dead letter has a URL that matches {which.url!r}: {shows}."
    known = "; ".join(f"{kind} ({count:,})" for kind, count in islice(kinds.items(), KINDS_SHOWN))
    more = "; ..." if len(kinds) > KINDS_SHOWN else ""
    at_such = f" at a URL that matches {which.url!r}" if which.url else ""
    return (
        f"{frontier.job}: no dead letter{at_such} has the reason {which.reason!r}. "
        f"The reasons are: {known}{more}."
    )


def _chosen(urls: list[str] | None, which: Filter) -> str:
    """The selection as text for the action log."""
    filters = {"match": which.url, "reason": which.reason}
    said = [f"{name}={text}" for name, text in filters.items() if text]
    return " ".join([*(urls or []), *said]) or "all"


def _selection(urls: list[str] | None, which: Filter, *, everything: bool) -> Batches:
    """The dead letters that a command's options select, in batches."""
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


def _report(job: str, verb: str, did: _Did, *, as_json: bool) -> None:
    sentence = f"{job}: {did.letters:,} {verb}."
    if verb == "retried" and did.stuck:
        are = "is not a request" if did.stuck == 1 else "are not requests"
        sentence += f" {did.stuck:,} {are} and can only be dropped."
    answer({"job": job, verb: did.letters}, did.why_none or sentence, as_json=as_json)
