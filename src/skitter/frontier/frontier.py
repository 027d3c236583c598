"""The frontier: every URL of a job in exactly one state, one script per verb.

All verbs take batches and return one result per item, in order. The header of its Lua file says
what a verb does on the server.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from skitter.errors import InfrastructureError, JobMissing, QueueFull, ServerFull, SkitterError
from skitter.frontier.completions import Sealed, completion_rest, keep_outlinks, reopen, seal
from skitter.frontier.delays import Granted
from skitter.frontier.quotas import Quotas
from skitter.frontier.requests import Offer, identified, offer
from skitter.frontier.totals import read_options, read_totals, refill
from skitter.frontier.transport.keys import feed_key
from skitter.frontier.transport.messages import (
    cut,
    ms,
    open_lease,
    open_paces,
    open_state,
    pack_feedback,
    scatter,
    side_by_side,
)
from skitter.frontier.transport.scripts import Code
from skitter.frontier.transport.shard import Shard
from skitter.frontier.transport.shard_calls import REST_S, ShardCalls
from skitter.model import Added, Ended, Failure, Leased, State, Stats
from skitter.settings import check_number

if TYPE_CHECKING:
    from collections.abc import (
        Awaitable,
        Callable,
        Coroutine,
        Hashable,
        Iterable,
        Mapping,
        Sequence,
    )

    from skitter.frontier.delays import Departure, SentRequest
    from skitter.frontier.identities import Identify
    from skitter.frontier.transport.connection import Server
    from skitter.model import Completion, Lane, Lease, Request
    from skitter.settings import JobOptions, Layout

    #: Leases a number of requests from a shard.
    LeasePart = Callable[[int, int], Coroutine[Any, Any, "_Part"]]

DEFAULT_LEASE_S = 300.0
OPTIONS_FRESH_S = 2.0
REOPEN_S = 0.05  # how soon to ask again while pages wait to be reopened
IN_COMPANY = "~"  # lua/lib/company.lua
UNREADABLE = "its body cannot be read: written by another release, or damaged"
#: Entries per script call, large ones counted several times (`weight`): a full call keeps the
#: server busy for a few milliseconds.
ADD_BATCH, LEASE_BATCH, END_BATCH, COMPLETE_BATCH = 500, 500, 200, 2500
#: The same for completions of a process that gives way to others: a push waits for one at most.
GENTLE_BATCH = 120

_ADDED: dict[int, Added] = {
    code: Added(code.name.lower()) for code in Code if code.name in Added.__members__
}
_ENDED: dict[int, Ended] = {
    code: Ended(code.name.lower()) for code in Code if code.name in Ended.__members__
}


class _Part(NamedTuple):
    """What one shard handed out, and by how many its share of max_pages fell short."""

    shard: int
    leased: Leased
    short: int


@dataclass(slots=True)
class Frontier:
    """One job on one server, for one client. `open_frontier` opens it."""

    job: str
    layout: Layout
    options: JobOptions
    shards: list[Shard]
    complete_batch: int = COMPLETE_BATCH
    identify: Identify | None = None  # how this Scrapy node does; None: as the layout says
    #: The job has or had a max_depth, so that links of its pages are kept. As of the last lease.
    keeps_depths: bool = False
    _options_at: float = field(default_factory=time.monotonic)
    #: shard -> state, born, whether it keeps no depths
    _lives: dict[int, tuple[object, object, bool]] = field(default_factory=dict)
    _all_lives: Hashable = ()  # hashable copy for `epoch`, which is read at every page
    #: shard -> pages to be reopened, as of the last lease; None: it keeps no depths
    _to_reopen: dict[int, int | None] = field(default_factory=dict)
    _with_sessions: dict[int, bool] = field(default_factory=dict)  # as of the last lease
    _absent: ShardCalls[_Part] = field(init=False)
    quotas: Quotas = field(init=False)

    def __post_init__(self) -> None:
        self._absent = ShardCalls(self._give_back)
        self.quotas = Quotas(self.server, self.job, clock=self.home.clock)

    @property
    def home(self) -> Shard:
        """The shard with the data of the job as a whole."""
        return self.shards[0]

    @property
    def server(self) -> Server:
        """The server that the job is on."""
        return self.home.server

    @property
    def client(self) -> str:
        """The name that this process leases under."""
        return self.home.client

    def shard_for(self, host: str) -> Shard:
        """The shard that has the URLs of a host."""
        return self.shards[self.layout.shard_of(host)]

    async def server_time(self) -> float:
        """Seconds since the Unix epoch, by the clock that all workers share."""
        if self.home.clock:
            return self.home.clock() / 1000
        seconds, micros = await self.server.command("TIME")
        return float(seconds) + float(micros) / 1e6

    @property
    def epoch(self) -> Hashable:
        """While it stays the same, the server still has all that it accepted. A new value: perhaps
        not, as it may have restarted without its last second, or the job was created again."""
        return self.shards[0].server.connections.made, self._all_lives

    @property
    def away(self) -> dict[int, SkitterError | None]:
        """Shards that did not answer when they were last asked for requests, and why."""
        return self._absent.errors if len(self.shards) > 1 else {}

    def has_sessions(self, host: str) -> bool:
        """Whether the shard of this host has sessions, as of the last lease."""
        return self._with_sessions.get(self.layout.shard_of(host), False)

    async def add(self, requests: Iterable[Request], *, links: bool = False) -> list[Added]:
        """Offer requests. `links`, which handlers found, are not subject to max_pending."""
        return await self.add_offers([self.offer(request) for request in requests], links=links)

    def offer(self, request: Request) -> Offer:
        """Check and encode one request. Raises BadURL, BadOption or TooBig, naming the value; and
        UsageError if this is a job of Scrapy nodes and only they can identify it."""
        if self.layout.fingerprinter:
            request = identified(request, self.layout.fingerprinter, self.job, self.identify)
        return offer(request, self.layout)

    def add_offers(
        self, offers: Sequence[Offer], *, links: bool = False
    ) -> Coroutine[Any, Any, list[Added]]:
        """The second half of `add`, for callers that check requests one by one."""
        if len(offers) == 1:  # the usual case of a queue
            return self._add_to(offers[0].shard, offers, links=links)
        return self._add_all(offers, links=links)

    async def _add_all(self, offers: Sequence[Offer], *, links: bool) -> list[Added]:
        new = 0

        async def send(shard: int, part: list[int]) -> list[Added]:
            answers = await self._add_to(shard, [offers[i] for i in part], links=links)
            nonlocal new
            new += answers.count(Added.NEW)
            return answers

        try:
            return await scatter(
                [one.shard for one in offers],
                send,
                weights=[one.weight for one in offers],
                batch=ADD_BATCH,
            )
        except ServerFull as full:
            full.added += new
            raise

    async def _add_to(self, shard: int, offers: Sequence[Offer], *, links: bool) -> list[Added]:
        if not links:
            await self.quotas.refresh()
            if self.quotas.by_pending:
                return await self._add_within(shard, offers)
        return await self._send(shard, offers, links=links)

    async def _add_within(self, shard: int, offers: Sequence[Offer]) -> list[Added]:
        """As many as the quotas have room for; the rest is FULL."""
        room = await self.quotas.room(len(offers))
        answers = await self._send(shard, offers[:room], links=False) if room else []
        await self.quotas.were_known(room - answers.count(Added.NEW))
        return answers + [Added.FULL] * (len(offers) - room)

    async def full(self, *, added: int) -> QueueFull:
        """What to raise when an answer was FULL: with the quota or the limit that is reached."""
        limit = (await read_options(self.home)).limits.max_pending or 0  # others may have set it
        use = await self.quotas.fullest()
        if use and (use.is_reached or not limit):  # if not, there has just been room again
            command = use.raise_it
            return QueueFull(
                self.job, max_pending=use.limit, added=added, tenant=use.tenant, command=command
            )
        return QueueFull(self.job, max_pending=limit, added=added)

    async def _send(self, shard: int, offers: Sequence[Offer], *, links: bool) -> list[Added]:
        codes = await self.shards[shard].add(
            [one.arguments for one in offers],
            links=int(links),
            replicated=self.options.safety.replicated,
        )
        return [_ADDED[code] for code in codes]

    async def lease(
        self,
        limit: int,
        *,
        ttl_s: float = DEFAULT_LEASE_S,
        lane: Lane = "",
        in_company: bool = False,
    ) -> Leased:
        """Take up to `limit` requests of a lane that may be fetched now, for `ttl_s` seconds.
        `in_company`: the caller works on several at once, so it may not be the fault of this one if
        the caller dies. It must `isolate` suspects.

        Each shard is asked for its share, concurrently; if `limit` is below the number of shards,
        one after the other until there are enough. Priorities hold within a shard. A shard that is
        away counts as empty; the error is raised if none answers. First, pages to which a shorter
        path was found offer their links again. Of a tenant's quota for the day, what is not leased
        is given back.
        """
        check_number("limit", limit, low=1, high=1_000_000, whole=True)
        check_number("ttl_s", ttl_s, low=0.001, high=30 * 86_400)
        terms = {"ttl_ms": ms(ttl_s), "lane": lane, "company": int(in_company)}
        await self.quotas.refresh()
        if not self.quotas.by_day:
            return await self._lease(limit, partial(self._lease_part, terms))
        granted = await self.quotas.take(limit)
        if not granted.pages:
            return Leased([], await self._look_after(limit), granted.tomorrow_in_s)
        leased = await self._lease(granted.pages, partial(self._lease_part, terms))
        await self.quotas.give_back(granted.pages - len(leased.leases), granted.day)
        return leased

    async def _look_after(self, limit: int) -> State:
        """What a lease does beside handing out: take back what has expired, and tell the state."""
        await self.reap(at_most=limit)
        state = await self.home.command("HGET", "control", "state")
        if state is None:
            raise JobMissing(self.job, [])
        return open_state(self.job, state.decode())

    async def _lease(self, limit: int, lease_part: LeasePart) -> Leased:
        await self._reopen()
        leased = await self._lease_once(limit, lease_part)
        while not leased.leases and await self._reopen():
            leased = await self._lease_once(limit, lease_part)
        return leased

    async def _reopen(self) -> int:
        """Offer the links of reopened pages again. Returns the number of pages."""
        shards = [self.shards[number] for number, count in self._to_reopen.items() if count]
        if not shards or self.away:  # a link may lead to any shard
            return 0
        add = partial(self.add_offers, links=True)
        return sum([await reopen(shard, self.layout, add) for shard in shards])

    async def _lease_once(self, limit: int, lease_part: LeasePart) -> Leased:
        parts = await self._lease_parts(limit, lease_part)
        while not parts:
            known = [error for error in self._absent.errors.values() if error]
            await self._absent.until_one_answers()
            if errors := known + [error for error in self._absent.errors.values() if error]:
                raise errors[-1]
            parts = await self._lease_parts(limit, lease_part)
        waits = [part.again_in_s for part in parts if part.again_in_s is not None]
        waits += [REOPEN_S for count in self._to_reopen.values() if count]
        waits += [REST_S] if self.away else []
        leases = [lease for part in parts for lease in part.leases]
        has_files = any(part.has_files for part in parts)
        return Leased(leases, parts[0].state, min(waits, default=None), has_files)

    async def _lease_parts(self, limit: int, lease_part: LeasePart) -> list[Leased]:
        if len(self.shards) == 1:  # the usual case
            return [(await self._absent.ask_one(lease_part(0, min(limit, LEASE_BATCH)))).leased]
        order = _shuffled(list(range(len(self.shards))), random.random())
        if limit >= len(order):
            share, rest = divmod(limit, len(order))
            shares = {shard: share + (i < rest) for i, shard in enumerate(order)}
            return await self._lease_from(shares, lease_part)
        parts: list[Leased] = []
        while order and (missing := limit - sum(len(part.leases) for part in parts)):
            parts += await self._lease_from({order.pop(0): missing}, lease_part)
        return parts

    async def _lease_from(self, limits: dict[int, int], lease_part: LeasePart) -> list[Leased]:
        """Lease from shards concurrently; from those short of max_pages a second time, if `refill`
        found more for them."""
        parts = await self._absent.ask(
            {n: partial(lease_part, n, min(limit, LEASE_BATCH)) for n, limit in limits.items()}
        )
        if short := {part.shard: part.short for part in parts if part.short}:
            parts += await self._lease_more(short, lease_part)
        return [part.leased for part in parts]

    async def _lease_more(self, short: dict[int, int], lease_part: LeasePart) -> list[_Part]:
        if self.away:  # shares move only if all agree
            return []
        try:
            fed = await refill(self.shards, short)
        except SkitterError:  # a shard has gone away since: the others have answered
            return []
        return await self._absent.ask({n: partial(lease_part, n, short[n]) for n in fed})

    async def _give_back(self, part: _Part) -> None:
        """Nobody waits for these any more."""
        if leases := part.leased.leases:  # `lease` has given back their pages of a quota
            await self._end(Shard.release, leases, [(0,) for _ in leases])

    async def _lease_part(self, terms: Mapping[str, Any], shard: int, limit: int) -> _Part:
        since = time.monotonic()
        answer = await self.shards[shard].lease(limit=limit, **terms)
        state, again_ms, token, is_short, born, pace, to_reopen, sessions, _, files, *rows = answer
        self._with_sessions[shard] = bool(sessions)
        if self._lives.get(shard) != (life := (state, born, to_reopen < 0)):
            self._lives[shard] = life
            self._all_lives = tuple(sorted(self._lives.items()))
            self.keeps_depths = not all(without for _, _, without in self._lives.values())
        self._to_reopen[shard] = None if to_reopen < 0 else to_reopen
        width = 3 if to_reopen < 0 else 4
        columns = [rows[i::width] for i in range(width)]
        paces = open_paces(pace, len(rows) // width, since=since)
        leases = [
            open_lease(*row, token=token.decode(), pace=pace)
            for pace, *row in zip(paces, *columns, strict=True)
        ]
        again_in_s = None if again_ms < 0 else again_ms / 1000
        known = open_state(self.job, state.decode())
        leased = Leased([lease for lease in leases if lease.url], known, again_in_s, files > 0)
        if unreadable := [
            Failure(lease=lease, error=UNREADABLE) for lease in leases if not lease.url
        ]:
            await self.bury(unreadable)
            # Lease others in their place: an empty result would mean that nothing is left.
            _, more, short = await self._lease_part(terms, shard, len(unreadable))
            both = Leased(leased.leases + more.leases, more.state, more.again_in_s, files > 0)
            return _Part(shard, both, short)
        return _Part(shard, leased, limit - len(leases) if is_short else 0)

    async def extend(
        self, leases: Sequence[Lease], *, ttl_s: float = DEFAULT_LEASE_S
    ) -> list[Ended]:
        """Keep leases for longer. LOST: stop working on it."""
        none = [() for _ in leases]
        return await self._end(Shard.extend, leases, none, ttl_ms=ms(ttl_s), alone=0)

    async def isolate(self, lease: Lease, *, ttl_s: float = DEFAULT_LEASE_S) -> Lease | None:
        """Tell that the caller has nothing else in hand from now on: if it dies, it is the fault of
        this request. Returns the lease with its new token; None: it is lost."""
        [end] = await self._end(Shard.extend, [lease], [()], ttl_ms=ms(ttl_s), alone=1)
        token = lease.token.removesuffix(IN_COMPANY)
        return None if end is Ended.LOST else msgspec.structs.replace(lease, token=token)

    async def complete(
        self, completions: Sequence[Completion], *, items_to: str = ""
    ) -> list[Ended]:
        """Finish requests: items, links, counters and the end of the lease in one step.

        Links to other shards are added first: that can be repeated, a completion cannot.
        `items_to`: items are bytes, and are appended to this list instead of the stream.
        """
        sealed = [self.seal(completion, raw=bool(items_to)) for completion in completions]
        return await self.complete_sealed(sealed, items_to=items_to)

    def seal(self, completion: Completion, *, raw: bool = False) -> Sealed:
        """Check and encode one completion. Raises BadURL, BadOption or TooBig."""
        return seal(completion, self.layout, raw=raw)

    async def complete_sealed(
        self,
        sealed: Sequence[Sealed],
        *,
        items_to: str = "",
        on_known: Callable[[Offer], object] | None = None,
    ) -> list[Ended]:
        """The second half of `complete`, for callers that check completions one by one. `on_known`
        is called for links that are duplicates, but not for those sent ahead."""
        codes = await self._send_ahead(sealed)
        if self.keeps_depths:
            sealed = [
                keep_outlinks(completion, is_cut=Added.DEEP in said)
                for completion, said in zip(sealed, codes, strict=True)
            ]

        async def send(shard: int, part: list[int]) -> list[Ended]:
            group = [sealed[i] for i in part]
            # A full server refuses what makes it grow, but not what only drains.
            codes = await self.shards[shard].complete(
                [one.arguments for one in group],
                rest=completion_rest(group),
                strict=any(one.grows for one in group),
                replicated=self.options.safety.replicated,
                leases=len(group),
                links=sum(len(one.links) for one in group),
                list=items_to,
                report=int(on_known is not None),
            )
            if on_known is not None:
                links = [link for one in group for link in one.links]
                for number in codes[len(group) :]:
                    on_known(links[number])
            return [_ENDED[code] for code in codes[: len(group)]]

        return await scatter(
            [completion.shard for completion in sealed],
            send,
            weights=[completion.weight for completion in sealed],
            batch=self.complete_batch,
        )

    async def _send_ahead(self, sealed: Sequence[Sealed]) -> list[list[Added]]:
        """Add links to other shards first. Returns the answers to the links of each completion."""
        if not any(completion.ahead for completion in sealed):
            return [[] for _ in sealed]
        ahead = [one for completion in sealed for one in completion.ahead]
        answers = iter(await self.add_offers(ahead, links=True))
        return [list(islice(answers, len(completion.ahead))) for completion in sealed]

    async def retry(self, failures: Sequence[Failure]) -> list[Ended]:
        """Try again later, at a lower priority; dead after max_retries."""
        if any(failure.after_s is None for failure in failures):
            await self.fresh_options()
        details = [
            (ms(self._after_s(f)), cut(f.error), pack_feedback(f.feedback)) for f in failures
        ]
        return await self._end(Shard.retry, [failure.lease for failure in failures], details)

    async def bury(self, failures: Sequence[Failure]) -> list[Ended]:
        """Give up at once, with a reason; or set aside what is excluded."""
        details = [
            (cut(f.error), pack_feedback(f.feedback), f.excluded_by, f.lease.moment_ms)
            for f in failures
        ]
        return await self._end(Shard.bury, [failure.lease for failure in failures], details)

    async def release(self, leases: Sequence[Lease], *, after_s: float = 0.0) -> list[Ended]:
        """Return leases unused. They count as neither a failure nor a loss."""
        ended = await self._end(Shard.release, leases, [(ms(after_s),) for _ in leases])
        if self.quotas.by_day:
            pairs = zip(leases, ended, strict=True)
            await self.quotas.returned(lease for lease, end in pairs if end is Ended.RELEASED)
        return ended

    async def depart(self, departures: Sequence[Departure]) -> list[Granted]:
        """Report when requests left, and ask when others may."""

        async def send(shard: int, part: list[int]) -> list[Granted]:
            answer = await self.shards[shard].depart([departures[i].arguments for i in part])
            pairs = zip(answer[::2], answer[1::2], strict=True)
            return [Granted(wait_ms / 1000, moment_ms) for wait_ms, moment_ms in pairs]

        places = [self.layout.shard_of(departure.host) for departure in departures]
        return await scatter(places, send, batch=END_BATCH)

    async def record(self, trips: Sequence[SentRequest]) -> None:
        """Record finished requests for the audit of politeness."""

        async def send(shard: int, part: list[int]) -> list[None]:
            await self.shards[shard].record([trips[i].row for i in part])
            return [None for _ in part]

        places = [self.layout.shard_of(trip.host) for trip in trips]
        await scatter(places, send, batch=END_BATCH)

    async def reap(self, *, at_most: int = LEASE_BATCH) -> int:
        """Take back expired leases, even when no worker leases. Returns how many."""
        return sum(await side_by_side(shard.reap(at_most=at_most) for shard in self.shards))

    async def stats(self) -> Stats:
        """The counts of all shards added up. Only this decides when a job is finished."""
        # Read the feed first: a message leaves it after it was added, so none is missed.
        fed = await self._count_fed()
        stats, idle, _ = await read_totals(self.shards)
        # A feed that nobody will read does not keep a job alive: the job is closed, or max_pages is
        # reached, which shows as idle with URLs left.
        is_open = stats.state in (State.RUNNING, State.PAUSED)
        awaited = fed and is_open and not (stats.remaining or stats.reopened)
        crawled = idle and stats.seen > 0 and not awaited
        finished = crawled and not stats.items
        return msgspec.structs.replace(stats, fed=fed, crawled=crawled, finished=finished)

    async def _count_fed(self) -> int:
        key = feed_key(self.job)
        try:
            waiting: int = await self.server.command("LLEN", key)
        except InfrastructureError as error:
            if "WRONGTYPE" not in str(error):
                raise
            waiting = await self.server.command("XLEN", key)  # a stream will do, too
        return waiting

    async def fresh_options(self) -> JobOptions:
        """The options, reread every OPTIONS_FRESH_S: others may have changed them."""
        if time.monotonic() - self._options_at >= OPTIONS_FRESH_S and 0 not in self.away:
            self.options = await read_options(self.home)
            self._options_at = time.monotonic()
        return self.options

    def _after_s(self, failure: Failure) -> float:
        if failure.after_s is not None:
            return failure.after_s
        return self.options.retries.backoff_s(failure.lease.attempt - 1, chance=random.random())

    async def _end(
        self,
        verb: Callable[..., Awaitable[list[int]]],
        leases: Sequence[Lease],
        details: Sequence[tuple[object, ...]],
        **values: int,
    ) -> list[Ended]:
        """Send leases, each with its token and details, to their shards."""

        async def send(shard: int, part: list[int]) -> list[Ended]:
            rows = [(leases[i].fingerprint, leases[i].token, *details[i]) for i in part]
            codes = await verb(self.shards[shard], rows, **values)
            return [_ENDED[code] for code in codes]

        places = [self.layout.shard_of(lease.host) for lease in leases]
        return await scatter(places, send, batch=END_BATCH)


def _shuffled(shards: list[int], chance: float) -> list[int]:
    """Rotate by chance, so that no shard is always last."""
    first = int(chance * len(shards))
    return shards[first:] + shards[:first]
