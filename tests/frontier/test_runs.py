"""Runs on the server: taken by one agent at a time, and ended once."""

from __future__ import annotations

import pytest

from skitter.errors import BadOption, FrontierError, RunMissing, UsageError
from skitter.frontier.records import runs as records
from skitter.frontier.records.agents import (
    Agent,
    Argument,
    Offer,
    check_arguments,
    choose,
    list_agents,
    offers_of,
    report_agent,
)
from skitter.frontier.records.runs import LEASE_S, MOST_LOST, Hold, Runs, Spec, new_id

BOOKS = ["books"]


@pytest.fixture
def runs(server, clock) -> Runs:
    return Runs.on(server, clock=clock)


@pytest.fixture(autouse=True)
async def _empty(server) -> None:
    await server.command("FLUSHALL")


async def started(runs: Runs, spider: str = "books", **spec) -> str:
    identity = new_id()
    assert await runs.start(Spec(spider=spider, **spec), identity)
    return identity


async def test_a_run_is_taken_once_and_ends_once_with_its_report(runs):
    identity = await started(runs, arguments={"pages": "3"}, by="ana")
    lease = await runs.take("a1", BOOKS)
    assert lease is not None
    assert (lease.id, lease.spec.arguments, lease.lost) == (identity, {"pages": "3"}, 0)
    assert await runs.take("a2", BOOKS) is None
    assert (await runs.get(identity)).state == "running"
    assert await runs.renew(identity, lease.token, job="shop", version="v1") == Hold.OURS

    assert await runs.end(lease, exit_code=0, report=b'{"pages": 7}')
    assert await runs.end(lease, exit_code=1, report=b'{"pages": 8}')  # repeated: changes nothing
    run = await runs.get(identity)
    assert (run.state, run.exit_code, run.report, run.job) == ("finished", 0, {"pages": 7}, "shop")
    assert await runs.renew(identity, lease.token) == Hold.LOST
    assert await runs.take("a2", BOOKS) is None


async def test_a_start_that_is_repeated_starts_nothing(runs):
    identity = await started(runs)
    assert not await runs.start(Spec(spider="books"), identity)
    found, more = await runs.newest(lambda run: True, limit=10)
    assert ([one.id for one in found], more) == ([identity], None)


async def test_another_agent_takes_over_and_the_first_is_refused(runs, clock):
    identity = await started(runs)
    first = await runs.take("a1", BOOKS)
    await runs.renew(identity, first.token, job="shop", done=7)
    clock.advance(LEASE_S + 1)
    assert await runs.take("a2", BOOKS) is None  # it waits a moment longer each time
    clock.advance(1)
    second = await runs.take("a2", BOOKS)
    assert (second.job, second.done_before) == ("shop", 7)
    assert (second.id, second.lost, second.started_at) == (identity, 1, first.started_at)
    assert await runs.renew(identity, first.token) == Hold.LOST
    assert not await runs.end(first, exit_code=0, report=b'{"by": "the first"}')
    assert await runs.end(second, exit_code=0, report=b'{"by": "the second"}')
    assert not await runs.end(first, exit_code=0, report=b'{"by": "the first"}')
    assert (await runs.get(identity)).report == {"by": "the second"}


async def test_an_agent_that_renews_keeps_its_run(runs, clock):
    await started(runs)
    lease = await runs.take("a1", BOOKS)
    for _ in range(5):
        clock.advance(LEASE_S - 1)
        assert await runs.renew(lease.id, lease.token) == Hold.OURS
        assert await runs.take("a2", BOOKS) is None


async def test_a_run_that_every_agent_loses_ends_and_says_so(runs, clock):
    identity = await started(runs)
    for _ in range(MOST_LOST):
        assert await runs.take("a1", BOOKS)
        clock.advance(60)
        await runs.take("a2", [])  # puts it back
        clock.advance(60)
    assert await runs.take("a1", BOOKS)
    clock.advance(60)
    assert await runs.take("a1", BOOKS) is None
    run = await runs.get(identity)
    assert (run.state, run.exit_code) == ("failed", None)
    assert run.says == f"{MOST_LOST + 1} agents had it, and each vanished or gave it back."


