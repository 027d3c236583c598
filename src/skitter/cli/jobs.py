"""Feeding and watching jobs: push, status, rejected."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from skitter.cli.common import Directory, Job, Json, Redis, on_job, on_server, settings
from skitter.cli.output import answer, emit_json, emit_line, grid, pairs, print_progress, say
from skitter.errors import (
    BadURL,
    QueueFull,
    ServerFull,
    SkitterError,
    UsageError,
    shorten,
)
from skitter.frontier.admin.items import REJECTED_KEPT, RejectedItem, read_rejected
from skitter.frontier.admin.jobs import create_job
from skitter.frontier.admin.warnings import LATE_S
from skitter.frontier.connection import Server
from skitter.frontier.feed import feed
from skitter.frontier.frontier import Frontier
from skitter.model import Added, Request, Stats
from skitter.report import kept_out, some
from skitter.settings import check_priority
from skitter.urls import identify
from skitter.watch import Overview, Watcher

BATCH = 2000
_COUNTS = ("pending", "delayed", "leased", "done", "dead", "seen")
_KINDS = {"celery": "celery pump", "scrapy": "scrapy node"}


def push(
    job: Job,
    urls: Annotated[
        list[str] | None, typer.Argument(metavar="URL...", help="URLs, or - for standard input.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="A file with one URL per line.")
    ] = None,
    priority: Annotated[int, typer.Option(help="-1000 to 1000; higher goes first.")] = 0,
    wait: Annotated[bool, typer.Option(help="Wait for room if the queue is full.")] = False,
    skip_bad: Annotated[bool, typer.Option(help="Skip lines that are not valid URLs.")] = False,
    redis: Redis = None,
    directory: Directory = None,
    as_json: Json = False,
) -> None:
    """Add URLs to a job, which is created if needed.

    URLs that the job has seen are not added again.
    """
    lines = _lines(urls or [], file)
    pushed = on_server(
        settings(redis, directory),
        lambda server: _push(server, job, lines, priority=priority, wait=wait, skip_bad=skip_bad),
    )
    extra = "".join(f", {pushed[name]:,} {name}" for name in ("deep", "bad") if pushed[name])
    sentence = f"{job}: {pushed['new']:,} new, {pushed['seen']:,} already seen{extra}"
    answer({"job": job, **pushed}, sentence, as_json=as_json)


def _lines(urls: list[str], file: Path | None) -> Iterator[tuple[str, str]]:
    """Each URL with the place it came from, for messages."""
    if not urls and file is None:
        raise UsageError("no URLs were given: name some, use --file, or - for standard input.")
    for url in urls:
        if url == "-":
            yield from _numbered(sys.stdin, "standard input")
        else:
            yield "argument", url
    if file is not None:
        try:
            with file.open(encoding="utf-8", errors="surrogateescape") as stream:
                yield from _numbered(stream, str(file))
        except OSError as error:
            raise UsageError(f"cannot read {file}: {error.strerror}.") from None


def _numbered(stream: Iterable[str], name: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(stream, 1):
        if line.strip():
            yield f"{name}, line {number:,}", line.strip()


async def _push(
    server: Server,
    job: str,
    lines: Iterator[tuple[str, str]],
    *,
    priority: int,
    wait: bool,
    skip_bad: bool,
) -> Counter[str]:
    check_priority(priority)
    batch = list(islice(lines, BATCH))
    if not skip_bad:
        _check_all(batch)  # before creating a job for nothing
    frontier = await create_job(server, job)
    total: Counter[str] = Counter(new=0, seen=0)
    while batch:
        offers = []
        for place, url in batch:
            try:
                offers.append(frontier.offer(Request(url=url, priority=priority)))
            except BadURL as error:
                if not skip_bad:
                    raise _explained(error, place, total) from None
                print_progress(f"skipped {place}: {error.reason}")
                total["bad"] += 1
        try:
            fed = await feed(frontier, offers, wait=False)
        except (QueueFull, ServerFull) as full:
            full.added += total["new"]  # from earlier batches
            if not wait or isinstance(full, ServerFull):
                raise
            print_progress(
                f"{full.job} is full: {full.added:,} were added; waiting for room for the rest."
            )
            fed = await feed(frontier, offers, wait=True)
            fed[Added.NEW] += full.added - total["new"]
            fed[Added.SEEN] -= full.added - total["new"]
        total.update({str(answer): count for answer, count in fed.items()})
        batch = list(islice(lines, BATCH))
    return total


def _check_all(batch: list[tuple[str, str]]) -> None:
    for place, url in batch:
        try:
            identify(url)
        except BadURL as error:
            raise _explained(error, place, Counter()) from None


def _explained(error: BadURL, place: str, total: Counter[str]) -> SkitterError:
    if place == "argument":
        return error
    before = total["new"] + total["seen"]
    return UsageError(
        f"{place}: {error} {before:,} URLs before it were taken; pushing them again is harmless. "
        "Use --skip-bad to leave such lines out."
    )


def status(
    job: Annotated[str | None, typer.Argument(metavar="[JOB]", help="Default: all jobs.")] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Refresh every 2 seconds.")] = False,
    redis: Redis = None,
    directory: Directory = None,
    as_json: Json = False,
) -> None:
    """Show how many URLs are pending, leased, done and dead."""

    async def look(server: Server) -> None:
        watcher = Watcher(server)
        while True:
            now = [await watcher.look(job)] if job else await watcher.look_at_all(print_progress)
            _show_status(now, one=job is not None, as_json=as_json, watch=watch)
            if not watch:
                return
            sys.stdout.flush()  # somebody may be watching through a pipe
            await asyncio.sleep(2)

    on_server(settings(redis, directory), look)


def _show_status(now: list[Overview], *, one: bool, as_json: bool, watch: bool) -> None:
    if as_json:
        (emit_line if watch else emit_json)(now[0] if one else now)
    elif one and not watch:
        pairs(_status_rows(now[0]))
    elif not now:
        say("There are no jobs yet: `skitter push JOB URL` creates one.")
    else:
        columns = ["job", "state", *_COUNTS, *(["done/s"] if watch else [])]
        grid(columns, [_status_cells(each, watch=watch) for each in now])
        for each in now:
            for note in each.notes:
                print_progress(f"{each.job}: {note}")


def _status_cells(look: Overview, *, watch: bool) -> list[object]:
    counts = (getattr(look, name) for name in _COUNTS)
    return [look.job, look.status, *counts, *([round(look.pages_per_s)] if watch else [])]


def _status_rows(look: Overview) -> Iterator[tuple[str, object]]:
    yield "job", look.job
    yield "state", look.status
    for note in look.notes:
        yield "trouble", note
    for name in _COUNTS:
        yield name, f"{getattr(look, name):,}"
    yield "hosts", f"{look.hosts:,}"
    processes = sorted(look.processes.items())
    kinds = (some(number, _KINDS.get(kind, kind)) for kind, number in processes)
    yield "at work", ", ".join(kinds) or "none"
    if look.silent_workers:
        yield "silent", f"{look.silent_workers:,}: not heard from for {LATE_S:g} s or more"
    if look.fed:
        yield "fed", f"{some(look.fed, 'message')} waiting for a worker"
    yield "items", f"{look.items:,} waiting for a loader, {look.stored:,} stored"
    yield (
        "so far",
        f"{some(look.duplicates, 'duplicate')}, {some(look.retried, 'retry', 'retries')}",
    )
    yield "", f"{some(look.lost, 'lease')} expired, {some(look.late, 'late result')} refused"
    if look.kept_out:
        yield "excluded", kept_out(look.kept_out)
    yield from _rare_rows(look)


def _rare_rows(stats: Stats) -> Iterator[tuple[str, object]]:
    """Counts that are zero for most jobs."""
    job = stats.job
    rows = (
        ("refused", stats.refused, "link", "beyond max_depth, or found while draining"),
        ("rejected", stats.rejected, "item", f"so far: `skitter rejected {job}`"),
        ("blocked", stats.blocked, "block page", "so far: those hosts are left alone for a while"),
        (
            "incidents",
            stats.incidents,
            "refusal",
            f"by hosts, which are asked less often: `skitter hosts {job}`",
        ),
        (
            "left out",
            stats.undeclared,
            "value",
            "of fields that the item type does not declare",
        ),
        ("skipped", stats.skipped, "page", "of a type that the spider does not accept"),
        (
            "capped",
            stats.capped,
            "page",
            f"with more items or links than the limit: `skitter logs {job}`",
        ),
        ("shelved", stats.shelved, "pending URL", "on hosts that reached max_pages_per_host"),
        ("unchanged", stats.unchanged, "visit", "to unchanged pages: no handler ran"),
        ("changed", stats.changed, "visit", "to changed pages"),
        ("gone", stats.gone, "visit", "to pages that are gone (404, 410): now dead letters"),
        ("revisits", stats.revisits, "page", f"to visit again, {stats.due:,} of them now"),
        (
            "trapped",
            stats.trapped,
            "URL",
            f"held, as if in a trap: `skitter why {job} URL` names its shape",
        ),
        ("dropped", stats.dropped, "dead letter", "removed"),
        ("damaged", stats.damaged, "unreadable record", f"so far: `skitter audit {job}`"),
    )
    yield from ((name, f"{some(count, what)} {says}") for name, count, what, says in rows if count)


def rejected(
    job: Job,
    limit: Annotated[int, typer.Option(min=0, help="Maximum number to show.")] = 20,
    redis: Redis = None,
    directory: Directory = None,
    as_json: Json = False,
) -> None:
    """Show items that do not fit their type or cannot be stored."""

    async def work(frontier: Frontier) -> list[RejectedItem]:
        return await read_rejected(frontier, min(limit, 2 * REJECTED_KEPT)) if limit else []

    found = on_job(settings(redis, directory), job, work)
    if as_json:
        emit_json(found)
    elif not found:
        say(f"{job}: no rejected items.")
    else:
        grid(
            ["url", "field", "reason", "item"],
            [[one.url, one.field, one.reason, shorten(str(one.item), 60)] for one in found],
        )
