"""Outcomes of attempts, sent to the frontier in batches."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from skitter.engine.outbox import Batch, Line, LinkMemory, may_be_about_a_page, send_each
from skitter.engine.pulse import Figures, FoundItems, Handled, cancel_all
from skitter.engine.stages.revisits import kept_at
from skitter.engine.visit import (
    WAIT_S,
    Buried,
    Cause,
    Completed,
    Outcome,
    Retried,
    Returned,
    lease_of,
)
from skitter.errors import UsageError, shorten
from skitter.frontier.completions import Sealed, seal
from skitter.frontier.feed import ExcludedLink, record_refusals
from skitter.frontier.items import RejectedFrom, RejectedItem, count, reject_items
from skitter.frontier.transport.messages import NOT_PLAIN, pack_feedback, side_by_side
from skitter.model import Completion, Ended, Failure, Feedback, Lease, Request
from skitter.observe.report import some
from skitter.spider.sitemap import SITEMAP

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Coroutine, Iterable

    from skitter.archive.record import Record
    from skitter.engine.departures import Departures
    from skitter.engine.keeping import Archived
    from skitter.engine.outbox import RequestMemory
    from skitter.frontier.frontier import Frontier
    from skitter.frontier.records.failed import FailedPages
    from skitter.settings import Layout
    from skitter.spider.run import HandlerOutput

REJECTED_AT_ONCE = 50
BATCH_BYTES = 8 * 2**20
MAX_UNDECLARED = 100  # field names may be data


@dataclass(slots=True)
class Tally:
    """What this worker did, for its heartbeat."""

    pages: int = 0
    errors: int = 0
    late: int = 0
    rejected: int = 0
    began: float = 0.0  # on the monotonic clock


class _Page(NamedTuple):
    """A page that is done, and what is sent for it."""

    completion: Completion
    sealed: Sealed
    output: HandlerOutput | None
    skipped: bool  # its handler did not run
    record: Record | None = None  # to be kept
    line: str = ""  # where it is kept

    def kept(self, line: str) -> _Page:
        if not line:
            return self._replace(record=None)
        feedback = kept_at(self.completion.feedback or Feedback(), line)
        sealed = msgspec.structs.replace(self.sealed, feedback=pack_feedback(feedback))
        return self._replace(sealed=sealed, line=line, record=None)

    def is_held_up(self, away: Container[int]) -> bool:
        return any(offer.shard in away for offer in self.sealed.ahead)


@dataclass(slots=True)
class _Sorted:
    """Outcomes, sorted by how they are sent."""

    layout: Layout
    known: Container[str] = ()  # links that the server has
    reported: Container[str] = ()  # links whose refusal the server knows
    size_bytes: int = 0
    done: list[_Page] = field(default_factory=list)
    retries: list[Failure] = field(default_factory=list)
    buried: list[Failure] = field(default_factory=list)
    causes: dict[int, Retried | Buried] = field(default_factory=dict)  # by the id of the failure
    early: list[Lease] = field(default_factory=list)
    waiting: list[Lease] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    blocked: list[str | None] = field(default_factory=list)  # handlers of blocked requests
    rejected: list[RejectedItem] = field(default_factory=list)
    exceeded: list[tuple[str, str]] = field(default_factory=list)  # URL, what was dropped
    undeclared: set[str] = field(default_factory=set)  # fields that were dropped
    refused: dict[str, ExcludedLink] = field(default_factory=dict)  # links, by URL

    def add(self, outcome: Outcome) -> None:
        if isinstance(outcome, Completed):
            self._add_completed(outcome)
        elif isinstance(outcome, Retried):
            self.retries.append(outcome.failure)
            self.causes[id(outcome.failure)] = outcome
            if outcome.blocked:
                self.counts["blocked"] += 1
                self.blocked.append(outcome.failure.lease.request.handler)
        elif isinstance(outcome, Buried):
            self.buried.append(outcome.failure)
            self.causes[id(outcome.failure)] = outcome
        elif isinstance(outcome, Returned):
            (self.waiting if outcome.waits else self.early).append(outcome.lease)

    def _add_completed(self, outcome: Completed) -> None:
        """A page that cannot be sent is buried; the others go on."""
        completion, output = self._without_known(outcome.completion), outcome.output
        try:
            sealed = seal(completion, self.layout)
        except (UsageError, *NOT_PLAIN) as error:
            self._bury(completion.lease, error)
        else:
            page = _Page(completion, sealed, output, bool(outcome.skipped), outcome.record)
            self.done.append(page)
            self.size_bytes += sealed.size_bytes
        if outcome.skipped and not output:  # else it is counted as refused
            self.counts["skipped"] += 1
        if output and (output.rejected or output.exceeded or output.undeclared):
            self._add_remarks(completion.lease.request, output)
        if output and output.refused:
            self._add_refused(completion.lease.url, output)

    def _without_known(self, completion: Completion) -> Completion:
        """Drop the links that were added since the handler ran. At the start of a crawl many are:
        dozens of pages are handled before the first is completed, and they share links."""
        known = self.known
        links = [link for link in completion.links if link.url not in known or not link.is_plain]
        if len(links) == len(completion.links):
            return completion
        return msgspec.structs.replace(completion, links=links)

    def _add_refused(self, page: str, output: HandlerOutput) -> None:
        """Pages of a site share most of their refused links: each is reported once."""
        reported, refused = self.reported, self.refused
        for url, why in output.refused:
            if url not in reported and url not in refused:
                refused[url] = ExcludedLink(why.kind, why.reason, page)

    def _add_remarks(self, request: Request, output: HandlerOutput) -> None:
        url = request.url
        self.rejected += [
            RejectedFrom(
                url=url, field=item.field, reason=item.reason, item=item.item, request=request
            )
            for item in output.rejected
        ]
        self.counts["undeclared"] += sum(output.undeclared.values())
        self.undeclared |= output.undeclared.keys()
        if output.exceeded:
            self.counts["capped"] += 1
            self.exceeded.append((url, output.exceeded))

    async def refuse(self, page: _Page, error: Exception) -> None:
        """The server does not take it."""
        self._bury(page.completion.lease, error)

    def _bury(self, lease: Lease, error: Exception) -> None:
        failure = Failure(lease=lease, error=f"its results cannot be stored: {error}")
        self.buried.append(failure)
        self.causes[id(failure)] = Buried(failure, cause=Cause(UsageError(failure.error)))

    @property
    def has_remarks(self) -> bool:
        more = self.blocked or self.exceeded or self.undeclared
        return bool(more or self.refused or self.rejected or self.counts.total())

    @property
    def leases(self) -> Iterable[Lease]:
        yield from (page.completion.lease for page in self.done)
        yield from (failure.lease for failure in self.retries + self.buried)
        yield from self.early + self.waiting


@dataclass(slots=True)
class Delivery:
    """The outbox of a worker."""

    frontier: Frontier
    memory: RequestMemory
    log: Callable[[str, str], None]  # level, text
    departures: Departures | None = None
    on_sent: Callable[[], None] = lambda: None
    #: Runs the user's hooks for a page that the server has given up; None: there are none.
    on_given_up: Callable[[Retried | Buried], Coroutine[Any, Any, None]] | None = None
    tally: Tally = field(default_factory=Tally)
    quality: FoundItems = field(default_factory=FoundItems)
    handled: Handled = field(default_factory=Handled)
    figures: Figures = field(default_factory=Figures)
    archived: Archived | None = None  # None: no page is kept
    failed: FailedPages | None = None  # None: nor those that fail
    _lines: list[Line[Outcome]] = field(default_factory=list)  # one for each shard
    _held_up: Line[_Page] = field(init=False)  # by shards that are away, which they link to
    _remarks: Line[_Sorted] = field(init=False)  # what the job's first shard has to know
    _undeclared: set[str] = field(default_factory=set)  # fields that the log has named
    _refused: LinkMemory[str] = field(default_factory=LinkMemory)  # links, as the server knows
    _hooks: set[asyncio.Task[None]] = field(default_factory=set)  # that run

    def __post_init__(self) -> None:
        self._refused.epoch = lambda: self.frontier.epoch
        self._lines = [
            Line(self._pack, self._tell, self._on_sent) for _ in range(self.frontier.layout.shards)
        ]
        self._held_up = Line(self._pack_held_up, self._tell, self._on_sent)
        self._remarks = Line(self._pack_remarks, self._tell, self._on_sent)

    def __len__(self) -> int:
        """Results to be sent, and pages whose hooks still run."""
        results = sum([len(line) for line in self._lines])
        return results + len(self._held_up) + len(self._remarks) + len(self._hooks)

    def _on_sent(self) -> None:
        self.on_sent()

    def _tell(self, text: str) -> None:
        self.log("warning", text)

    def add(self, outcome: Outcome) -> None:
        self._lines[self.frontier.layout.shard_of(lease_of(outcome).host)].add(outcome)

    def hurry(self) -> None:
        """Send now: nothing is in flight, so nothing else will come."""
        for line in self._lines:
            line.many.set()

    def kept(self, for_s: float) -> list[Lease]:
        """Leases of results that could not be sent for so long."""
        results = [lease_of(one) for line in self._lines for one in line.kept(for_s)]
        return results + [page.completion.lease for page in self._held_up.kept(for_s)]

    async def run(self) -> None:
        """Send forever."""
        runs = [line.run() for line in self._lines]
        runs += [self._held_up.run(), self._remarks.run()]
        tasks = [asyncio.create_task(run) for run in runs]
        try:
            await asyncio.gather(*tasks)
        finally:
            await cancel_all(tasks)

    async def flush(self) -> None:
        """Send everything; while the server is away or full, wait and retry."""
        await side_by_side(line.flush() for line in self._lines)
        await self._held_up.flush()
        await self._remarks.flush()

    def _pack(self, outcomes: list[Outcome]) -> Batch:
        """A batch of the first outcomes: some hundreds, or some megabytes."""
        found, size = _Sorted(self.frontier.layout, self.memory.known, self._refused.known), 0
        for outcome in outcomes:
            found.add(outcome)
            size += 1
            if found.size_bytes > BATCH_BYTES:
                break
        return Batch(
            size,
            (
                lambda: self.report_departures(found.leases),
                *([partial(self._keep, found.done)] if self.archived else []),
                partial(self._complete_all, found),
                partial(self._release, found.early),
                partial(self._release, found.waiting, after_s=WAIT_S),
                partial(self._retry, found.retries, found.causes),
                partial(self._bury, found.buried, found.causes),
                partial(self._remark, found),
            ),
        )

    async def _complete_all(self, found: _Sorted) -> None:
        """Links to other shards are sent first. Where such a shard is away, only the pages that
        link to it wait."""
        if away := self.frontier.away:
            for page in [one for one in found.done if one.is_held_up(away)]:
                found.done.remove(page)
                self._held_up.add(page)
        await send_each(found.done, self._complete, found.refuse)

    def _pack_held_up(self, pages: list[_Page]) -> Batch:
        found = _Sorted(self.frontier.layout, done=list(pages))
        steps = (
            partial(send_each, found.done, self._complete, found.refuse),
            partial(self._bury, found.buried, found.causes),
        )
        return Batch(len(pages), steps)

    async def _remark(self, found: _Sorted) -> None:
        if found.has_remarks:
            self._remarks.add(found)
            self._remarks.many.set()

    def _pack_remarks(self, remarks: list[_Sorted]) -> Batch:
        found = remarks[0]
        return Batch(
            1,
            (
                partial(count, self.frontier, **found.counts),
                partial(self._refuse, found.refused),
                *(
                    partial(self._reject, found.rejected[start : start + REJECTED_AT_ONCE])
                    for start in range(0, len(found.rejected), REJECTED_AT_ONCE)
                ),
                partial(self._log_remarks, found),
            ),
        )

    async def report(self, frontier: Frontier) -> None:
        """Send what was found and measured, with the heartbeat."""
        await self.quality.send(frontier)
        await self.handled.send(frontier)
        await self.figures.send(frontier)
        if self.archived:
            await self.archived.send(frontier)
        if self.failed:
            await self.failed.send(frontier)

    async def report_departures(self, leases: Iterable[Lease]) -> None:
        """Report when requests left, before leases end: the next turn of a host counts from it."""
        if self.departures is not None:
            await self.departures.report(leases)

    async def _keep(self, pages: list[_Page]) -> None:
        """What their handlers saw is on disk before the pages are completed."""
        places = [place for place, page in enumerate(pages) if page.record]
        records = [pages[place].record for place in places]
        if self.archived and records:
            found = [record for record in records if record]
            lines = await self.archived.keep(found, self.figures)
            for place, line in zip(places, lines, strict=True):
                pages[place] = pages[place].kept(line)

    async def _complete(self, pages: list[_Page]) -> None:
        epoch = self.frontier.epoch
        answers = await self.frontier.complete_sealed([page.sealed for page in pages])
        done = [page for page, said in zip(pages, answers, strict=True) if said is Ended.DONE]
        self.tally.pages += len(done)
        self.figures.count("pages", len(done))
        self.figures.count("items", sum([len(page.completion.items) for page in done]))
        self.memory.add_requests(
            [link for page in done for link in page.completion.links], epoch=epoch
        )
        for page in done:
            if self.archived and page.line:
                self.archived.add(page.sealed.shard, page.line)
            if page.output is not None:
                self._note_handled(page, page.output)
        if len(done) < len(pages):
            self._note_late(pages, answers)

    def _note_handled(self, page: _Page, output: HandlerOutput) -> None:
        handler, items = page.completion.lease.request.handler, page.completion.items
        self.quality.add_page(handler, items)
        if handler != SITEMAP and not page.skipped:
            found = len(items) + len(output.rejected)
            self.handled.add_page(
                handler, items=found, links=output.links, selectors=output.selectors
            )

    def _note_late(self, pages: list[_Page], answers: list[Ended]) -> None:
        for page, answer in zip(pages, answers, strict=True):
            if answer is not Ended.DONE:
                self.tally.late += 1
                url = page.completion.lease.url
                self.log("warning", f"{url}: too late, another worker has it")

    async def _refuse(self, refused: dict[str, ExcludedLink]) -> None:
        if refused:
            epoch = self.frontier.epoch
            await record_refusals(self.frontier, refused)
            self._refused.add([(url, 0) for url in refused], epoch=epoch)

    async def _release(self, early: list[Lease], *, after_s: float = 0.0) -> None:
        if early:
            await self.frontier.release(early, after_s=after_s)

    async def _retry(self, failures: list[Failure], causes: dict[int, Retried | Buried]) -> None:
        if failures:
            ends = await self.frontier.retry(failures)
            self._note_failures(failures, ends, causes)
            self._run_hooks(failures, ends, causes)

    async def _bury(self, failures: list[Failure], causes: dict[int, Retried | Buried]) -> None:
        if failures:
            ends = await self.frontier.bury(failures)
            failed = [i for i, failure in enumerate(failures) if not failure.excluded_by]
            failures, ends = [failures[i] for i in failed], [ends[i] for i in failed]
            self._note_failures(failures, ends, causes)
            self._run_hooks(failures, ends, causes)

    def _run_hooks(
        self, failures: list[Failure], ends: list[Ended], causes: dict[int, Retried | Buried]
    ) -> None:
        """Only the server knows which retry was the last. Beside the sending: a hook may be slow,
        and leases must not run out meanwhile."""
        if self.on_given_up is None:
            return
        for failure, end in zip(failures, ends, strict=True):
            if end is Ended.BURIED:
                task = asyncio.create_task(self.on_given_up(causes[id(failure)]))
                self._hooks.add(task)
                task.add_done_callback(self._end_hook)

    def _end_hook(self, task: asyncio.Task[None]) -> None:
        self._hooks.discard(task)
        self.on_sent()

    async def end_hooks(self, within_s: float) -> None:
        """Wait for the hooks of pages that were given up."""
        if self._hooks:
            await asyncio.wait(self._hooks, timeout=within_s)
        await cancel_all(self._hooks)

    def _note_failures(
        self, failures: list[Failure], ends: list[Ended], causes: dict[int, Retried | Buried]
    ) -> None:
        self.tally.errors += len(failures)
        self.figures.count("retries", ends.count(Ended.RETRIED))
        self.figures.count("dead", ends.count(Ended.BURIED))
        for failure in failures:
            if (outcome := causes.get(id(failure))) and outcome.handler:
                self.handled.add_failed(outcome.handler)
            self.log("warning", f"{failure.lease.url}: {failure.error}")

    async def _reject(self, rejected: list[RejectedItem]) -> None:
        try:
            await reject_items(self.frontier, *rejected)
        except Exception as error:
            if not may_be_about_a_page(error):
                raise
            self.log("error", f"{some(len(rejected), 'rejected item')} could not be kept: {error}")
        self.tally.rejected += len(rejected)
        for item in rejected:
            level = "warning" if item.field else "info"  # info: a user's hook dropped it
            self.log(level, f"an item from {item.url} was rejected: {item.why}")

    async def _log_remarks(self, found: _Sorted) -> None:
        for handler in found.blocked:
            self.quality.add_blocked(handler)
            self.figures.count("blocked")
        for url, what in found.exceeded:
            self.log("warning", f"{url}: {what}")
        # Each field once: it is usually in every item.
        new = sorted(found.undeclared - self._undeclared)
        for name in new[: MAX_UNDECLARED - len(self._undeclared)]:
            self._undeclared.add(name)
            self.log(
                "warning",
                f"items have a field {shorten(name)!r} that their type does not declare: it is "
                "left out. Declare it, or do not yield it.",
            )
