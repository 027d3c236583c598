"""skitter.Metrics: what users count and time, over the whole cluster."""

from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
import sys
import threading
from itertools import count
from time import perf_counter, sleep

import pytest

import skitter
from skitter.errors import BadOption, SkitterError
from skitter.frontier.records import own as own_metrics
from skitter.frontier.records.own import MAX_ROWS, OwnBatch, OwnMetrics
from waiting import until

LEAST_S = 1e-4  # the first bucket holds what is shorter

_numbers = count(1)


@pytest.fixture
def name():
    return f"name {next(_numbers)}"


@pytest.fixture
def metrics(server_url):
    metrics = skitter.Metrics(redis=server_url)
    yield metrics
    metrics.close()


def test_increments_add_up_by_tags_and_over_processes(metrics, server_url, name):
    other = skitter.Metrics(redis=server_url)
    metrics.increment(name)
    metrics.increment(name, 2, tags={"shop": "one", "kind": "book"})
    other.increment(name, 0.5, tags={"kind": "book", "shop": "one"})
    other.increment(name, 4, tags={"shop": "two"})
    other.close()

    assert metrics.total(name) == 7.5
    assert metrics.total(name, tags={"shop": "one", "kind": "book"}) == 2.5
    assert metrics.total(name, tags={}) == 1
    assert metrics.total(name, tags={"shop": "three"}) == 0


def test_functions_are_timed_and_those_that_raise_are_errors(metrics, name):
    @metrics.timing(name)
    def halve(number):
        """Its name and doc stay."""
        return 1 / number / 2

    began = perf_counter()
    assert [halve(1), halve(2)] == [0.5, 0.25]
    with pytest.raises(ZeroDivisionError):
        halve(0)
    longest_s = max(LEAST_S, 1.03 * (perf_counter() - began))  # a bucket is off by 2.2 %

    stats = metrics.stats(name)
    assert (stats.count, stats.errors) == (3, 1)
    assert 0 < stats.p50 <= stats.p95 <= stats.p99 <= longest_s
    assert halve.__name__ == "halve"


async def test_async_functions_are_timed_while_they_wait(metrics, name):
    @metrics.timing(name)
    async def wait(seconds):
        await asyncio.sleep(seconds)
        return seconds

    assert await wait(0.05) == 0.05
    task = asyncio.create_task(wait(60))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    stats = metrics.stats(name)  # inside the event loop
    assert (stats.count, stats.errors) == (2, 1)
    assert stats.mean >= 0.02


async def test_generators_are_timed_to_their_end_and_what_they_raise_is_an_error(metrics, name):
    @metrics.timing(name)
    def count(fail):
        yield 1
        sleep(0.05)
        if fail:
            raise KeyError(fail)
        return "end"

    @metrics.timing(name)
    async def count_later(fail):
        for one in count.__wrapped__(fail):
            yield one

    assert list(count(False)) == [1]
    assert [one async for one in count_later(False)] == [1]
    with pytest.raises(KeyError):
        list(count(True))
    with pytest.raises(KeyError):
        _ = [one async for one in count_later(True)]
    next(count(False))  # nobody wants the rest of it

    stats = metrics.stats(name)
    assert (stats.count, stats.errors) == (5, 2)
    assert stats.p95 > 0.04
    assert inspect.isgeneratorfunction(count)
    assert inspect.isasyncgenfunction(count_later)


def test_stats_have_the_mean_and_the_quantiles_of_what_was_observed(metrics, name):
    for ms in range(1, 101):
        metrics.observe(name, ms / 1000)

    stats = metrics.stats(name)
    assert stats.count == 100
    assert stats.mean == pytest.approx(0.0505, rel=0.001)
    found = (stats.p50, stats.p95, stats.p99)
    assert found == pytest.approx((0.050, 0.095, 0.099), rel=0.03)


def test_what_only_failed_is_timed_too(metrics, name):
    metrics.observe(name, 2.0, ok=False)

    stats = metrics.stats(name)
    assert (stats.count, stats.errors) == (1, 1)
    assert stats.p50 == pytest.approx(2, rel=0.022)


def test_nothing_measured_has_no_quantiles(metrics, name):
    stats = metrics.stats(name)
    assert (stats.count, stats.mean, stats.p50) == (0, None, None)


