"""The job's clock, whatever happens: pauses, a server's clock that is set, restarts that lose the
last second, lost replies, calls that take long, clients that come and go."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import ManualClock, rude
from skitter.frontier.jobs import create_job
from skitter.frontier.transport.connection import connect
from skitter.frontier.transport.shard import JOB_MS, Shard

_jobs = count(1)
SECOND, HOUR = 1000, 3_600_000
TOLERANCE = 5 * SECOND
#: The job's clock is noted once a second, and a call may take this long.
SLACK = TOLERANCE + 2 * SECOND
LATENCY = SECOND


@dataclass
class Client:
    """What a client knows: the job's time at its last answered lease, and when it sent that."""

    shard: Shard
    leased: tuple[int, int] | None = None

    def vouched_ms(self, at: int) -> int:
        return -1 if self.leased is None else self.leased[0] + at - self.leased[1]


@dataclass
class World:
    """Real time, a server whose clock may differ from it, and clients."""

    shards: list[Shard]
    clock: ManualClock
    real: int = 0
    lead: int = 0  # of the server's clock, since the last call that the job's clock goes by
    was_set: bool = False
    set_back: bool = False  # since the last such call
    job: int | None = None  # the job's time at that call
    at: int = 0  # when that was
    before: dict[bytes, bytes] = field(default_factory=dict)
    clients: list[Client] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clients = [Client(shard) for shard in self.shards]

    def wait(self, ms: int) -> None:
        self.real += ms
        self.clock.now_ms += ms

    def set_clock(self, by: int) -> None:
        self.clock.now_ms += by
        self.lead += by
        self.was_set, self.set_back = True, self.set_back or by < 0

    async def control(self) -> dict[bytes, bytes]:
        return dict(await self.shards[0].command("HGETALL", "control"))

    async def restart(self) -> None:
        """The server forgets its last call."""
        key, server = self.shards[0].keys.key("control"), self.shards[0].server
        if self.before:
            await server.command("DEL", key)
            await server.command("HSET", key, *(x for pair in self.before.items() for x in pair))
            # Without the first call, there is no time of the job to go on from.
            forgot_all = b"clock" not in self.before
            self.job = None if self.was_set or forgot_all else self.job

    def replace(self, which: int) -> None:
        self.clients[which].leased = None

    def doze(self, which: int, ms: int) -> None:
        """A machine sleeps, and its monotonic clock with it."""
        client = self.clients[which]
        self.wait(ms)
        self.was_set = True  # as far as that client can tell
        if client.leased is not None:
            client.leased = client.leased[0], client.leased[1] + ms

    async def lease(self, which: int, latency: int, *, lost: bool) -> None:
        client, sent = self.clients[which], self.real
        vouched = client.vouched_ms(sent)
        self.wait(latency)
        self.before = await self.control()
        answer = await client.shard.call(
            "lease", limit=1, ttl_ms=HOUR, lane="", company=0, vouched_ms=vouched
        )
        self.judge(answer[JOB_MS], vouched)
        self.wait(latency)
        if not lost:
            client.leased = answer[JOB_MS], sent

    async def speak(self, which: int) -> None:
        """Any other call, also of clients that never lease."""
        vouched = self.clients[which].vouched_ms(self.real)
        self.before = await self.control()
        await self.clients[which].shard.call("reap", at_most=9, vouched_ms=vouched)
        if vouched >= 0:
            shift = int((await self.control()).get(b"shift", 0))
            self.judge(self.clock() + shift, vouched)

    def judge(self, job: int, vouched: int) -> None:
        """What holds for the job's time after a call."""
        passed = self.real - self.at
        if self.job is not None:
            gained = job - self.job - passed
            left_behind = vouched < self.job - SLACK
            if not self.was_set:
                assert gained == 0, "time passes, whoever calls"
            assert job >= self.job - SLACK, "it never jumps back"
            if not left_behind:
                assert job <= max(vouched, self.job + passed) + SLACK, "who watches is not hurried"
            if left_behind and not self.set_back and passed + self.lead < HOUR:  # catch_up.lua
                assert gained == self.lead, "time that nobody saw has passed"
            if vouched >= 0 and not self.set_back:
                assert job >= min(vouched, self.job + passed) - SLACK, "and nobody is held up"
        self.job, self.at, self.lead, self.set_back = job, self.real, 0, False


WHO = st.integers(0, 2)
TIMES = st.one_of(
    st.integers(0, 3 * SECOND), st.integers(10 * SECOND, HOUR // 2), st.integers(HOUR, 30 * HOUR)
)
JUMPS = st.integers(SLACK + TOLERANCE, 30 * HOUR).flatmap(lambda ms: st.sampled_from([ms, -ms]))
RARELY = st.sampled_from([False, False, False, True])
LEASE: Any = st.tuples(st.just("lease"), WHO, st.integers(0, LATENCY), RARELY)
EVENTS: list[Any] = [
    LEASE,
    LEASE,
    st.tuples(st.just("wait"), TIMES),
    st.tuples(st.just("speak"), WHO),
    st.tuples(st.just("replace"), WHO),
    st.tuples(st.just("restart")),
]
CALM = st.lists(st.one_of(EVENTS), min_size=8, max_size=30)
FAULTS: list[Any] = [st.tuples(st.just("set"), JUMPS), st.tuples(st.just("doze"), WHO, TIMES)]
STORMY = st.lists(st.one_of(*EVENTS, *FAULTS), min_size=8, max_size=30)


async def play(url: str, events: list[tuple[Any, ...]]) -> World:
    clock = ManualClock()
    async with connect(url) as server:
        job = f"clock-{next(_jobs)}"
        frontiers = [await create_job(server, job, options=rude(), clock=clock) for _ in range(3)]
        world = World([one.shards[0] for one in frontiers], clock)
        for event in events:
            match event:
                case "lease", who, latency, lost:
                    await world.lease(who, latency, lost=lost)
                case "wait", ms:
                    world.wait(ms)
                case "set", ms:
                    world.set_clock(ms)
                case "doze", who, ms:
                    world.doze(who, ms)
                case "speak", who:
                    await world.speak(who)
                case "replace", who:
                    world.replace(who)
                case _:
                    await world.restart()
        return world


@settings(max_examples=60)
@given(events=CALM)
def test_time_passes_for_the_job_unless_the_clock_is_set(server_url, events):
    world = asyncio.run(play(server_url, events))
    assert not world.was_set


@settings(max_examples=200)
@given(events=STORMY)
def test_a_clock_that_is_set_neither_hurries_nor_holds_up_those_who_watch(server_url, events):
    asyncio.run(play(server_url, events))
