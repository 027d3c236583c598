"""What the frontier promises, as plain Python: no server, no cleverness, no speed.

Written from DESIGN sections 2 and 3. A page is in one state; a host stands in one place:

    due      it has work and may be asked now
    wait     it has work and may be asked later
    nowhere  it has no work, as much in flight as allowed, or its budget is spent

A host is looked at again when something happens to it, or when a lease finds that its time has
come; so "may be asked now" is what was true at that moment. Times are server milliseconds.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from skitter.domains import registrable_domain
from skitter.model import Added, Ended, Request, State
from skitter.settings import JobOptions
from skitter.urls import shard_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LOWEST_PRIORITY = -1000
UNLIMITED = float("inf")
PAGES_AT_ONCE = 20  # how many are opened again in one go
BATCH = 500  # how many of one `add` go to the server at once


@dataclass
class Offer:
    """A request as the frontier is to understand it."""

    fp: str
    host: str
    priority: int
    depth: int
    request: Request  # as a worker gets it back


@dataclass
class Page:
    """One fingerprint that was accepted, for ever."""

    fp: str
    host: str
    priority: int
    request: Request
    came_with: int  # its first priority; retries lower it
    state: str = "pending"  # pending, delayed, leased, done, dead, dropped
    arrival: int = 0  # its place in line among those of its priority
    due_at: int = 0  # while delayed
    expires_at: int = 0  # while leased
    holder: int = 0  # the number of the lease, while leased
    died_at: int = 0  # while dead
    failures: int = 0
    losses: int = 0


@dataclass
class Host:
    """Whom we are polite to."""

    name: str
    in_flight: int = 0
    pages: int = 0
    asked_at: int | None = None
    blocked_until: int = 0
    turn: int = 0  # when it was last served; before that, when its first page arrived
    place: str = "nowhere"
    own: dict[str, int] = field(default_factory=dict)  # delay_ms, max_in_flight, max_pages


@dataclass
class Claim:
    """A worker says: this lease is mine, and here is how it ended."""

    fp: str
    host: str
    holder: int
    after_ms: int = 0
    block_ms: int = 0
    links: list[Offer] = field(default_factory=list)
    items: list[Any] = field(default_factory=list)
    depth: int = 0  # at which the worker got it
    outlinks: list[Offer] = field(default_factory=list)  # all of them, if the worker keeps them
    is_cut: bool = False  # some of them were refused on their way


class Shard:
    """The pages and hosts of one shard."""

    def __init__(self, options: JobOptions, *, lifo: bool = False, of_shards: int = 1) -> None:
        self.now = 0
        self.of_shards = of_shards
        self.lifo = lifo
        self.share: float | None = None  # of max_pages, for the next lease; None: it has all of it
        self.state = State.RUNNING
        self.options = options
        self.pages: dict[str, Page] = {}
        self.hosts: dict[str, Host] = {}
        self.items: list[tuple[str, int, Any]] = []  # fingerprint, index, item
        self.counts: Counter[str] = Counter()
        self.tickets = 0
        self.touched: list[str] = []  # hosts to be looked at again when the verb is over
        self.keeps_depths = options.limits.max_depth is not None
        self.depths: dict[str, int] = {}  # the least; not of pages that came as seeds
        self.outlinks: dict[
            str, tuple[int, list[Offer]]
        ] = {}  # of done pages, and their depth then
        self.reopenable: dict[str, int] = {}  # above which limit a page offers its links again

    # --- the verbs --------------------------------------------------------------------------------

    def add(self, offers: Sequence[Offer], *, links: bool = False) -> list[Added]:
        room = UNLIMITED if links else self.room()
        answers = []
        for offer in offers:
            answers.append(self.accept(offer, has_room=room > 0, is_found=links))
            room -= answers[-1] == Added.NEW
        self.settle_touched()
        return answers

    def lease(self, limit: int, *, ttl_ms: int, holders: Iterable[int]) -> list[Page]:
        """Best priority first, then the least recently served host, then the first to arrive."""
        self.take_back_expired(limit)
        if not self.is_handing_out():
            self.settle_touched()
            return []
        self.wake(limit)
        wanted = int(max(0, min(limit, self.pages_left())))
        best = sorted(self.standing("due"), key=self.rank)[:wanted]
        for host in best:
            self.settle(host)  # the clock may have been set back since it became due
        taken: list[Page] = []
        for holder in list(holders)[:wanted]:
            due = [host for host in best if host.place == "due"]
            if not due:
                break
            first = min(due, key=self.rank)
            losses = self.line_of(first)[0].losses
            suspect = 0 < losses >= self.options.retries.max_losses - 1  # its last chance: alone
            if suspect and taken:
                break
            taken.append(self.take_from(first))
            taken[-1].holder, taken[-1].expires_at = holder, self.now + ttl_ms
            if suspect:
                break
        return taken

    def again_in_ms(self) -> int | None:
        """When a host opens, a retry is due or a lease runs out, whichever is first."""
        moments = [page.expires_at for page in self.in_state("leased")]
        if self.is_handing_out():
            moments += [self.opens_at(host) for host in self.standing("wait")]
            moments += [page.due_at for page in self.in_state("delayed")]
        return max(0, min(moments) - self.now) if moments else None

    def extend(self, claims: Sequence[Claim], *, ttl_ms: int) -> list[Ended]:
        answers = []
        for claim, held in self.check(claims):
            if held:
                self.pages[claim.fp].expires_at = self.now + ttl_ms
            answers.append(Ended.EXTENDED if held else Ended.LOST)
        return answers

    def complete(self, claims: Sequence[Claim]) -> list[Ended]:
        answers = []
        for claim, held in self.check(claims):
            if held:
                page = self.end_lease(claim)
                page.state = "done"
                page.failures = page.losses = 0
                self.hosts[page.host].pages += 1
                for link in claim.links:
                    self.accept(link, is_found=True)
                if claim.outlinks:
                    self.keep_outlinks(claim)
                self.items += [(claim.fp, i, item) for i, item in enumerate(claim.items)]
            answers.append(Ended.DONE if held else Ended.LOST)
        self.settle_touched()
        return answers

    def retry(self, claims: Sequence[Claim]) -> list[Ended]:
        answers = [self.fail(claim) if held else Ended.LOST for claim, held in self.check(claims)]
        self.settle_touched()
        return answers

    def bury(self, claims: Sequence[Claim]) -> list[Ended]:
        answers = []
        for claim, held in self.check(claims):
            if held:
                page = self.end_lease(claim)
                page.failures += 1
                self.give_up(page)
            answers.append(Ended.BURIED if held else Ended.LOST)
        self.settle_touched()
        return answers

    def release(self, claims: Sequence[Claim]) -> list[Ended]:
        answers = []
        for claim, held in self.check(claims):
            if held:
                page = self.end_lease(claim)
                if claim.after_ms:
                    page.state, page.due_at = "delayed", self.now + claim.after_ms
                else:
                    self.stand_in_line(page)
            answers.append(Ended.RELEASED if held else Ended.LOST)
        self.settle_touched()
        return answers

    def reap(self, at_most: int) -> int:
        taken = self.take_back_expired(at_most)
        self.settle_touched()
        return taken

    def revive(self, fps: Sequence[str]) -> int:
        revived = 0
        for fp in fps:
            page = self.pages.get(fp)
            if page and page.state == "dead":
                page.failures = page.losses = 0
                page.priority = page.came_with
                self.stand_in_line(page)
                revived += 1
        self.settle_touched()
        return revived

    def drop(self, fps: Sequence[str], *, forget: bool) -> int:
        dropped = 0
        for fp in fps:
            page = self.pages.get(fp)
            if page and page.state == "dead":
                page.state = "dropped"
                if forget:
                    del self.pages[fp]
                    self.depths.pop(fp, None)
                dropped += 1
        return dropped

    def configure(self, options: JobOptions) -> None:
        self.options = options
        self.keeps_depths = self.keeps_depths or options.limits.max_depth is not None
        for host in self.hosts.values():
            self.settle(host)

    def set_host(self, name: str, option: str, value: int | None) -> None:
        host = self.meet(name)
        if option == "blocked_for_ms":
            host.blocked_until = 0 if value is None else self.now + value
        elif value is None:
            host.own.pop(option, None)
        else:
            host.own[option] = value
        self.settle(host)

    def stats(self) -> dict[str, int]:
        states = Counter(page.state for page in self.pages.values())
        return {
            **{name: states[name] for name in ("pending", "delayed", "leased", "done", "dead")},
            **{name: self.counts[name] for name in ("duplicates", "refused", "retried")},
            **{name: self.counts[name] for name in ("lost", "late")},
            "dropped": states["dropped"],
            "rejected": 0,
            "seen": len(self.pages),
            "shelved": self.shelved(),
            "items": len(self.items),
            "hosts": len(self.hosts),
            "reopened": len(self.to_reopen()),
        }

    # --- what they are made of --------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        return self.state in (State.RUNNING, State.PAUSED)

    def is_handing_out(self) -> bool:
        return self.state in (State.RUNNING, State.DRAINING) and not self.is_held_back()

    def opens_at(self, host: Host) -> int:
        rested = 0 if host.asked_at is None else host.asked_at + self.gap_ms(host)
        return max(rested, host.blocked_until)

    def is_held_back(self) -> bool:
        """Loaders do not keep up: nothing is handed out until they do."""
        limit = self.options.limits.max_items
        return limit is not None and len(self.items) >= self.part_of(limit)

    @property
    def max_pages(self) -> float:
        limit = self.options.limits.max_pages
        return UNLIMITED if limit is None else limit

    def pages_left(self) -> float:
        return (self.max_pages if self.share is None else self.share) - self.used()

    def used(self) -> int:
        return len(self.in_state("done")) + len(self.in_state("leased"))

    def in_state(self, state: str) -> list[Page]:
        return [page for page in self.pages.values() if page.state == state]

    def standing(self, place: str) -> list[Host]:
        return [host for host in self.hosts.values() if host.place == place]

    def rank(self, host: Host) -> tuple[int, int]:
        return -self.line_of(host)[0].priority, host.turn

    def take_from(self, host: Host) -> Page:
        page = self.line_of(host)[0]
        page.state = "leased"
        host.in_flight += 1
        host.asked_at = self.now
        host.turn = self.draw_ticket()
        self.settle(host)
        return page

    def room(self) -> float:
        """How many more may wait. What a spent host has pending will never be asked for."""
        limit = self.options.limits.max_pending
        return UNLIMITED if limit is None else self.part_of(limit) - self.left()

    def part_of(self, limit: int) -> int:
        """What may wait is shared out evenly among all shards."""
        return math.ceil(limit / self.of_shards)

    def left(self) -> int:
        return len(self.in_state("pending")) - self.shelved() + len(self.in_state("delayed"))

    def shelved(self) -> int:
        return sum(self.is_spent(page.host) for page in self.in_state("pending"))

    def line_of(self, host: Host) -> list[Page]:
        """What a host has pending, the next one first."""
        pages = [page for page in self.in_state("pending") if page.host == host.name]
        first = -1 if self.lifo else 1
        return sorted(pages, key=lambda page: (-page.priority, first * page.arrival))

    def has_work(self, host: Host) -> bool:
        return any(page.host == host.name for page in self.in_state("pending"))

    def draw_ticket(self) -> int:
        self.tickets += 1
        return self.tickets

    def meet(self, name: str) -> Host:
        return self.hosts.setdefault(name, Host(name))

    def accept(self, offer: Offer, *, has_room: bool = True, is_found: bool = False) -> Added:
        if not self.is_open and not (is_found and self.state == State.CANCELLED):
            self.counts["refused"] += 1
            self.counts["drain"] += offer.fp not in self.pages
            return Added.CLOSED
        if offer.depth > self.max_depth:
            self.counts["refused"] += 1
            return Added.DEEP
        if not has_room and offer.fp not in self.pages:
            return Added.FULL
        if offer.fp in self.pages:
            self.counts["duplicates"] += 1
            self.find_again(offer)
            return Added.SEEN
        page = Page(offer.fp, offer.host, offer.priority, offer.request, offer.priority)
        self.pages[offer.fp] = page
        if self.keeps_depths and offer.depth:
            self.depths[offer.fp] = offer.depth
        self.stand_in_line(page)
        return Added.NEW

    # How deep a page is: by the shortest way, whenever that is found

    @property
    def max_depth(self) -> float:
        limit = self.options.limits.max_depth
        return UNLIMITED if limit is None else limit

    def depth_of(self, page: Page) -> int:
        return min(page.request.depth, self.depths.get(page.fp, page.request.depth))

    def find_again(self, offer: Offer) -> None:
        if self.keeps_depths and offer.depth < self.depths.get(offer.fp, 0):
            self.depths[offer.fp] = offer.depth
            if offer.fp in self.outlinks:
                self.reopenable[offer.fp] = offer.depth

    def keep_outlinks(self, claim: Claim) -> None:
        deepest = max(link.depth for link in claim.outlinks)
        is_cut = claim.is_cut or max(deepest, claim.depth) > self.max_depth
        if claim.depth == 0 and not is_cut:
            return
        if claim.depth:
            self.depths.setdefault(claim.fp, claim.depth)
        self.outlinks[claim.fp] = claim.depth, claim.outlinks
        least = self.depths.get(claim.fp, 0)
        if is_cut or least < claim.depth:
            self.reopenable[claim.fp] = least

    def to_reopen(self) -> list[str]:
        """Pages whose links are to be offered again, the least deep first."""
        due = [
            fp for fp, score in self.reopenable.items() if self.is_open and score < self.max_depth
        ]
        return sorted(due, key=lambda fp: (self.reopenable[fp], fp))

    def edge_in_reply(self) -> int:
        """What a lease tells of them."""
        return len(self.to_reopen()) if self.is_handing_out() else 0

    def links_of(self, fp: str) -> list[Offer]:
        """As deep as they are now."""
        before, links = self.outlinks[fp]
        lower = before - self.depths.get(fp, 0)
        found = []
        for link in links:
            depth = max(0, link.depth - lower)
            request = msgspec.structs.replace(link.request, depth=depth)
            found.append(Offer(link.fp, link.host, link.priority, depth, request))
        return found

    def stand_in_line(self, page: Page) -> None:
        host = self.meet(page.host)
        others = [one.priority for one in self.line_of(host) if one is not page]
        best = max(others, default=-UNLIMITED)
        page.state, page.arrival = "pending", self.draw_ticket()
        host.turn = host.turn or page.arrival
        if host.place == "nowhere" or page.priority > best:
            self.touched.append(page.host)  # otherwise the host keeps its place in its line

    def check(self, claims: Sequence[Claim]) -> list[tuple[Claim, bool]]:
        """Which claims name the current lease. Of the same lease twice, the first counts."""
        verdicts, taken = [], []
        for claim in claims:
            page = self.pages.get(claim.fp)
            current = page is not None and page.state == "leased" and page.holder == claim.holder
            held = current and claim.fp not in taken
            if held:
                taken.append(claim.fp)
            else:
                self.counts["late"] += 1
            verdicts.append((claim, held))
        return verdicts

    def end_lease(self, claim: Claim) -> Page:
        page = self.pages[claim.fp]
        host = self.hosts[page.host]
        host.in_flight -= 1
        if claim.block_ms:
            host.blocked_until = max(host.blocked_until, self.now + claim.block_ms)
        if claim.block_ms or host.place == "nowhere":
            self.touched.append(page.host)
        return page

    def fail(self, claim: Claim) -> Ended:
        page = self.end_lease(claim)
        page.failures += 1
        if page.failures > self.options.retries.max_retries:
            self.give_up(page)
            return Ended.BURIED
        page.priority = max(LOWEST_PRIORITY, page.priority - 1)
        page.state, page.due_at = "delayed", self.now + claim.after_ms
        self.counts["retried"] += 1
        return Ended.RETRIED

    def give_up(self, page: Page) -> None:
        page.state, page.died_at = "dead", self.now

    def take_back_expired(self, at_most: int) -> int:
        """Those that ran out first come first; of the same moment, by fingerprint."""
        expired = [page for page in self.in_state("leased") if page.expires_at <= self.now]
        expired.sort(key=lambda page: (page.expires_at, page.fp))
        for page in expired[:at_most]:
            host = self.hosts[page.host]
            host.in_flight -= 1
            host.asked_at = max(host.asked_at or 0, self.now)  # it may have left just now
            self.touched.append(page.host)
            page.losses += 1
            self.counts["lost"] += 1
            if page.losses >= self.options.retries.max_losses:
                self.give_up(page)
            else:
                self.stand_in_line(page)
        return len(expired[:at_most])

    def ready(self) -> list[Page]:
        return [page for page in self.in_state("delayed") if page.due_at <= self.now]

    def wake(self, limit: int) -> None:
        """What waited for a moment that has come, as much as a lease of that size may look at."""
        ready = sorted(self.ready(), key=lambda page: (page.due_at, page.fp))
        for page in ready[: max(50, limit)]:
            self.stand_in_line(page)
        opened = [host for host in self.standing("wait") if self.opens_at(host) <= self.now]
        opened.sort(key=lambda host: (self.opens_at(host), host.name))
        self.touched += [host.name for host in opened[: 2 * max(50, limit)]]
        self.settle_touched()

    def settle_touched(self) -> None:
        for name in set(self.touched):
            self.settle(self.hosts[name])
        self.touched = []

    def settle(self, host: Host) -> None:
        if not self.has_work(host) or not self.has_capacity(host):
            host.place = "nowhere"
        elif self.opens_at(host) > self.now:
            host.place = "wait"
        else:
            host.place = "due"

    def has_capacity(self, host: Host) -> bool:
        at_once = host.own.get("max_in_flight", self.options.politeness.max_in_flight)
        return host.in_flight < at_once and host.pages + host.in_flight < self.budget(host)

    def is_spent(self, name: str) -> bool:
        host = self.hosts[name]
        return host.pages >= self.budget(host)

    def budget(self, host: Host) -> float:
        of_job = self.options.limits.max_pages_per_host
        return host.own.get("max_pages", UNLIMITED if of_job is None else of_job)

    def gap_ms(self, host: Host) -> int:
        delay_ms = host.own.get("delay_ms", round(self.options.politeness.delay_s * 1000))
        at_once = host.own.get("max_in_flight", self.options.politeness.max_in_flight)
        return gap_ms(delay_ms, at_once)


def gap_ms(delay_ms: int, at_once: float) -> int:
    """From one turn of a host to the next. Where several requests may be under way, one may leave a
    little after its turn, and the next must not come too close to it."""
    slack_ms = 0 if at_once == 1 else max(1, min(10, delay_ms // 20))
    return delay_ms + slack_ms if delay_ms else 0


class Model:
    """A job: its shards, each with the hosts that belong there."""

    def __init__(self, options: JobOptions, *, shards: int, lifo: bool = False) -> None:
        self.shards = [Shard(options, lifo=lifo, of_shards=shards) for _ in range(shards)]
        self.leases_given = 0
        self.ceiling = self.shards[0].max_pages  # what is done or leased is never more than this

    def shard(self, host: str) -> Shard:
        return self.shards[shard_of(registrable_domain(host), len(self.shards))]

    def page(self, fp: str) -> Page | None:
        for shard in self.shards:
            if fp in shard.pages:
                return shard.pages[fp]
        return None

    def in_state(self, state: str) -> list[Page]:
        return [page for page in self.pages() if page.state == state]

    def pages(self) -> list[Page]:
        return [page for shard in self.shards for page in shard.pages.values()]

    def dead(self) -> list[Page]:
        """Shard by shard, the oldest first."""
        order = [
            sorted(shard.in_state("dead"), key=lambda page: (page.died_at, page.fp))
            for shard in self.shards
        ]
        return [page for pages in order for page in pages]

    def hosts(self) -> list[Host]:
        return [host for shard in self.shards for host in shard.hosts.values()]

    def tell_time(self, now_ms: int) -> None:
        for shard in self.shards:
            shard.now = now_ms

    def set_state(self, state: State) -> None:
        for shard in self.shards:
            shard.state = state

    def configure(self, options: JobOptions) -> None:
        for shard in self.shards:
            shard.configure(options)
        # A limit that comes too late does not undo what was done, nor take away what is leased.
        self.ceiling = max(self.shards[0].max_pages, self.used())

    def add(self, offers: Sequence[Offer], *, links: bool = False) -> list[Added]:
        """One call per shard and BATCH; answers in the offers' order."""
        answers: dict[int, Added] = {}
        for shard in self.shards:
            mine = [i for i, offer in enumerate(offers) if self.shard(offer.host) is shard]
            for first in range(0, len(mine), BATCH):
                part = mine[first : first + BATCH]
                codes = shard.add([offers[i] for i in part], links=links)
                answers |= dict(zip(part, codes, strict=True))
        return [answers[i] for i in range(len(offers))]

    def lease(self, limit: int, *, first_shard: int, ttl_ms: int) -> tuple[list[Page], list[int]]:
        """What is handed out, and by which shards: each for its share or, if there are more shards
        than pages wanted, one after the other."""
        count = len(self.shards)
        order = [(first_shard + i) % count for i in range(count)]
        pages: list[Page] = []
        asked = []
        for i, number in enumerate(order):
            share = limit // count + (i < limit % count) if limit >= count else limit - len(pages)
            if not share:
                break
            asked.append(number)
            first = self.leases_given + 1
            taken = self.shards[number].lease(
                share, ttl_ms=ttl_ms, holders=range(first, first + share)
            )
            self.leases_given += len(taken)
            pages += taken
        return pages, asked

    @property
    def is_shared(self) -> bool:
        """Whether several shards have one max_pages together."""
        return len(self.shards) > 1 and self.shards[0].max_pages < UNLIMITED

    def used(self) -> int:
        return sum(shard.used() for shard in self.shards)

    def lease_share(self, number: int, limit: int, *, share: int | None, ttl_ms: int) -> list[Page]:
        """One shard of a limit that is shared: how much of it the shard has is the frontier's
        choice; what it hands out is not."""
        first = self.leases_given + 1
        shard = self.shards[number]
        shard.share = share
        taken = shard.lease(limit, ttl_ms=ttl_ms, holders=range(first, first + limit))
        shard.share = None
        self.leases_given += len(taken)
        return taken

    def reopen(self, number: int) -> None:
        """Pages of a shard offer their links again. One with links beyond the limit waits on."""
        shard = self.shards[number]
        pages = [(fp, shard.links_of(fp)) for fp in shard.to_reopen()[:PAGES_AT_ONCE]]
        depths = {fp: shard.depths.get(fp, 0) for fp, _ in pages}
        answers = iter(self.add([link for _, links in pages for link in links], links=True))
        for fp, links in pages:
            said = [(link.depth, next(answers)) for link in links]
            refused = [depth - 1 for depth, answer in said if answer is Added.DEEP]
            if shard.depths.get(fp, 0) == depths[fp]:
                del shard.reopenable[fp]
                if refused:
                    shard.reopenable[fp] = min(refused)

    def has_edge(self) -> bool:
        return any(shard.to_reopen() for shard in self.shards)

    def has_early_hosts(self) -> bool:
        """Whether a shard seems to have something to hand out, and keeps a page for that: a host
        stands in line before its time, as the clock was set back since, or a retry is due before
        its host is."""
        due = [(shard, host) for shard in self.shards for host in shard.standing("due")]
        due += [(one, one.hosts[page.host]) for one in self.shards for page in one.ready()]
        return any(shard.opens_at(host) > shard.now for shard, host in due)

    def could_hand_out(self) -> bool:
        """Whether a lease must bring something."""
        ready = any(one.is_handing_out() and one.standing("due") for one in self.shards)
        return ready and self.used() < self.shards[0].max_pages

    def again_in_s(self, asked: Sequence[int]) -> float | None:
        waits = [self.shards[number].again_in_ms() for number in asked]
        known = [wait for wait in waits if wait is not None]
        return min(known) / 1000 if known else None

    def end(self, verb: str, claims: Sequence[Claim], **values: int) -> list[Ended]:
        """extend, complete, retry, bury or release, shard by shard; answers in the claims' order.

        Links to other shards are added first; those of the page's own shard are part of its end.
        """
        homes = [self.shard(claim.host) for claim in claims]
        for claim, home in zip(claims, homes, strict=True):
            away = [link for link in claim.links if self.shard(link.host) is not home]
            claim.links = [link for link in claim.links if self.shard(link.host) is home]
            claim.is_cut = Added.DEEP in self.add(away, links=True)
            claim.outlinks = [*away, *claim.links] if claim.outlinks else []
        answers: dict[int, Ended] = {}
        for shard in self.shards:
            mine = [i for i, home in enumerate(homes) if home is shard]
            ended = getattr(shard, verb)([claims[i] for i in mine], **values)
            answers |= dict(zip(mine, ended, strict=True))
        return [answers[i] for i in range(len(claims))]

    def revive(self, pages: Sequence[Page]) -> int:
        return sum(self.shard(page.host).revive([page.fp]) for page in pages)

    def drop(self, pages: Sequence[Page], *, forget: bool) -> int:
        return sum(self.shard(page.host).drop([page.fp], forget=forget) for page in pages)

    def reap(self, at_most: int) -> int:
        return sum(shard.reap(at_most) for shard in self.shards)

    def stats(self) -> dict[str, int]:
        total: Counter[str] = Counter()
        for shard in self.shards:
            total.update(shard.stats())
        return dict(total)

    def kept_out(self) -> dict[str, int]:
        drained = sum(shard.counts["drain"] for shard in self.shards)
        return {"drain": drained} if drained else {}

    def is_crawled(self) -> bool:
        spent = len(self.in_state("done")) >= self.shards[0].max_pages
        over = spent or self.shards[0].state == State.CANCELLED
        left = sum(shard.left() + len(shard.to_reopen()) for shard in self.shards)
        idle = not self.in_state("leased") and (over or left == 0)
        return idle and self.stats()["seen"] > 0
