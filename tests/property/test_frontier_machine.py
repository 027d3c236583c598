"""Programs that nobody would write by hand, on a real server, against a plain model.

Hypothesis makes up sequences of calls; after each one the server's answer, its statistics and its
raw keys must be what `property.model` says, and fit together (`property.structure`). A failure is
printed as the shortest program that shows it.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec
import pytest
import redis
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from conftest import ManualClock
from property.model import Claim, Model, Offer, Page
from property.structure import find_problems, take_pictures
from skitter.embedded import start, stop
from skitter.errors import InfrastructureError
from skitter.frontier.control import configure, set_host, set_state
from skitter.frontier.dead import dead_letters, drop, revive
from skitter.frontier.frontier import REOPEN_S, Frontier
from skitter.frontier.items import read_items, remove_items
from skitter.frontier.jobs import create_job, list_jobs, open_job, purge_job
from skitter.frontier.transport.connection import connect
from skitter.frontier.transport.shard import Shard
from skitter.model import (
    Completion,
    DeadLetter,
    Ended,
    Failure,
    Feedback,
    Lease,
    Leased,
    Request,
    Result,
    State,
    Stats,
)
from skitter.settings import JobOptions, Layout, Limits, Politeness, Retries
from skitter.urls import fingerprint, identify
from waiting import while_there_is_time

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from pathlib import Path

T = TypeVar("T")

HOSTS = ("a.test", "b.test", "c.test", "d.test", "e.test:8080", "f.test")
BASE_S, CAP_S = 2.0, 30.0
TOLERANCE_MS = 5000  # of lib/steady.lua
WHOLE_SITE = 620  # more than one batch of `add`, and enough to split the set of seen URLs
_job_numbers = count(1)

# --- what programs are made of --------------------------------------------------------------------

clients = st.integers(0, 1)
hosts = st.sampled_from(HOSTS)
some = st.integers(0, 7)  # which of the leases or dead letters, counted round and round
ttls_s = st.sampled_from([10.0, 1.0, 300.0])
rests_s = st.sampled_from([0.0, 2.0, 90.0])

urls = st.builds(
    "https://{}/{}{}".format,
    hosts,
    st.integers(0, 9),
    st.sampled_from(["", "", "", "#top", "?utm_source=x"]),  # other spellings of the same page
)
requests = st.builds(
    Request,
    url=urls,
    priority=st.sampled_from([0, 0, 1, -1, 5, 1000, -1000]),
    depth=st.sampled_from([0, 0, 1, 2, 3]),
)
batches = st.lists(requests, min_size=1, max_size=6)

options = st.builds(
    JobOptions,
    politeness=st.builds(
        Politeness,
        delay_s=st.sampled_from([0.0, 1.0, 5.0]),
        max_in_flight=st.sampled_from([1000, 2, 1]),
    ),
    retries=st.builds(
        Retries,
        max_retries=st.sampled_from([3, 1, 0]),
        max_losses=st.sampled_from([3, 2, 1]),
        base_s=st.just(BASE_S),
        cap_s=st.just(CAP_S),
    ),
    limits=st.builds(
        Limits,
        max_pages=st.sampled_from([None, None, None, 2, 8]),
        max_pages_per_host=st.sampled_from([None, None, None, 1, 3]),
        max_depth=st.sampled_from([None, None, 2, 1, 0]),
        max_pending=st.sampled_from([None, None, 2, 10]),
        max_items=st.sampled_from([None, None, None, 1, 3]),
    ),
)
values_of_a_host = st.one_of(
    st.tuples(st.just("delay_s"), st.sampled_from([None, 0.0, 3.0])),
    st.tuples(st.just("max_in_flight"), st.sampled_from([None, 1, 3])),
    st.tuples(st.just("max_pages"), st.sampled_from([None, 1, 4])),
    st.tuples(st.just("blocked_for_s"), st.sampled_from([None, 1.0, 120.0])),
)


def home_of(host: str, shards: int) -> int:
    return Layout(shards=shards, domains_together=True).shard_of(host)


@dataclass
class Ending:
    """How one lease ends: which one it is, and what the worker has to say."""

    which: int
    after_s: float | None = 0.0
    block_s: float = 0.0
    links: list[Request] = field(default_factory=list)
    items: list[int] = field(default_factory=list)

    @property
    def feedback(self) -> Feedback:
        return Feedback(rest_ms=milliseconds(self.block_s))


completions = st.lists(
    st.builds(
        Ending,
        some,
        block_s=rests_s,
        links=st.lists(requests, max_size=3),
        items=st.lists(st.integers(0, 9), max_size=2),
    ),
    min_size=1,
    max_size=4,
)
failures = st.lists(
    st.builds(Ending, some, st.sampled_from([0.0, 1.0, 30.0, None]), rests_s),
    min_size=1,
    max_size=4,
)
picks = st.lists(some, min_size=1, max_size=4)


@dataclass
class Held:
    """A lease that was handed out, and the number by which the model knows it."""

    lease: Lease
    holder: int


@dataclass
class Numbers:
    """A client's numbers for its calls, which can be turned back."""

    last: int = 0

    def __iter__(self) -> Numbers:
        return self

    def __next__(self) -> int:
        self.last += 1
        return self.last


