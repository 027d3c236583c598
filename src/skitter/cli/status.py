"""What `skitter status` shows. Imports little: people and scripts call it again and again."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Annotated

from skitter.app import open_server
from skitter.cli.common import SERVER, Json, Where
from skitter.cli.parameters import Argument, Option
from skitter.cli.show.output import (
    emit_json,
    emit_line,
    grid,
    pairs,
    print_progress,
    say,
    waiting_for,
)
from skitter.crawl.watch import Watcher
from skitter.frontier.records.health import LATE_S, OF_NOTES
from skitter.frontier.records.outputs import FILLING
from skitter.frontier.transport.sync import pause, run_sync
from skitter.model import State
from skitter.observe.report import duration, excluded, kept_pages, some
from skitter.redact import redact

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from skitter.crawl.watch import Overview
    from skitter.frontier.quotas import QuotaUse
    from skitter.frontier.records.health import Trouble
    from skitter.frontier.records.outputs import Backlog
    from skitter.frontier.workers import Machine
    from skitter.model import Stats
    from skitter.settings import Settings

_KINDS = {"celery": "celery pump", "scrapy": "scrapy node"}
_COUNTS = ("pending", "delayed", "leased", "done", "dead", "seen")


def status(
    job: Annotated[str | None, Argument(metavar="[JOB]", help="Default: all jobs.")] = None,
    watch: Annotated[bool, Option("--watch", "-w", help="Refresh again and again.")] = False,
    every: Annotated[
        float, Option(min=0.1, max=86_400, help="Seconds between refreshes with --watch.")
    ] = 2.0,
    where: Where = SERVER,
    as_json: Json = False,
) -> None:
    """Show how many URLs are pending, leased, done and dead."""
    work = _look(where, job, every_s=every if watch else None, as_json=as_json)
    # One look needs no event loop, whose import takes longer. Many are faster in a loop.
    if not watch:
        with waiting_for(redact(where.redis_url) if where.redis_url else "the embedded server"):
            run_sync(work)
        return
    import uvloop

    uvloop.run(work)


async def _look(where: Settings, job: str | None, *, every_s: float | None, as_json: bool) -> None:
    async with open_server(where, progress=print_progress) as server:
        watcher = Watcher(server)
        while True:
            now = [await watcher.look(job)] if job else await watcher.look_at_all(print_progress)
            _show(now, one=job is not None, as_json=as_json, watch=every_s is not None)
            if every_s is None:
                return
            sys.stdout.flush()  # somebody may be watching through a pipe
            await pause(every_s)


def _show(now: list[Overview], *, one: bool, as_json: bool, watch: bool) -> None:
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
            for trouble in each.troubles:
                print_progress(f"{each.job}: {trouble.says}: `{trouble.command}`")
            for note in more_notes(each.notes, each.troubles):
                print_progress(f"{each.job}: {note}")


def more_notes(notes: Sequence[str], troubles: Sequence[Trouble]) -> list[str]:
    """Those that say more than the troubles. Pure."""
    told = [(trouble.says, OF_NOTES.get(trouble.kind, trouble.says)) for trouble in troubles]
    return [note for note in notes if not any(words in note for one in told for words in one)]


def _status_cells(look: Overview, *, watch: bool) -> list[object]:
    counts = (getattr(look, name) for name in _COUNTS)
    state = look.troubles[0].kind if look.troubles else _limited(look) or look.status
    return [look.job, state, *counts, *([round(look.pages_per_s)] if watch else [])]


def _limited(look: Overview) -> str:
    """A job that is finished although URLs are left has reached its limit."""
    is_limited = look.finished and look.pending - look.shelved + look.delayed
    return "at max_pages" if is_limited and look.state is not State.CANCELLED else ""


def _status_rows(look: Overview) -> Iterator[tuple[str, object]]:
    yield "job", look.job
    why = look.troubles[0].kind if look.troubles else _limited(look)
    yield "state", f"{look.status}, {why}" if why else look.status
    for trouble in look.troubles:
        yield "trouble", f"{trouble.says}: `{trouble.command}`"
    for note in more_notes(look.notes, look.troubles):
        yield "trouble", note
    for name in _COUNTS:
        yield name, f"{getattr(look, name):,}"
    yield "hosts", f"{look.hosts:,}"
    processes = sorted(look.processes.items())
    kinds = (some(number, _KINDS.get(kind, kind)) for kind, number in processes)
    yield "at work", ", ".join(kinds) or "none"
    yield from _machine_rows(look)
    if look.silent_workers:
        yield "silent", f"{look.silent_workers:,}: not heard from for {LATE_S:g} s or more"
    if look.fed:
        yield "fed", f"{some(look.fed, 'message')} waiting for a worker"
    yield "items", f"{look.items:,} waiting for a loader, {look.stored:,} stored"
    for at, backlog in enumerate(look.outputs):
        yield "outputs" if not at else "", output_line(backlog, look.at)
    yield (
        "so far",
        f"{some(look.duplicates, 'duplicate')}, {some(look.retried, 'retry', 'retries')}",
    )
    yield "", f"{some(look.lost, 'lease')} expired, {some(look.late, 'late result')} refused"
    for at, use in enumerate(look.quotas):
        yield "quotas" if not at else "", f"{use.tenant}: {quota_line(use)}"
    if look.archived or look.unarchived:
        yield "archive", kept_pages(look.archived or 0, look.archived_bytes or 0, look.unarchived)
    if said := excluded(look.kept_out, look.excluded):
        yield "excluded", said
    yield from _rare_rows(look)


#: What is counted, by quota.
COUNTED = {
    "max_jobs": "jobs",
    "max_pending": "URLs waiting",
    "max_pages_per_day": "pages begun since 00:00 UTC",
}


def quota_line(use: QuotaUse) -> str:
    return f"{use.used:,} of {use.limit:,} {COUNTED[use.quota]}"


def output_line(backlog: Backlog, now: float) -> str:
    behind = f"{some(backlog.items, 'item')} behind" if backlog.items else "has everything"
    since = (
        f", the first for {duration(now - backlog.since)}"
        if backlog.since and backlog.items
        else ""
    )
    lacks = ", and lacks what was stored before it was named" * (backlog.state == FILLING)
    return f"{redact(backlog.place)}: {behind}{since}{lacks}"


def _machine_rows(look: Overview) -> Iterator[tuple[str, object]]:
    if len(releases := Counter(worker.release for worker in look.workers)) > 1:
        kinds = (f"{name or 'before 0.2'}: {number:,}" for name, number in sorted(releases.items()))
        yield "releases", "; ".join(kinds)
    if len(look.machines) > 1 or any(machine.is_lost for machine in look.machines):
        for at, one in enumerate(look.machines):
            yield ("" if at else "machines"), machine_line(one, look.at)


def machine_line(machine: Machine, now: float) -> str:
    if machine.is_lost:
        about = f"LOST, silent for {duration(now - machine.at)}" + f"; {machine.note}" * bool(
            machine.note
        )
    else:
        kinds = [(machine.workers, "worker"), (machine.loaders, "loader")]
        about = ", ".join(some(number, what) for number, what in kinds if number) or "no worker"
        about += f", {machine.active:,} in flight, {machine.memory_mb:,.0f} MB"
    return f"{machine.host}: {about}"


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
            f"by hosts, which now get fewer requests: `skitter hosts {job}`",
        ),
        (
            "left out",
            stats.undeclared,
            "value",
            "of fields that the item type does not declare",
        ),
        ("cached", stats.cached, "answer", "from the archive: `redo`, or --cache"),
        ("skipped", stats.skipped, "page", "of a type that the spider does not accept"),
        (
            "capped",
            stats.capped,
            "page",
            f"with more items or links than the limit: `skitter logs {job}`",
        ),
        ("today", stats.today, "page", "since 00:00 UTC, of those that a day may have"),
        ("shelved", stats.shelved, "pending URL", "on hosts that reached max_pages_per_host"),
        ("changes", stats.changes, "change", f"noted: `skitter changes {job}`"),
        ("unchanged", stats.unchanged, "visit", "to unchanged pages: no handler ran"),
        ("changed", stats.changed, "visit", "to changed pages"),
        ("missing", stats.missing, "visit", "to pages not found (404, 410): visited once more"),
        ("gone", stats.gone, "visit", "to pages that are gone (404, 410): now dead letters"),
        ("revisits", stats.revisits, "page", f"to visit again, {_next_visit(stats)}"),
        (
            "trapped",
            stats.trapped,
            "URL",
            f"held, as many of their shape are done: `skitter why {job} URL` says more",
        ),
        (
            "unhandled",
            stats.unhandled,
            "URL",
            f"held, as no worker has their handler: run a spider that has it on {job}",
        ),
        ("dropped", stats.dropped, "dead letter", "removed"),
        ("damaged", stats.damaged, "unreadable record", f"so far: `skitter audit {job}`"),
    )
    yield from ((name, f"{some(count, what)} {says}") for name, count, what, says in rows if count)


def _next_visit(stats: Stats) -> str:
    if stats.due or stats.next_visit_s is None:
        return f"{stats.due:,} of them now"
    return f"the next in {duration(stats.next_visit_s)}"