async def test_a_job_has_one_run_at_a_time_and_agents_take_what_they_have(runs, clock):
    first = await started(runs, job="shop")
    clock.advance(1)
    second = await started(runs, job="shop")
    other = await started(runs, job="shop-2")
    unknown = await started(runs, "quotes")
    one = await runs.take("a1", BOOKS)
    two = await runs.take("a1", BOOKS)
    assert (one.id, two.id) == (first, other)
    assert await runs.take("a1", BOOKS) is None
    await runs.end(one, exit_code=0)
    assert (await runs.take("a1", BOOKS)).id == second
    assert (await runs.get(unknown)).state == "waiting"


async def test_a_run_that_waits_stops_at_once_and_another_when_its_agent_learns_it(runs):
    waits, works = await started(runs, job="one"), await started(runs, "quotes", job="two")
    lease = await runs.take("a1", ["quotes"])
    assert await runs.stop(waits, by="ana")
    assert not await runs.stop(waits, by="ben")
    assert (await runs.get(waits)).state == "stopped"
    assert await runs.take("a1", BOOKS) is None

    assert await runs.stop(works, by="ana")
    assert (await runs.get(works)).state == "stopping"
    assert await runs.renew(works, lease.token) == Hold.STOPPED
    assert await runs.end(lease, exit_code=0, report=b"{}")
    run = await runs.get(works)
    assert (run.state, run.stopped_by, run.exit_code) == ("stopped", "ana", 0)
    with pytest.raises(RunMissing):
        await runs.stop("0123456789", by="ana")


async def test_a_run_that_was_to_stop_ends_though_its_agent_is_gone(runs, clock):
    identity = await started(runs)
    await runs.take("a1", BOOKS)
    await runs.stop(identity, by="ana")
    clock.advance(LEASE_S + 1)
    assert await runs.take("a2", BOOKS) is None
    assert (await runs.get(identity)).state == "stopped"


async def test_the_oldest_runs_that_ended_are_forgotten(runs, clock, monkeypatch):
    monkeypatch.setattr(records, "KEPT", 3)
    open_one = await started(runs, "quotes")
    ids = []
    for _ in range(6):
        ids.append(await started(runs))
        await runs.end(await runs.take("a1", BOOKS), exit_code=0)
        clock.advance(1)
    await started(runs)
    found, _ = await runs.newest(lambda run: run.state == "finished", limit=10)
    assert [one.id for one in found] == ids[:-4:-1]
    assert (await runs.get(open_one)).state == "waiting"
    with pytest.raises(RunMissing):
        await runs.get(ids[0])


async def test_there_is_a_limit_on_runs_that_have_not_ended(runs, monkeypatch):
    monkeypatch.setattr(records, "MOST_OPEN", 2)
    await started(runs)
    await started(runs)
    with pytest.raises(FrontierError, match="2 runs have not ended"):
        await started(runs)


@pytest.mark.parametrize(
    "spec",
    [
        {"settings": {"fetch.allow_hosts": ["10.0.0.1"]}},
        {"settings": {"output.to": "/etc/passwd"}},
        {"settings": {"limits.max_pages": -1}},
        {"out": "../books.db"},
        {"out": "postgresql://elsewhere/db"},
        {"job": "no name"},
    ],
)
async def test_a_run_sets_no_path_host_or_bad_value(runs, spec):
    with pytest.raises(UsageError):
        await runs.start(Spec(spider="books", **spec), new_id())


async def test_ids_are_checked(runs):
    with pytest.raises(BadOption):
        await runs.start(Spec(spider="books"), "a:b")