class Witness(Shard):
    """Remembers what it was asked for with `lease`, and its share of max_pages at that moment; and
    that it opened pages again. All shards of a client write one log, for the order of things."""

    def __init__(self, other: Shard, log: list[tuple[int, int, int]]) -> None:
        super().__init__(other.server, other.keys, other.client, other.clock)
        self._numbers = Numbers()
        self.asked = log  # shard, limit (0: pages were opened again), share

    async def call(self, verb: str, each: Any = (), *, strict: bool = False, **values: Any) -> Any:
        if verb == "lease":
            stats = self.keys.key("stats")
            granted, ceded = await self.server.command("HMGET", stats, "granted", "ceded")
            share = int(granted or 0) - int(ceded or 0)
            self.asked.append((self.keys.shard, values["limit"], share))
        elif verb == "reopen":
            self.asked.append((self.keys.shard, 0, 0))
        return await super().call(verb, each, strict=strict, **values)


@dataclass
class Call:
    """A call as it was made, so that it can be made again."""

    client: Frontier
    action: Callable[[Frontier], Awaitable[Any]]
    numbers: list[int]
    chance: Any
    answer: Any
    given: list[Held] = field(default_factory=list)  # what a lease handed out


def understand(request: Request) -> Offer:
    """What the frontier is to make of a request."""
    target = identify(request.url)
    return Offer(
        fp=fingerprint(target.canonical),
        host=target.host,
        priority=request.priority,
        depth=request.depth,
        request=msgspec.structs.replace(request, url=target.url, priority=0),
    )


def foresee(how_many: int) -> list[float]:
    """The next chances that `random` will give."""
    state = random.getstate()
    chances = [random.random() for _ in range(how_many)]
    random.setstate(state)
    return chances


def milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


# --- the machine ----------------------------------------------------------------------------------


