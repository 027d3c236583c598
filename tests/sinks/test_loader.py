"""The loader: what it reads it stores, and what it stored it acknowledges, in that order."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from sinks.making import JOB, lines_of, result, results, row_id, rows_of
from skitter.errors import BadOption, ServerUnreachable
from skitter.sinks import (
    BadSink,
    LoadHooks,
    LoadPace,
    LoadState,
    RowsRefused,
    SinkAway,
    load,
    open_sink,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from sinks.conftest import PostgresServer
    from skitter.model import Result

QUICK = LoadPace(batch=3, linger_s=0, retry_base_s=0.001, retry_cap_s=0.01)


@dataclass
class ListSource:
    """A stream in memory; tells the loader to stop when all of it was read."""

    left: list[Result]
    stop: asyncio.Event
    acknowledged: list[Result] = field(default_factory=list)
    stored: list[Result] = field(default_factory=list)
    limits: list[int] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)  # raised by the next calls
    kept: list[list[Result]] = field(default_factory=list)
    on_keep: Callable[[], None] = lambda: None

    async def read(self, limit: int, wait_s: float) -> list[Result]:
        self._fail()
        self.limits.append(limit)
        taken, self.left = self.left[:limit], self.left[limit:]
        if not taken:
            self.stop.set()
        return taken

    async def acknowledge(
        self, stored: Sequence[Result], others: Sequence[Result], *, updated: int = 0
    ) -> None:
        self._fail()
        self.acknowledged += [*stored, *others]
        self.stored += stored

    async def keep(self, results: Sequence[Result]) -> None:
        self.kept.append(list(results))
        self.on_keep()

    def _fail(self) -> None:
        if self.errors:
            raise self.errors.pop(0)


@dataclass
class MemorySink:
    """Keeps rows, fails when it is told to; `on_write` looks on."""

    errors: list[Exception] = field(default_factory=list)
    rows: dict[str, Any] = field(default_factory=dict)
    batches: list[int] = field(default_factory=list)
    on_write: Callable[[], None] = lambda: None
    description: str = "memory"
    forgotten: list[Result] = field(default_factory=list)

    async def forget(self, pages: Sequence[Result]) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.forgotten += pages

    async def write(self, rows: Sequence[Result]) -> None:
        self.on_write()
        if self.errors:
            raise self.errors.pop(0)
        self.batches.append(len(rows))
        self.rows |= {f"{row.fingerprint}-{row.index}": row.item for row in rows}

    async def close(self) -> None:
        pass


@pytest.fixture
def stop() -> asyncio.Event:
    return asyncio.Event()


async def test_everything_is_stored_and_acknowledged(stop: asyncio.Event, tmp_path: Path):
    rows = results([{"n": n} for n in range(10)])
    source = ListSource(list(rows), stop)
    async with open_sink(str(tmp_path / "x.db"), job=JOB) as sink:
        written = await load(source, sink, stop=stop, pace=QUICK)
    assert [row["n"] for row in rows_of(tmp_path / "x.db")] == list(range(10))
    assert source.acknowledged == rows
    assert written == 10


async def test_nothing_is_acknowledged_before_it_is_stored(stop: asyncio.Event):
    source = ListSource(results([1, 2, 3, 4]), stop)
    sink = MemorySink()
    seen: list[tuple[int, int]] = []
    sink.on_write = lambda: seen.append((len(sink.rows), len(source.acknowledged)))
    await load(source, sink, stop=stop, pace=QUICK)
    assert seen == [(0, 0), (3, 3)]


async def test_a_batch_is_filled_by_several_reads_within_the_linger(stop: asyncio.Event):
    class Dripping(ListSource):
        async def read(self, limit: int, wait_s: float) -> list[Result]:
            return await super().read(min(limit, 2), wait_s)

    sink = MemorySink()
    source = Dripping(results(list(range(10))), stop)
    await load(source, sink, stop=stop, pace=LoadPace(batch=5, linger_s=60))
    assert sink.batches == [5, 5]


async def test_a_lone_row_does_not_wait_for_a_full_batch(stop: asyncio.Event):
    source = ListSource(results(["only"]), stop)
    sink = MemorySink()
    await asyncio.wait_for(load(source, sink, stop=stop, pace=LoadPace(batch=500, linger_s=0)), 10)
    assert sink.batches == [1]


async def test_a_transform_changes_drops_and_multiplies(stop: asyncio.Event):
    def transform(item: int) -> Any:
        if item == 0:
            return None
        return [item, -item] if item == 1 else {"n": item}

    source = ListSource(results([0, 1, 2]), stop)
    sink = MemorySink()
    hooks = LoadHooks(transform=transform)
    assert await load(source, sink, stop=stop, hooks=hooks, pace=QUICK) == 3
    assert sink.rows == {f"{row_id(1)}-0": 1, f"{row_id(1)}-1": -1, row_id(2): {"n": 2}}
    assert len(source.acknowledged) == 3


async def test_rows_that_a_transform_makes_are_not_doubled_by_a_second_delivery(
    stop: asyncio.Event, tmp_path: Path
):
    rows = results([{"n": 1}])
    async with open_sink(str(tmp_path / "x.jsonl"), job=JOB) as sink:
        hooks = LoadHooks(transform=lambda item: [item, {"n": 2}])
        await load(ListSource(rows + rows, stop), sink, stop=stop, hooks=hooks, pace=QUICK)
    assert [row["n"] for row in lines_of(tmp_path / "x.jsonl")] == [1, 2]


@pytest.mark.parametrize("kind", ["none", "plain", "coroutine"])
async def test_a_notice_is_forgotten_and_not_stored_and_no_transform_sees_it(
    stop: asyncio.Event, kind: str
):
    async def later(item: int) -> int:
        return item + 10

    transform = {"none": None, "plain": lambda item: item + 10, "coroutine": later}[kind]
    notice = result(7, None, index=-1)
    source = ListSource([result(0, 1), notice, result(1, 2)], stop)
    sink, rejected = MemorySink(), []
    hooks = LoadHooks(transform=transform, on_rejected=lambda *one: rejected.append(one))
    assert await load(source, sink, stop=stop, hooks=hooks, pace=QUICK) == 2
    assert sink.forgotten == [notice]
    assert sorted(sink.rows) == [row_id(0), row_id(1)]
    assert (len(source.acknowledged), len(source.stored), rejected) == (3, 2, [])


async def test_what_a_transform_drops_is_no_longer_there_after_a_revisit(
    stop: asyncio.Event, tmp_path: Path
):
    first = [result(1, {"n": 1}), result(2, {"n": 2})]
    again = [replace(one, fetched_at=one.fetched_at + 60) for one in first]
    hooks = LoadHooks(transform=lambda item: None if item["n"] == 2 else item)
    async with open_sink(str(tmp_path / "x.db"), job=JOB, prunes=True) as sink:
        await load(ListSource(first, stop), sink, stop=stop, pace=QUICK)
        assert len(rows_of(tmp_path / "x.db")) == 2
        stop.clear()
        source = ListSource(again, stop)
        await load(source, sink, stop=stop, hooks=hooks, pace=QUICK)
    assert [row["n"] for row in rows_of(tmp_path / "x.db")] == [1]
    assert len(source.acknowledged) == 2


async def test_a_notice_is_acknowledged_once_it_was_heeded(stop: asyncio.Event):
    notice = result(7, None, index=-1)
    source, sink = ListSource([notice], stop), MemorySink(errors=[SinkAway("for a moment")])
    await load(source, sink, stop=stop, pace=QUICK)
    assert (sink.forgotten, source.acknowledged, sink.batches) == ([notice], [notice], [])


async def test_a_transform_may_be_a_coroutine(stop: asyncio.Event):
    async def transform(item: int) -> int:
        await asyncio.sleep(0)
        return item + 1

    sink = MemorySink()
    source = ListSource(results([1]), stop)
    await load(source, sink, stop=stop, hooks=LoadHooks(transform=transform), pace=QUICK)
    assert sink.rows == {row_id(0): 2}


async def test_slow_transforms_are_written_bit_by_bit_and_the_rest_is_kept(stop: asyncio.Event):
    rows = results([1, 2, 3])
    source, sink = ListSource(list(rows), stop), MemorySink()
    hurried = LoadPace(batch=3, linger_s=0, transform_s=0)
    await load(source, sink, stop=stop, hooks=LoadHooks(transform=lambda item: item), pace=hurried)
    assert sink.batches == [1, 1, 1]
    assert source.acknowledged == rows
    assert source.kept == [rows[1:], rows[2:]]


async def test_told_to_stop_it_stores_what_it_has_transformed_and_leaves_the_rest(
    stop: asyncio.Event,
):
    loop = asyncio.get_running_loop()

    def transform(item: int) -> int:
        loop.call_soon_threadsafe(stop.set)
        return item

    source, sink = ListSource(results([1, 2, 3]), stop), MemorySink()
    hurried = LoadPace(batch=3, linger_s=0, transform_s=0)
    await load(source, sink, stop=stop, hooks=LoadHooks(transform=transform), pace=hurried)
    assert len(sink.rows) == len(source.acknowledged) == 1


async def test_a_transform_that_blocks_keeps_its_items_and_not_the_loop(stop: asyncio.Event):
    goes_on = threading.Event()
    source, sink = ListSource(results([1, 2]), stop, on_keep=goes_on.set), MemorySink()

    def transform(item: int) -> int:
        assert goes_on.wait(60)  # until the loop has told the source that we are at it
        return item

    await load(source, sink, stop=stop, hooks=LoadHooks(transform=transform), pace=QUICK)
    assert len(source.kept[0]) == len(sink.rows) == 2


async def test_a_row_whose_transform_fails_is_kept_aside_and_the_rest_goes_on(stop: asyncio.Event):
    kept: list[tuple[Any, str]] = []
    hooks = LoadHooks(
        transform=lambda item: 10 // item,
        on_rejected=lambda row, error: kept.append((row.item, type(error).__name__)),
    )
    source = ListSource(results([1, 0, 2]), stop)
    sink = MemorySink()
    await load(source, sink, stop=stop, hooks=hooks, pace=QUICK)
    assert kept == [(0, "ZeroDivisionError")]
    assert [one.item for one in source.stored] == [1, 2]
    assert list(sink.rows.values()) == [10, 5]
    assert len(source.acknowledged) == 3


async def test_a_row_that_the_sink_can_never_store_is_kept_aside_as_it_came(
    stop: asyncio.Event, tmp_path: Path
):
    kept: list[tuple[Result, Exception]] = []

    async def keep(row: Result, error: Exception) -> None:
        kept.append((row, error))

    wide = result(1, "wide")
    hooks = LoadHooks(
        transform=lambda item: {f"f{n}": n for n in range(2000)} if item == "wide" else item,
        on_rejected=keep,
    )
    source = ListSource([result(0, 1), wide, result(2, 2)], stop)
    async with open_sink(str(tmp_path / "x.db"), job=JOB) as sink:
        await load(source, sink, stop=stop, hooks=hooks, pace=QUICK)
    assert [row["value"] for row in rows_of(tmp_path / "x.db")] == [1, 2]
    ((row, error),) = kept
    assert row is wide
    assert isinstance(error, RowsRefused)
    assert len(source.acknowledged) == 3


async def test_a_row_is_not_acknowledged_while_it_cannot_be_kept_aside(stop: asyncio.Event):
    troubles = [OSError("no room"), OSError("no room")]

    def keep(row: Result, error: Exception) -> None:
        assert not source.acknowledged
        if troubles:
            raise troubles.pop()

    hooks = LoadHooks(transform=lambda item: 1 // item, on_rejected=keep)
    source = ListSource(results([0]), stop)
    await load(source, MemorySink(), stop=stop, hooks=hooks, pace=QUICK)
    assert not troubles
    assert len(source.acknowledged) == 1


async def test_a_sink_that_is_away_is_waited_for_and_told_of_once(stop: asyncio.Event):
    states: list[LoadState] = []
    source = ListSource(results([1, 2]), stop)
    away = [SinkAway("postgresql is away: refused")] * 5
    sink = MemorySink(errors=[*away, SinkAway("postgresql is away: starting up.")])
    await load(source, sink, stop=stop, hooks=LoadHooks(on_state=states.append), pace=QUICK)
    assert states == [
        LoadState(ok=False, message="postgresql is away: refused, trying again"),
        LoadState(ok=False, message="postgresql is away: starting up, trying again"),
        LoadState(ok=True, message="memory: working again"),
    ]
    assert len(sink.rows) == len(source.acknowledged) == 2


async def test_a_source_that_is_away_is_waited_for(stop: asyncio.Event):
    source = ListSource(results([1, 2]), stop)
    source.errors = [ServerUnreachable("no server"), ServerUnreachable("no server")]
    sink = MemorySink(on_write=lambda: source.errors.append(ServerUnreachable("gone again")))
    await load(source, sink, stop=stop, pace=QUICK)
    assert len(sink.rows) == len(source.acknowledged) == 2


async def test_told_to_stop_while_it_waits_for_items_it_ends(stop: asyncio.Event):
    source, sink = SilentSource([], stop), MemorySink()
    loading = asyncio.create_task(load(source, sink, stop=stop))
    await source.asked.wait()

    stop.set()

    assert await asyncio.wait_for(loading, 30) == 0
    assert source.was_cancelled


@dataclass
class SilentSource(ListSource):
    """Nothing ever comes."""

    asked: asyncio.Event = field(default_factory=asyncio.Event)
    was_cancelled: bool = False

    async def read(self, limit: int, wait_s: float) -> list[Result]:
        self.asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        return []


async def test_told_to_stop_while_the_sink_is_away_it_acknowledges_nothing(stop: asyncio.Event):
    source = ListSource(results([1, 2]), stop)
    sink = MemorySink(errors=[SinkAway("away")] * 1000)

    def on_state(state: LoadState) -> None:
        stop.set()

    hooks = LoadHooks(on_state=on_state)
    assert await load(source, sink, stop=stop, hooks=hooks, pace=QUICK) == 0
    assert source.acknowledged == []


async def test_told_to_stop_while_it_writes_it_acknowledges_what_it_wrote(stop: asyncio.Event):
    source = ListSource(results(list(range(10))), stop)
    sink = MemorySink(on_write=stop.set)
    await load(source, sink, stop=stop, pace=QUICK)
    assert len(sink.rows) == len(source.acknowledged) == 3


async def test_an_error_that_will_not_pass_ends_the_loader_and_acknowledges_nothing(
    stop: asyncio.Event,
):
    source = ListSource(results([1]), stop)
    with pytest.raises(BadSink):
        await load(source, MemorySink(errors=[BadSink("not ours")]), stop=stop, pace=QUICK)
    assert source.acknowledged == []


async def test_a_cancelled_loader_acknowledges_nothing_and_its_sink_closes(
    stop: asyncio.Event, tmp_path: Path
):
    path = tmp_path / "x.jsonl"
    reached = asyncio.Event()
    source = ListSource(results([1]), stop)
    loop = asyncio.get_running_loop()

    def transform(item: Any) -> Any:
        loop.call_soon_threadsafe(reached.set)
        return item

    async with open_sink(str(path), job=JOB) as sink:
        hooks = LoadHooks(transform=transform)
        task = asyncio.create_task(load(source, sink, stop=stop, hooks=hooks, pace=QUICK))
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert source.acknowledged == []
    async with open_sink(str(path), job=JOB) as sink:  # the lock is free: the write had ended
        await sink.write(results([1]))
    assert len(lines_of(path)) == 1


async def test_postgresql_may_be_away_and_nothing_is_lost(
    stop: asyncio.Event, postgres: str, postgres_server: PostgresServer
):
    states: list[LoadState] = []

    def on_state(state: LoadState) -> None:
        states.append(state)
        if len(states) == 1:
            postgres_server.start()

    rows = results([{"n": n} for n in range(5)])
    source = ListSource(list(rows), stop)
    async with open_sink(postgres, job=JOB) as sink:
        postgres_server.stop()
        await load(source, sink, stop=stop, hooks=LoadHooks(on_state=on_state), pace=QUICK)
    assert "does not answer" in states[0].message
    assert states[0].message.endswith(", trying again")
    assert states[-1].ok
    assert source.acknowledged == rows


def test_waiting_grows_to_a_cap():
    pace = LoadPace(retry_base_s=0.1, retry_cap_s=5)
    assert [pace.backoff_s(n, chance=1) for n in (0, 1, 2, 1000)] == [0.1, 0.2, 0.4, 5]
    assert pace.backoff_s(0, chance=0) == 0.05


def test_a_batch_of_nothing_is_refused():
    with pytest.raises(BadOption, match="batch"):
        LoadPace(batch=0)
