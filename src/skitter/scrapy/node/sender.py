"""Sends what the engine put into the outbox: requests, pages, items, refusals."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from skitter.crawl.job_loader import keep_rejected
from skitter.engine.outbox import Batch, send_each
from skitter.engine.pulse import Figures, FoundItems
from skitter.errors import BadURL, ServerFull
from skitter.fetch.robots import RobotsRules
from skitter.frontier.completions import seal_offers
from skitter.frontier.feed import bury_messages, finish_batch, record_refusals
from skitter.frontier.items import count, put_items
from skitter.frontier.sites.learned import store_robots
from skitter.frontier.transport.endpoints import is_cluster_url
from skitter.model import Added, Completion, Ended, Failure, Request
from skitter.observe.report import some
from skitter.scrapy.node.cookies import SharedSessions
from skitter.scrapy.node.mailbox import (
    FailedItem,
    FeedBatch,
    Ignored,
    LooseCookies,
    LooseItems,
    LooseLinks,
    OpenLease,
    RobotsFile,
    Unsent,
)
from skitter.scrapy.node.prefetch import QUIET_S, RARE_S
from skitter.urls import identify

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from skitter.engine.departures import Departures
    from skitter.engine.keeping import Archived
    from skitter.frontier.feed import ExcludedLink
    from skitter.frontier.frontier import Frontier
    from skitter.scrapy.node.mailbox import Link, Mailbox, Parcel
    from skitter.scrapy.settings import NodeOptions
    from skitter.settings import Layout

T = TypeVar("T")
AT_ONCE = 200


class ResultSender:
    """Empties the outbox. `say` takes a level and a text; `on_duplicates` gets the requests that
    the frontier already had."""

    def __init__(
        self,
        frontier: Frontier,
        mailbox: Mailbox,
        options: NodeOptions,
        *,
        say: Callable[[str, str], None],
        departures: Departures,
        on_duplicates: Callable[[list[Link]], None],
    ) -> None:
        self.frontier, self.mailbox, self.say = frontier, mailbox, say
        self.departures, self.on_duplicates = departures, on_duplicates
        self.sessions = SharedSessions(frontier, mailbox)
        self.pages = self.errors = self._stored = 0
        self._report_at = 0.0
        self.quality, self.figures = FoundItems("parse"), Figures()
        self.archived = archived_of(options, say) if options.archive else None
        self._in_cluster = is_cluster_url(options.server.redis_url or "")

    async def report(self, frontier: Frontier) -> None:
        """Send figures and item quality, with each heartbeat; when idle, with some of them."""
        now = time.monotonic()
        if self.mailbox.idle_s > QUIET_S and now < self._report_at:
            return
        self._report_at = now + RARE_S
        await self.quality.send(frontier)
        exchanges = self.mailbox.exchanges
        for _ in range(len(exchanges)):
            exchange, size, took_ms = exchanges.popleft()
            self.figures.add_exchange(exchange, size=size, ms=took_ms)
        stored, self._stored = self._stored, self.mailbox.scraped
        for name in ("items", "stored"):  # those that no loader of ours will store
            self.figures.count(name, self._stored - stored)
        await self.figures.send(frontier)
        if self.archived:
            await self.archived.send(frontier)

    async def flush(self) -> None:
        await self.mailbox.outbox.flush(self._pack)

    def _pack(self, parcels: list[Parcel]) -> Batch:
        entries = _of(OpenLease, parcels)
        early = [entry.lease for entry in entries if entry.is_returned]
        ended = [entry for entry in entries if not entry.is_returned]
        failed = [entry for entry in ended if entry.error]
        done = [entry for entry in ended if not entry.error]
        work: list[tuple[Callable[[Any], Any], Any]] = [
            (self.departures.report, [entry.lease for entry in entries]),
            (self.sessions.send, self.sessions.ahead(entries, _of(LooseCookies, parcels))),
            (self.frontier.release, early),
            (self._add, _chain(parcel.links for parcel in _of(LooseLinks, parcels))),
            (self._bury_unsent, _of(Unsent, parcels)),
            (self._push, _chain(parcel.pushes for parcel in _of(LooseItems, parcels))),
            *((self._end_feed_batch, batch) for batch in _of(FeedBatch, parcels)),
            # Links and items found before a page failed are kept, and go first.
            (self._add, _chain(entry.links for entry in failed)),
            (self._push, _chain(entry.pushes + entry.more_pushes for entry in failed)),
            *((self._put_items, entry) for entry in failed if entry.items),
            *((self._put_more_items, entry) for entry in entries if entry.more_items),
            (self._bury, failed),
            (self._push, _chain(entry.more_pushes for entry in done)),
            *self._completions(done),
            (self._count_blocked, [entry for entry in ended if entry.blocked]),
            (self._refuse_links, {link.url: link.why for link in _of(Ignored, parcels)}),
            *((self._store_robots, file) for file in _of(RobotsFile, parcels)),
            # Last: everything else is idempotent, but sending this twice would store it twice.
            *((self._reject_item, item) for item in _of(FailedItem, parcels)),
        ]
        return Batch(len(parcels), [partial(send, what) for send, what in work if what])

    def _completions(self, entries: list[OpenLease]) -> list[tuple[Callable[[Any], Any], Any]]:
        """Links, items and completion are one step. Items for several lists go first."""
        groups: dict[str, list[OpenLease]] = {}
        light: list[OpenLease] = []
        for entry in entries:
            is_light = not entry.pushes and not entry.items
            (light if is_light else groups.setdefault(self._list_of(entry), [])).append(entry)
        if light:
            groups.setdefault(next(iter(groups), ""), []).extend(light)
        mixed = _chain(one.pushes for one in groups.get("", ()))
        return [
            (self._push, mixed),
            *((partial(self._complete_each, items_to=key), one) for key, one in groups.items()),
        ]

    def _list_of(self, entry: OpenLease) -> str:
        """The one list that all items of a page go to; empty if there is no such list."""
        keys = {key for key, _ in entry.pushes}
        return "" if len(keys) != 1 or entry.items or self._in_cluster else keys.pop()

    # --- requests ---------------------------------------------------------------------------------

    async def _add(self, links: Sequence[Link]) -> None:
        epoch = self.frontier.epoch
        answers = await self.frontier.add_offers([link.offer for link in links], links=True)
        self._remember(links, epoch)
        self._drop([link for link, said in zip(links, answers, strict=True) if said is Added.SEEN])
        if refused := sum(said is Added.CLOSED for said in answers):
            self.say(
                "warning",
                f"refused {some(refused, 'request')}: the job takes no new ones (`skitter resume`)",
            )

    def _remember(self, links: Iterable[Link], epoch: Hashable) -> None:
        found = ((link.key, link.offer.depth) for link in links if link.key)
        self.mailbox.memory.add(found, epoch=epoch)

    def _drop(self, known: list[Link]) -> None:
        """Report duplicates, but not unfiltered requests."""
        if dropped := [link for link in known if link.key]:
            self.on_duplicates(dropped)

    async def _bury_unsent(self, refused: Sequence[Unsent]) -> None:
        texts = [(unsent.text.encode("utf-8", "replace"), unsent.reason) for unsent in refused]
        await bury_messages(self.frontier, texts, origin="unsent")
        self.errors += len(refused)

    async def _refuse_links(self, refused: dict[str, ExcludedLink]) -> None:
        epoch = self.frontier.epoch
        await record_refusals(self.frontier, refused)
        self.mailbox.refused.add([(url, 0) for url in refused], epoch=epoch)

    async def _store_robots(self, file: RobotsFile) -> None:
        rules = RobotsRules.from_response(file.status, file.body, at=time.time())
        with suppress(BadURL, ServerFull):  # only `why` needs it
            host = identify(file.site).host
            await store_robots(self.frontier, host, rules.to_bytes(), ttl_s=rules.ttl_s)

    async def _end_feed_batch(self, batch: FeedBatch) -> None:
        if batch.links:
            await self._add(batch.links)
        if batch.rejected:
            await bury_messages(self.frontier, batch.rejected)
            for _, reason in batch.rejected:
                self.say("warning", f"a feed message became a dead letter: {reason}")
        await finish_batch(self.frontier, name=batch.name, place=batch.place)

    # --- items ------------------------------------------------------------------------------------

    async def _push(self, pushes: Sequence[tuple[str, bytes]]) -> None:
        for start in range(0, len(pushes), AT_ONCE):
            some = pushes[start : start + AT_ONCE]
            for key in dict.fromkeys(key for key, _ in some):
                items = [item for at, item in some if at == key]
                await self.frontier.server.command("RPUSH", key, *items)

    async def _put_items(self, entry: OpenLease) -> None:
        await put_items(self.frontier, entry.lease, entry.items)

    async def _put_more_items(self, entry: OpenLease) -> None:
        """Numbered on from the others, so that loaders recognize items of a repeated page."""
        await put_items(self.frontier, entry.lease, entry.more_items, first=len(entry.items))

    async def _reject_item(self, item: FailedItem) -> None:
        await keep_rejected(self.frontier, self.say, item.item)
        self.errors += 1

    # --- pages ------------------------------------------------------------------------------------

    async def _bury(self, entries: Sequence[OpenLease]) -> None:
        failures = [
            Failure(lease=entry.lease, error=entry.reason, feedback=entry.learned())
            for entry in entries
        ]
        ends = await self.frontier.bury(failures)
        for one, end in zip(entries, ends, strict=True):
            self.sessions.settle(one, is_kept=end is Ended.BURIED)
        self.errors += len(failures)
        self.figures.count("dead", ends.count(Ended.BURIED))
        for failure in failures:
            self.say("warning", f"{failure.lease.url} became a dead letter: {failure.error}")

    async def _count_blocked(self, entries: Sequence[OpenLease]) -> None:
        await count(self.frontier, blocked=len(entries))
        self.figures.count("blocked", len(entries))
        for entry in entries:
            self.quality.add_blocked(entry.lease.request.handler)
            self.say("warning", f"{entry.lease.url}: {entry.blocked}")

    async def _complete_each(self, entries: list[OpenLease], *, items_to: str) -> None:
        await send_each(entries, partial(self._complete, items_to=items_to), self._refuse)

    async def _refuse(self, entry: OpenLease, error: Exception) -> None:
        """The server refused it: bury this page, complete the others."""
        entry.error = f"its results cannot be stored: {error}"
        await self._bury([entry])

    async def _complete(self, entries: Sequence[OpenLease], *, items_to: str) -> None:
        if self.archived:
            await keep_pages(self.archived, entries, self.figures)
        sealed = [
            seal_offers(
                Completion(
                    lease=entry.lease,
                    items=[item for _, item in entry.pushes] if items_to else entry.items,
                    feedback=entry.learned(),
                ),
                [link.offer for link in entry.links],
                self.frontier.layout,
                raw=bool(items_to),
            )
            for entry in entries
        ]
        epoch = self.frontier.epoch
        links = {id(link.offer): link for entry in entries for link in entry.links}
        known: list[Link] = []
        answers = await self.frontier.complete_sealed(
            sealed, items_to=items_to, on_known=lambda offer: known.append(links[id(offer)])
        )
        self._drop(known)
        for one, said in zip(entries, answers, strict=True):
            self.sessions.settle(one, is_kept=said is Ended.DONE)
        done = [entry for entry, said in zip(entries, answers, strict=True) if said is Ended.DONE]
        self._remember((link for entry in done for link in entry.links), epoch)
        self.pages += len(done)
        if self.archived:
            add_lines(self.archived, done, self.frontier.layout)
        for one in done:
            self._count(one)
        if late := len(entries) - len(done):
            self.say("warning", f"{some(late, 'page')} finished too late: other nodes took over")

    def _count(self, entry: OpenLease) -> None:
        """Items for a list are already bytes; an item sent both ways counts once."""
        items = [*entry.items, *entry.more_items]
        pushed = 0 if items else len(entry.pushes) + len(entry.more_pushes)
        if not entry.blocked:
            self.quality.add_page(entry.lease.request.handler, items, unread=pushed)
        self.figures.count("pages")
        self.figures.count("items", len(items))  # others: as `scraped`


def _of(kind: type[T], parcels: Iterable[Any]) -> list[T]:
    return [parcel for parcel in parcels if isinstance(parcel, kind)]


def _chain(lists: Iterable[list[T]]) -> list[T]:
    return [one for some in lists for one in some]


# --- pages that callbacks saw are kept (SKITTER_ARCHIVE): on disk before they are completed -------


def archived_of(options: NodeOptions, say: Callable[[str, str], None]) -> Archived:
    from skitter.archive.store import Store  # an extra
    from skitter.archive.writer import ArchiveWriter
    from skitter.engine.keeping import Archived

    writer = ArchiveWriter(Path(options.archive), options.job, say)
    return Archived(writer, Store(options.archive_store) if options.archive_store else None)


async def keep_pages(archived: Archived, entries: Sequence[OpenLease], figures: Figures) -> None:
    """Safe to repeat: what is kept is not kept again."""
    from skitter.archive.record import Record

    seen = [
        entry for entry in entries if entry.answer and not (entry.note or entry.feedback.archived)
    ]
    now, job = time.time(), archived.writer.job
    records = [
        Record(
            _asked(entry), entry.answer, now - entry.answer.elapsed_s, job, entry.lease.fingerprint
        )
        for entry in seen
        if entry.answer
    ]
    for one, line in zip(seen, await archived.keep(records, figures), strict=True):
        one.feedback.archived = line


def _asked(entry: OpenLease) -> Request:
    """Without what only Scrapy understands."""
    request = entry.lease.request
    return Request(
        url=request.url,
        method=request.method,
        body=request.body,
        depth=request.depth,
        handler=request.handler,
    )


def add_lines(archived: Archived, entries: Iterable[OpenLease], layout: Layout) -> None:
    """These pages were completed."""
    for entry in entries:
        if line := entry.feedback.archived:
            archived.add(layout.shard_of(entry.lease.host), line)