class FrontierMachine(RuleBasedStateMachine):
    """Two clients of one job, its operator, and time."""

    def __init__(self, url: str, *, shards: int, order: Literal["fifo", "lifo"] = "fifo") -> None:
        super().__init__()
        self.url, self.shards, self.order = f"{url}?socket_connect_timeout=600", shards, order
        self.job = f"machine-{next(_job_numbers)}"
        self.clock = ManualClock()
        self.latest = self.clock()
        self.raw = redis.Redis.from_url(url)
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.clients: list[Frontier] = []
        self.calls: dict[tuple[int, str], Call] = {}  # by client and verb, the last of each
        self.given: list[Held] = []
        self.letters: list[DeadLetter] = []
        #: By client and shard, how many pages were to be opened again when it leased last.
        self.edges: list[dict[int, int]] = [{}, {}]

    @initialize(
        chosen=options,
        size=st.sampled_from([0] * 11 + [WHOLE_SITE]),
        seeds=st.lists(requests, max_size=8),
        limit=st.integers(0, 5),
    )
    def a_job_is_created(
        self, chosen: JobOptions, size: int, seeds: list[Request], limit: int
    ) -> None:
        self.model = Model(chosen, shards=self.shards, lifo=self.order == "lifo")
        self.model.tell_time(self.clock())
        self.run(self.open_clients(chosen))
        if size:
            site = [Request(url=f"https://{HOSTS[0]}/all/{n}") for n in range(size)]
            self.somebody_adds(0, site, links=True)
            self.calls.clear()  # two calls of one verb: only the second could be repeated
        if seeds:
            self.somebody_adds(0, seeds, links=True)
        if limit:
            self.a_worker_leases(0, limit, ttl_s=10.0)

    async def open_clients(self, chosen: JobOptions) -> None:
        servers = [await self.stack.enter_async_context(connect(self.url)) for _ in range(2)]
        layout = Layout(shards=self.shards, order=self.order)
        self.clients = [
            await create_job(servers[0], self.job, options=chosen, layout=layout, clock=self.clock),
            await open_job(servers[1], self.job, clock=self.clock),
        ]
        for client in self.clients:
            log: list[tuple[int, int, int]] = []
            client.shards = [Witness(shard, log) for shard in client.shards]

    # Workers

    @rule(who=clients, batch=batches, links=st.booleans())
    def somebody_adds(self, who: int, batch: list[Request], links: bool) -> None:
        expected = self.model.add([understand(request) for request in batch], links=links)
        assert self.do(who, "add", lambda frontier: frontier.add(batch, links=links)) == expected

    @rule(who=clients, limit=st.integers(1, 5), ttl_s=ttls_s)
    def a_worker_leases(self, who: int, limit: int, ttl_s: float) -> None:
        if self.model.is_shared or self.model.has_edge() or any(self.edges[who].values()):
            self.a_worker_leases_step_by_step(who, limit, ttl_s)
            return
        first = int(foresee(1)[0] * self.shards)
        pages, asked = self.model.lease(limit, first_shard=first, ttl_ms=milliseconds(ttl_s))
        expected = [self.due_to_worker(page) for page in pages]
        answer = self.do(who, "lease", lambda frontier: frontier.lease(limit, ttl_s=ttl_s))
        assert [self.seen_by_worker(lease) for lease in answer.leases] == expected
        assert answer.again_in_s == self.model.again_in_s(asked)
        assert answer.state == self.model.shards[0].state
        given = [Held(lease, page.holder) for lease, page in zip(answer.leases, pages, strict=True)]
        assert not {self.proof(held) for held in given} & {self.proof(held) for held in self.given}
        self.given += given
        self.calls[who, "lease"].given = given
        if limit < self.shards:  # several calls, each of which is repeated alone, not all of them
            del self.calls[who, "lease"]

    def a_worker_leases_step_by_step(self, who: int, limit: int, ttl_s: float) -> None:
        """How the shards divide max_pages is their business, and which of them a client asked; the
        model follows them, and checks that the limit is kept, that the right pages come, that none
        is refused without need, and that pages offer their links again when they should."""
        # A shard keeps a page for a host that seems to be due; that it is not shows only then.
        excused = self.model.has_early_hosts()
        log = self.clients[who].shards[0].asked  # type: ignore[attr-defined]
        log.clear()
        had_edge = any(self.edges[who].values())
        answer = self.do(who, "lease", lambda frontier: frontier.lease(limit, ttl_s=ttl_s))
        assert had_edge == (log[0][1] == 0)
        waits: list[float] = []
        expected: list[tuple[int, tuple[Any, ...]]] = []  # holder, and what the worker gets
        reopening = False
        for number, asked, share in log:
            if not asked:
                self.model.reopen(number)
                reopening = True
                continue
            if reopening:
                waits, reopening = [], False  # it asks all over again
            pages = self.model.lease_share(
                number,
                asked,
                share=share if self.model.is_shared else None,
                ttl_ms=milliseconds(ttl_s),
            )
            expected += [(page.holder, self.due_to_worker(page)) for page in pages]
            again_in_s = self.model.again_in_s([number])
            waits += [] if again_in_s is None else [again_in_s]
            self.edges[who][number] = self.model.shards[number].edge_in_reply()
        # Shards answer side by side; what comes of each has its order.
        leases = sorted(answer.leases, key=lambda one: home_of(one.host, self.shards))
        expected.sort(key=lambda one: home_of(one[1][2], self.shards))
        assert [self.seen_by_worker(lease) for lease in leases] == [due for _, due in expected]
        pairs = zip(leases, expected, strict=True)
        given = [Held(lease, holder) for lease, (holder, _) in pairs]
        waits += [REOPEN_S for count in self.edges[who].values() if count]
        assert answer.again_in_s == min(waits, default=None)
        assert len(given) <= limit
        assert given or excused or not self.model.could_hand_out()
        self.given += given
        del self.calls[who, "lease"]  # several calls, each of which is repeated alone
        self.calls.pop((who, "add"), None)  # links may have been offered again since

    @rule(who=clients, limit=st.integers(1, 5))
    def another_worker_leases(self, who: int, limit: int) -> None:
        """Again, because most of what can happen happens to leases."""
        self.a_worker_leases(who, limit, ttl_s=10.0)

    @rule(who=clients, limit=st.integers(2, 5), at_most=st.sampled_from([1, 500]))
    def a_worker_vanishes_with_its_leases(self, who: int, limit: int, at_most: int) -> None:
        self.a_worker_leases(who, limit, ttl_s=1.0)
        self.time_passes(1.0)
        self.somebody_reaps(1 - who, at_most=at_most)

    @precondition(lambda self: self.current_leases())
    @rule(who=clients, which=picks, ttl_s=ttls_s)
    def a_worker_extends(self, who: int, which: list[int], ttl_s: float) -> None:
        chosen = [self.pick(one) for one in which]
        claims = [self.claim(held) for held in chosen]
        expected = self.model.end("extend", claims, ttl_ms=milliseconds(ttl_s))
        leases = [held.lease for held in chosen]
        assert (
            self.do(who, "extend", lambda frontier: frontier.extend(leases, ttl_s=ttl_s))
            == expected
        )

    @precondition(lambda self: self.current_leases())
    @rule(who=clients, endings=completions)
    def a_worker_completes(self, who: int, endings: list[Ending]) -> None:
        self.complete(who, [(self.pick(ending.which), ending) for ending in endings])

    @precondition(lambda self: self.old_leases())
    @rule(who=clients, ending=st.builds(Ending, some, links=batches, items=st.just([1])))
    def a_worker_completes_too_late(self, who: int, ending: Ending) -> None:
        old = self.old_leases()
        assert self.complete(who, [(old[ending.which % len(old)], ending)]) == [Ended.LOST]

    @precondition(lambda self: self.leased_twice())
    @rule(who=clients, verb=st.sampled_from(["complete", "extend", "release"]))
    def a_worker_ends_an_old_and_the_new_lease_of_a_page_at_once(self, who: int, verb: str) -> None:
        old, new = self.leased_twice()
        claims = [self.claim(old), self.claim(new)]
        leases = [old.lease, new.lease]
        if verb == "complete":
            both = [(old, Ending(0)), (new, Ending(0))]
            assert self.complete(who, both) == [Ended.LOST, Ended.DONE]
        elif verb == "extend":
            expected = self.model.end("extend", claims, ttl_ms=5000)
            assert (
                self.do(who, verb, lambda frontier: frontier.extend(leases, ttl_s=5.0)) == expected
            )
        else:
            expected = self.model.end("release", claims)
            assert self.do(who, verb, lambda frontier: frontier.release(leases)) == expected

    @precondition(lambda self: self.current_leases())
    @rule(who=clients, endings=failures)
    def a_worker_retries(self, who: int, endings: list[Ending]) -> None:
        chosen = [(self.pick(ending.which), ending) for ending in endings]
        chances = iter(foresee(len(endings)))
        claims = [
            self.claim(held, ending, after_s=self.backoff_s(held, ending, chances))
            for held, ending in chosen
        ]
        expected = self.model.end("retry", claims)
        failed = [self.failure(held, ending) for held, ending in chosen]
        assert self.do(who, "retry", lambda frontier: frontier.retry(failed)) == expected

    @precondition(lambda self: self.current_leases())
    @rule(who=clients, endings=failures)
    def a_worker_buries(self, who: int, endings: list[Ending]) -> None:
        chosen = [(self.pick(ending.which), ending) for ending in endings]
        expected = self.model.end("bury", [self.claim(*one) for one in chosen])
        failed = [self.failure(*one) for one in chosen]
        assert self.do(who, "bury", lambda frontier: frontier.bury(failed)) == expected

    @precondition(lambda self: self.current_leases())
    @rule(who=clients, which=picks, after_s=st.sampled_from([0.0, 0.0, 20.0]))
    def a_worker_releases(self, who: int, which: list[int], after_s: float) -> None:
        chosen = [self.pick(one) for one in which]
        expected = self.model.end("release", [self.claim(one, after_s=after_s) for one in chosen])
        leases = [held.lease for held in chosen]
        assert (
            self.do(who, "release", lambda frontier: frontier.release(leases, after_s=after_s))
            == expected
        )

    @rule(who=clients, at_most=st.sampled_from([1, 3, 500]))
    def somebody_reaps(self, who: int, at_most: int) -> None:
        expected = self.model.reap(at_most)
        assert self.do(who, "reap", lambda frontier: frontier.reap(at_most=at_most)) == expected

    @rule(how_many=st.integers(1, 5))
    def a_loader_takes_items(self, how_many: int) -> None:
        found = self.run(self.read_all_items())
        expected = [item for shard in self.model.shards for item in shard.items]
        assert [(one.fingerprint, one.index, one.item) for one in found] == expected
        taken = found[:how_many]
        assert self.run(remove_items(self.clients[0], taken)) == len(taken)
        for one in expected[:how_many]:
            next(shard for shard in self.model.shards if one in shard.items).items.remove(one)

    # Time

    @rule(seconds=st.sampled_from([0.001, 1.0, 5.0, 12.0, 301.0, 86_400.0, 40 * 86_400.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.latest = max(self.latest, self.clock())
        self.model.tell_time(self.clock())

    @rule(seconds=st.sampled_from([0.5, 3.0, 4.5]))
    def the_clock_of_the_server_is_set_back(self, seconds: float) -> None:
        """By less than the job's clock makes up for; `test_job_clock` has the model for more."""
        if self.latest - self.clock() + milliseconds(seconds) > TOLERANCE_MS:
            return
        self.clock.advance(-seconds)
        self.model.tell_time(self.clock())

    # The operator

    @precondition(lambda self: self.model.shards[0].state != State.RUNNING)
    @rule()
    def the_operator_resumes(self) -> None:
        self.the_operator_sets_the_state(State.RUNNING)

    @precondition(lambda self: self.model.shards[0].state != State.RUNNING)
    @rule()
    def the_operator_resumes_sooner(self) -> None:
        """Again: a job that stands still shows little."""
        self.the_operator_sets_the_state(State.RUNNING)

    @rule(state=st.sampled_from(State))
    def the_operator_sets_the_state(self, state: State) -> None:
        self.model.set_state(state)
        self.run(set_state(self.clients[0], state))

    @rule(who=clients, chosen=options)
    def the_operator_changes_the_limits(self, who: int, chosen: JobOptions) -> None:
        self.model.configure(chosen)
        self.run(configure(self.clients[who], chosen))
        if self.model.is_shared:  # a lease that is made again now would ask for a larger share
            self.calls = {key: call for key, call in self.calls.items() if key[1] != "lease"}

    @rule(host=hosts, value=values_of_a_host)
    def the_operator_gives_a_host_a_value_of_its_own(
        self, host: str, value: tuple[str, Any]
    ) -> None:
        name, setting = value
        option, amount = name, setting
        if name.endswith("_s"):
            option = name.removesuffix("_s") + "_ms"
            amount = None if setting is None else milliseconds(setting)
        self.model.shard(host).set_host(host, option, amount)
        own: Any = {name: setting}
        self.run(set_host(self.clients[0], host, **own))

    @precondition(lambda self: self.letters or self.model.dead())
    @rule(who=clients, which=picks)
    def the_operator_revives_dead_letters(self, who: int, which: list[int]) -> None:
        letters, pages = self.choose_letters(which)
        expected = self.model.revive(pages)
        assert self.do(who, "revive", lambda frontier: revive(frontier, letters)) == expected

    @precondition(lambda self: self.letters or self.model.dead())
    @rule(who=clients, which=picks, forget=st.booleans())
    def the_operator_drops_dead_letters(self, who: int, which: list[int], forget: bool) -> None:
        letters, pages = self.choose_letters(which)
        expected = self.model.drop(pages, forget=forget)
        answer = self.do(who, "drop", lambda frontier: drop(frontier, letters, forget=forget))
        assert answer == expected

    # Mishaps

    @precondition(lambda self: self.calls)
    @rule(which=st.integers(0, 9))
    def a_reply_is_lost_and_the_call_made_again(self, which: int) -> None:
        call = list(self.calls.values())[-1 - which % len(self.calls)]
        if call is self.calls.get((self.clients.index(call.client), "lease")) and (
            self.model.has_edge() or any(call.client._to_reopen.values())
        ):
            return  # it would open pages again first
        now = [shard._numbers.last for shard in call.client.shards]  # type: ignore[attr-defined]
        self.turn_back(call.client, call.numbers)
        later = random.getstate()
        random.setstate(call.chance)
        answer = self.run(self.awaited(call.action(call.client)))
        random.setstate(later)
        self.turn_back(call.client, now)
        if isinstance(answer, Leased):
            assert [self.proof_of(lease) for lease in answer.leases] == [
                self.proof(held) for held in call.given if self.is_current(held)
            ]
        else:
            assert answer == call.answer

    @rule(who=clients, request=requests)
    def a_call_that_was_overtaken_is_refused(self, who: int, request: Request) -> None:
        self.somebody_adds(who, [request], links=False)
        client = self.clients[who]
        now = [shard._numbers.last for shard in client.shards]  # type: ignore[attr-defined]
        self.turn_back(client, [number - 2 for number in now])
        with pytest.raises(InfrastructureError, match="STALE"):
            self.run(client.add([request]))
        self.turn_back(client, now)

    @rule()
    def the_scripts_are_flushed(self) -> None:
        self.raw.script_flush()

    # What holds after every step

    @precondition(lambda self: self.clients)
    @invariant()
    def the_statistics_are_those_of_the_model(self) -> None:
        stats = msgspec.structs.asdict(self.run(self.clients[0].stats()))
        assert stats == {
            # What is not of this machine stays as it is.
            **msgspec.structs.asdict(Stats(job=self.job, state=self.model.shards[0].state)),
            "crawled": self.model.is_crawled(),
            "finished": self.model.is_crawled() and not self.model.stats()["items"],
            **self.model.stats(),
            "kept_out": self.model.kept_out(),
        }
        over = ("pending", "delayed", "leased", "done", "dead", "dropped")
        assert stats["seen"] == sum(stats[name] for name in over)

    @precondition(lambda self: self.clients)
    @invariant()
    def the_keys_fit_together_and_hold_what_the_model_says(self) -> None:
        pictures = take_pictures(self.raw, self.job, shards=self.shards)
        for shard, picture in zip(self.model.shards, pictures, strict=True):
            assert find_problems(picture) == []
            kept = [page for page in shard.pages.values() if page.state not in ("done", "dropped")]
            troubled = [page for page in kept if page.failures or page.losses]
            assert picture.states() == {page.fp: page.state for page in kept}
            assert {fp: body.priority for fp, body in picture.task.items()} == {
                page.fp: page.priority for page in kept
            }
            assert picture.lease == {page.fp: page.expires_at for page in shard.in_state("leased")}
            assert picture.dead == {page.fp: page.died_at for page in shard.in_state("dead")}
            assert picture.delayed == {page.fp: page.due_at for page in shard.in_state("delayed")}
            assert {
                fp: (entry["failures"], entry["losses"]) for fp, entry in picture.trouble.items()
            } == {page.fp: (page.failures, page.losses) for page in troubled}
            assert sorted(fp for bucket in picture.seen.values() for fp in bucket) == sorted(
                shard.pages
            )
            assert picture.items == shard.items
            assert (picture.depths, picture.edge) == (shard.depths, shard.reopenable)
            assert {fp: (depth, len(links)) for fp, (depth, links) in picture.outlinks.items()} == {
                fp: (depth, len(links)) for fp, (depth, links) in shard.outlinks.items()
            }
            if self.model.is_shared:
                assert picture.share() >= shard.used()
            assert self.hosts_in(picture) == {
                name: (host.place, host.in_flight, host.pages, host.asked_at, host.blocked_until)
                for name, host in shard.hosts.items()
            }

    @precondition(lambda self: self.clients and self.model.is_shared)
    @invariant()
    def the_shares_of_all_shards_are_never_more_than_the_limit(self) -> None:
        pictures = take_pictures(self.raw, self.job, shards=self.shards)
        assert self.model.used() <= self.model.ceiling
        assert sum(picture.share() for picture in pictures) <= self.model.ceiling
        pot = pictures[0].pot
        for number, picture in enumerate(pictures):
            assert pot.get(f"ceded:{number}", 0) <= picture.stats.get("ceded", 0)

    # The end

    def teardown(self) -> None:
        """Nothing is lost: with the limits lifted, every page comes to an end."""
        failed = sys.exc_info()[0] is not None
        try:
            if self.clients and not failed:
                self.bring_to_an_end()
                assert self.run(self.purged()) == []
        finally:
            self.forget_the_job()
            self.run(self.stack.aclose())
            self.raw.close()
            self.runner.close()

    def bring_to_an_end(self) -> None:
        polite = Politeness(delay_s=0, max_in_flight=1000)
        self.the_operator_sets_the_state(State.RUNNING)
        self.the_operator_changes_the_limits(0, JobOptions(politeness=polite))
        for host in self.model.hosts():
            for option in ("delay_s", "max_in_flight", "max_pages"):
                self.the_operator_gives_a_host_a_value_of_its_own(host.name, (option, None))
        for _ in range(200):
            given = len(self.given)
            self.a_worker_leases(0, limit=60, ttl_s=10.0)
            if len(self.given) > given:
                self.complete(0, [(held, Ending(0)) for held in self.given[given:]])
            elif self.model.is_crawled() or not self.model.stats()["seen"]:
                break
            else:
                again_in_s = self.model.again_in_s(range(self.shards))
                assert again_in_s is not None
                self.time_passes(again_in_s)
        self.the_statistics_are_those_of_the_model()
        self.the_keys_fit_together_and_hold_what_the_model_says()
        assert {page.state for page in self.model.pages()} <= {"done", "dead", "dropped"}

    async def purged(self) -> list[str]:
        """What a purge leaves behind."""
        await purge_job(self.clients[1])
        jobs = await list_jobs(self.clients[0].server)
        return [*self.keys_of_the_job(), *(name for name in jobs if name == self.job)]

    def keys_of_the_job(self) -> list[str]:
        found: Any = self.raw.keys(f"skitter:{{{self.job}:*}}:*")
        return [key.decode() for key in found]

    def forget_the_job(self) -> None:
        if left := self.keys_of_the_job():
            self.raw.unlink(*left)
        self.raw.hdel("skitter:jobs", self.job)

    # Helpers

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    async def awaited(self, work: Awaitable[T]) -> T:
        return await work

    def do(self, who: int, verb: str, action: Callable[[Frontier], Awaitable[Any]]) -> Any:
        """Make a call, and remember how to make it again."""
        client = self.clients[who]
        numbers = [shard._numbers.last for shard in client.shards]  # type: ignore[attr-defined]
        chance = random.getstate()
        answer = self.run(self.awaited(action(client)))
        if verb == "complete" and self.shards > 1:
            verb = "add"  # with which it sends links ahead: neither can be repeated after the other
        self.calls[who, verb] = Call(client, action, numbers, chance, answer)
        return answer

    def turn_back(self, client: Frontier, numbers: list[int]) -> None:
        for shard, number in zip(client.shards, numbers, strict=True):
            shard._numbers = Numbers(number)

    def complete(self, who: int, chosen: list[tuple[Held, Ending]]) -> list[Ended]:
        claims = [self.claim(*one) for one in chosen]
        if self.clients[who].keeps_depths:
            for claim in claims:
                claim.outlinks = claim.links
        expected = self.model.end("complete", claims)
        sent = [
            Completion(
                lease=held.lease,
                items=ending.items,
                links=ending.links,
                feedback=ending.feedback,
            )
            for held, ending in chosen
        ]
        answer: list[Ended] = self.do(who, "complete", lambda frontier: frontier.complete(sent))
        assert answer == expected
        return answer

    def claim(
        self, held: Held, ending: Ending | None = None, *, after_s: float | None = None
    ) -> Claim:
        ending = ending or Ending(0)
        return Claim(
            fp=held.lease.fingerprint,
            host=held.lease.host,
            holder=held.holder,
            after_ms=milliseconds(after_s or 0),
            block_ms=milliseconds(ending.block_s),
            links=[understand(link) for link in ending.links],
            items=list(ending.items),
            depth=held.lease.request.depth,
        )

    def failure(self, held: Held, ending: Ending) -> Failure:
        return Failure(
            lease=held.lease,
            error="it broke",
            after_s=ending.after_s,
            feedback=ending.feedback,
        )

    def backoff_s(self, held: Held, ending: Ending, chances: Any) -> float:
        """Full jitter: up to the base, doubled for every try before this one."""
        if ending.after_s is not None:
            return ending.after_s
        step: float = min(CAP_S, BASE_S * 2 ** (held.lease.attempt - 1))
        return step * float(next(chances))

    def is_current(self, held: Held) -> bool:
        page = self.model.page(held.lease.fingerprint)
        return page is not None and page.state == "leased" and page.holder == held.holder

    def old_leases(self) -> list[Held]:
        """Those that are over, first the ones whose page somebody else has now."""
        leased = [page.fp for page in self.model.pages() if page.state == "leased"]
        over = [held for held in reversed(self.given) if not self.is_current(held)]
        return sorted(over, key=lambda held: held.lease.fingerprint not in leased)

    def current_leases(self) -> list[Held]:
        return [held for held in reversed(self.given) if self.is_current(held)]

    def leased_twice(self) -> list[Held]:
        """An old lease and the current one of the same page, if there are."""
        for new in self.current_leases():
            for old in self.old_leases():
                if old.lease.fingerprint == new.lease.fingerprint:
                    return [old, new]
        return []

    def pick(self, which: int) -> Held:
        candidates = self.current_leases()[:6] + self.old_leases()[:2]
        return candidates[which % len(candidates)]

    async def read_all_items(self) -> list[Result]:
        return [one async for page in read_items(self.clients[0]) for one in page]

    async def read_letters(self) -> list[DeadLetter]:
        return [letter async for letter in dead_letters(self.clients[0])]

    def choose_letters(self, which: list[int]) -> tuple[list[DeadLetter], list[Page]]:
        """Letters that the operator read, now or earlier; and the pages they are about."""
        found = self.run(self.read_letters())
        assert [self.read_by_operator(letter) for letter in found] == [
            (page.fp, page.request.url, page.died_at, page.failures, page.losses)
            for page in self.model.dead()
        ]
        self.letters = [*found, *self.letters][:8]
        letters = [self.letters[one % len(self.letters)] for one in which]
        pages = [self.model.page(letter.fingerprint) for letter in letters]
        return letters, [page for page in pages if page]

    def read_by_operator(self, letter: DeadLetter) -> tuple[str, str, int, int, int]:
        died_at = milliseconds(letter.at)
        return letter.fingerprint, letter.url, died_at, letter.failures, letter.losses

    def proof_of(self, lease: Lease) -> tuple[str, str]:
        return lease.fingerprint, lease.token

    def proof(self, held: Held) -> tuple[str, str]:
        return self.proof_of(held.lease)

    def seen_by_worker(self, lease: Lease) -> tuple[Any, ...]:
        return (
            lease.request,
            lease.fingerprint,
            lease.host,
            lease.priority,
            lease.attempt,
            lease.losses,
        )

    def due_to_worker(self, page: Page) -> tuple[Any, ...]:
        depth = self.model.shard(page.host).depth_of(page)
        request = msgspec.structs.replace(page.request, depth=depth)
        return request, page.fp, page.host, page.priority, page.failures + 1, page.losses

    def hosts_in(self, picture: Any) -> dict[str, tuple[Any, ...]]:
        places = ("nowhere", "due", "wait")
        return {
            name: (
                places[known.listed_in],
                known.in_flight,
                known.pages,
                known.asked_at or None,
                known.blocked_until,
            )
            for name, known in picture.hosts.items()
        }


class RestartingMachine(FrontierMachine):
    """The same, on a server that is stopped and started from its append-only file."""

    def __init__(self, directory: Path, *, shards: int) -> None:
        super().__init__(start(directory).url, shards=shards)
        self.directory = directory

    @rule()
    def the_server_restarts(self) -> None:
        stop(self.directory)
        start(self.directory)


# --- the tests ------------------------------------------------------------------------------------


def check(machine: Callable[[], RuleBasedStateMachine], *, examples: int, steps: int = 40) -> None:
    run_state_machine_as_test(
        machine,  # type: ignore[arg-type]  # any factory will do
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            print_blob=True,
            phases=set(Phase) - {Phase.explain},  # slow, and it has little to say about a program
            derandomize=bool(os.environ.get("CI")),
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )


@pytest.mark.timeout(900)  # a failure is shrunk for five minutes at the most
@pytest.mark.parametrize(
    ("shards", "order", "examples"), [(1, "fifo", 8), (3, "fifo", 5), (1, "lifo", 5)]
)
def test_the_frontier_does_what_the_model_says(
    server_url: str, shards: int, order: Literal["fifo", "lifo"], examples: int
) -> None:
    check(partial(FrontierMachine, server_url, shards=shards, order=order), examples=examples)


@pytest.mark.timeout(900)  # a failure is shrunk for five minutes at the most
def test_the_frontier_does_what_the_model_says_across_restarts(short_dir: Path) -> None:
    directory = short_dir / "restarting"
    try:
        check(partial(RestartingMachine, directory, shards=1), examples=5)
    finally:
        stop(directory)


@pytest.mark.chaos
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(5))  # each draws its own programs, side by side
@pytest.mark.parametrize("shards", [1, 3])
def test_the_frontier_does_what_the_model_says_in_many_programs(
    server_url: str, shards: int, part: int
) -> None:
    for _ in while_there_is_time(75, least=1):
        check(partial(FrontierMachine, server_url, shards=shards), examples=5, steps=60)