async def test_agents_that_are_silent_are_gone_but_what_they_offered_is_known(server):
    await server.command("DEL", "skitter:{~runs:0}:agents")
    books = Offer(
        name="books", target="spiders/books.py", arguments=[Argument(name="n", type="int")]
    )
    agent = Agent(name="a1", host="h", pid=1, at_most=2, offers=[books])
    await report_agent(server, agent)
    assert [one.name for one in await list_agents(server, alive=True)] == ["a1"]
    offers = offers_of(await list_agents(server))
    assert choose(offers, "books.py") == choose(offers, "books") == books
    with pytest.raises(UsageError, match="did you mean books"):
        choose(offers, "bokos")
    with pytest.raises(UsageError, match="needs an argument: n"):
        check_arguments(books, {})
    with pytest.raises(UsageError, match="there was no agent yet"):
        choose({}, "books")


async def test_many_runs_of_one_job_do_not_keep_those_of_another_waiting(runs, clock):
    for _ in range(30):
        await started(runs, job="shop")
    clock.advance(1)
    other = await started(runs, job="shop-2")
    assert (await runs.take("a1", BOOKS)).id != other
    assert (await runs.take("a1", BOOKS)).id == other


async def test_a_run_whose_agent_is_gone_is_stopped_without_another_agent(runs, clock):
    identity = await started(runs)
    lease = await runs.take("a1", BOOKS)
    assert await runs.stop(identity, by="ana")
    assert (await runs.get(identity)).state == "stopping"
    clock.advance(LEASE_S + 1)
    assert await runs.stop(identity, by="ana")
    assert (await runs.get(identity)).state == "stopped"
    assert await runs.renew(identity, lease.token) == Hold.LOST
    assert await runs.take("a2", BOOKS) is None


async def test_an_agent_learns_how_long_a_run_has_worked_by_the_clock_of_the_server(runs, clock):
    await started(runs, max_time_s=60)
    assert (await runs.take("a1", BOOKS)).spent_s == 0
    clock.advance(40)
    assert await runs.take("a2", BOOKS) is None
    clock.advance(1)
    assert (await runs.take("a2", BOOKS)).spent_s == 41


async def test_a_run_is_given_no_more_than_its_process_can_be_told(runs):
    with pytest.raises(UsageError, match="at most 50,000 bytes"):
        await started(runs, arguments={"kind": "x" * 60_000})
    for wrong in (0, -1, 1e300):
        with pytest.raises(BadOption):
            await started(runs, max_time_s=wrong)


async def test_a_run_outlives_any_number_of_agents_that_are_stopped(runs, clock):
    identity = await started(runs)
    for _ in range(2 * MOST_LOST):
        lease = await runs.take("a1", BOOKS)
        assert await runs.end(lease, back=True, blamed=False)
        clock.advance(1)
    run = await runs.get(identity)
    assert (run.state, run.lost) == ("waiting", 0)


async def test_what_others_wrote_into_the_records_holds_up_no_run(runs, clock):
    found = []
    for job in ("", "", "shop", "shop"):
        found.append(await started(runs, job=job))
        clock.advance(1)
    [junk, odd, lane, sound], keys = found, runs.shard.keys
    await runs.shard.server.command("DEL", keys.key("run", junk))
    await runs.shard.server.command("SET", keys.key("run", junk), "x")
    words = ("lost", "x", "spec", b"\xff", "started_ms", "-", "done_before", "1e9")
    await runs.shard.server.command("HSET", keys.key("run", odd), *words)
    first = await runs.take("a1", BOOKS)
    assert (first.id, first.spec.spider, first.lost, first.done_before) == (odd, "", 0, 0)
    assert (await runs.take("a1", BOOKS)).id == lane
    await runs.shard.server.command("DEL", keys.key("run", lane))
    clock.advance(LEASE_S + 1)
    assert (await runs.take("a1", BOOKS)).id == sound
    clock.advance(1)
    again = await runs.take("a1", BOOKS)
    assert (again.id, again.lost) == (odd, 1)
    assert await runs.end(again, exit_code=2)