def test_it_flushes_by_itself(metrics, server_url, name):
    other = skitter.Metrics(redis=server_url)
    metrics.increment(name)
    until(lambda: other.total(name) == 1)
    other.close()


def test_from_many_threads_nothing_is_lost(metrics, name):
    def work():
        for _ in range(1000):
            metrics.increment(name)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert metrics.total(name) == 4000


def test_a_server_that_is_away_costs_nothing_but_the_figures(tmp_path):
    metrics = skitter.Metrics(redis=f"unix://{tmp_path}/nothing.sock")
    for n in range(20_000):
        metrics.increment(f"n{n}", tags={"n": n})
        assert len(metrics._batch.counts) <= MAX_ROWS
    with pytest.raises(SkitterError):
        metrics.stats("n1")
    metrics.close()


def test_a_fork_counts_on_its_own(metrics, name):
    metrics.increment(name)
    metrics.flush()
    child = os.fork()
    if not child:
        metrics.increment(name, 10)
        metrics.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0

    metrics.increment(name, 100)
    assert metrics.total(name) == 111


SCRIPT = """
import asyncio, skitter
metrics = skitter.Metrics()
@metrics.timing("work")
async def work():
    metrics.increment("books", 3)
asyncio.run(work())
"""


def test_a_script_that_ends_sends_what_it_counted_to_the_embedded_server(short_dir):
    folder = short_dir / "own-metrics"
    folder.mkdir()
    (folder / "script.py").write_text(SCRIPT)
    environment = {k: v for k, v in os.environ.items() if k != "SKITTER_REDIS_URL"}
    for _ in range(2):
        subprocess.run([sys.executable, "script.py"], cwd=folder, env=environment, check=True)

    metrics = skitter.Metrics(directory=folder / ".skitter")
    assert metrics.total("books") == 6
    assert metrics.stats("work").count == 2
    metrics.close()


@pytest.mark.parametrize("bad", ["", " ", "a\nb", "x" * 101, 7])
def test_a_name_is_text(metrics, bad):
    with pytest.raises(BadOption):
        metrics.increment(bad)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), True, "3"])
def test_a_value_is_a_number(metrics, bad):
    with pytest.raises(BadOption):
        metrics.increment("books", bad)


def test_tags_are_few(metrics):
    with pytest.raises(BadOption):
        metrics.increment("books", tags={f"t{n}": n for n in range(6)})


async def test_days_are_told_apart_and_kept_for_seven(server, clock):
    own = OwnMetrics.on(server, clock=clock)
    clock.now_ms = 30_000 * 86_400_000
    for _ in range(3):
        batch = OwnBatch()
        batch.count(("books", ""), 5)
        batch.time("parse", 0.01, ok=True)
        await own.add(batch)
        clock.advance(86_400)
    clock.advance(-86_400)

    for days in (1, 2, 3, 7):
        assert (await own.read_totals(days=days))["books", ""] == 5 * min(days, 3)
        assert (await own.read_timing("parse", days=days)).count == min(days, 3)
    key = own.shard.keys.key("daily", "30000")
    assert 7 * 86_400 < await server.command("TTL", key) <= 8 * 86_400


async def test_a_day_has_only_so_many_rows(server, clock, monkeypatch):
    monkeypatch.setattr(own_metrics, "OWN_METRICS_MAX_ROWS", 10)
    own = OwnMetrics.on(server, clock=clock)
    clock.now_ms = 40_000 * 86_400_000
    batch = OwnBatch()
    for n in range(50):
        batch.count((f"n{n}", ""), 1)
    batch.time("late", 0.01, ok=True)
    await own.add(batch)

    totals = await own.read_totals(days=1)
    assert len(totals) == 11
    assert totals["", ""] == 41
    assert (await own.read_timing("late", days=1)).count == 0


def test_metrics_in_a_with_block_are_sent_at_its_end(server_url):
    with skitter.Metrics(redis=server_url) as metrics:
        metrics.increment("in a block", 3)
    with skitter.Metrics(redis=server_url) as other:
        assert other.total("in a block") == 3


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("incr", "increment"),
        ("record_timing", "observe"),
        ("get_stats", "stats"),
        ("timer", "@tim"),
    ],
)
def test_a_name_of_another_tool_is_answered_with_ours(theirs, ours):
    with pytest.raises(AttributeError, match=f"Metrics has no '{theirs}': .*{ours}"):
        getattr(skitter.Metrics(), theirs)
