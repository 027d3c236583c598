"""Writers that are killed at every line of our code, and what their successors make of it.

Run as a script: `killed.py NAME DIRECTORY lines|all EVERY`. One line of the sinks after the other
is made the last that a writer runs (SIGKILL: nothing is flushed, nothing is closed). `lines`: each
line of code, the first and the last time it runs; `all`: each time.

A loader's successor gets what was not acknowledged, cut into other batches, and the rows must be
exact. A file that is written whole must be the old one or the new one, and its successor must
write the new one. Each writer and each successor is a fork of this process, which itself stays
without threads and open files.
"""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import signal
import sys
import threading
import traceback
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import skitter.sinks
from sinks.making import FETCHED_AT, JOB, lines_of, records_of, result, rows_of
from skitter.sinks import Destination
from skitter.sinks.comparison import GONE
from skitter.sinks.registry import open_database, open_store
from skitter.trust import make_ours, trust

if TYPE_CHECKING:
    from collections.abc import Callable

    from skitter.model import Result

RUNNERS = 4


def later(number: int, after_s: int, item: Any) -> Result:
    return replace(result(number, item), fetched_at=FETCHED_AT + after_s, is_later=True)


OURS = str(Path(skitter.sinks.__file__).parent)

# New fields, a column that is widened, a row that changes, rows that come twice.
BATCHES: list[list[Result]] = [
    [result(n, {"n": n, "title": f"book {n}"}) for n in range(4)],
    [result(n, {"n": n, "title": f"book {n}", "stock": [n]}) for n in range(2, 6)],
    [result(1, {"n": 1.5, "title": "changed"}), result(6, {"n": 6, "title": "book 6"})],
    [result(n, {"n": n, "title": f"book {n}"}) for n in (3, 7, 8)],
]
# The same pages at later visits: changed, new, and gone.
LATER: list[list[Result]] = [
    BATCHES[0],
    [later(1, 60, {"n": 1, "title": "other"}), later(2, 60, {"n": None, "title": "book 2"})],
    [later(9, 120, {"n": 9, "title": "book 9"}), later(1, 120, {"n": 1, "title": "third"})],
    [replace(later(3, 180, GONE), index=-1), later(1, 180, {"n": 1, "title": "third"})],
]
FEED = [
    ("changed", 1, "title", "book 1", "other"),
    ("changed", 1, "title", "other", "third"),
    ("changed", 2, "n", 2, None),
    ("gone", 3, "", None, None),
    ("new", 9, "", None, None),
]
EXPECTED = {row.fingerprint: str(row.item["title"]) for batch in BATCHES for row in batch}


def deliver(dsn: str, acks: Path, batches: list[list[Result]]) -> None:
    """A loader: acknowledges each batch once it is written."""
    with closing(open_store(dsn, job=JOB)) as store, acks.open("ab", buffering=0) as file:
        for batch in batches:
            store.write([row for row in batch if not row.is_notice])
            if notices := [row for row in batch if row.is_notice]:
                store.forget(notices)  # type: ignore[attr-defined]
            file.write(b"".join(f"{id_of(row)}\n".encode() for row in batch))


def id_of(row: Result) -> str:
    return f"{row.fingerprint}/{row.item}/{row.fetched_at}"


def batches_of(dsn: str) -> list[list[Result]]:
    return LATER if Path(dsn).stem == "feed" else BATCHES


def resume(dsn: str, acks: Path) -> None:
    """A loader after a dead one: the same rows in other batches; what it holds in the end."""
    done = set(acks.read_text().splitlines()) if acks.exists() else set()
    left = [row for batch in batches_of(dsn) for row in batch if id_of(row) not in done]
    deliver(dsn, acks, [left[n : n + 3] for n in range(0, len(left), 3)])
    if Path(dsn).stem == "feed":
        check_feed(dsn)
    else:
        found = titles(dsn)
        assert len(found) == len(EXPECTED), f"{len(found)} rows: {found}"
        assert dict(found) == EXPECTED, found
    strays = {p.name for p in Path(dsn).parent.iterdir()} - {
        Path(dsn).name, f"{Path(dsn).name}.state", acks.name,
    }  # fmt: skip
    assert not strays, strays


def check_feed(dsn: str) -> None:
    """The changes that loaders noted, in all."""
    with closing(open_database(dsn, job=JOB)) as table:
        found = table.read_changes()
    said = [(c.kind, int(c.url.rpartition("/")[2]), c.field, c.old, c.new) for c in found]
    assert sorted(said, key=str) == FEED, said


def titles(dsn: str) -> list[tuple[str, str]]:
    path = Path(dsn)
    rows: list[dict[str, Any]]
    if path.suffix == ".jsonl":
        rows = lines_of(path)
    elif path.suffix == ".csv":
        rows = list(records_of(path))
    elif path.suffix == ".parquet":
        rows = read_parquet(path)
    else:
        rows = rows_of(path)
    return [(row["_id"].rpartition("-")[0], row["title"]) for row in rows]


def read_parquet(path: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows


# --- a file that is written whole -----------------------------------------------------------------


def destination(dsn: str) -> Destination:
    if dsn.endswith(".parts"):
        to = f"file://{dsn}/?format=jsonl&rows=3"
        return Destination(to, JOB, Path(dsn).parent / ".skitter")
    return Destination(dsn, JOB, Path(dsn).parent / ".skitter")


def prepare_export(dsn: str) -> None:
    """A file that has been written, and a store with more rows by now."""
    to = destination(dsn)
    for batches in (BATCHES[:1], LATER if dsn.endswith(".parts") else BATCHES):
        make_ours(to.directory)
        Path(to.store).parent.mkdir(exist_ok=True)
        with closing(open_store(to.store, job=JOB)) as store:
            for batch in batches:
                store.write([row for row in batch if not row.is_notice])
        if len(batches) == 1 and not dsn.endswith(".parts"):  # which are told apart by their place
            asyncio.run(to.finish())


def check_parts(dsn: str) -> None:
    """Each row of the store is there once."""
    asyncio.run(destination(dsn).finish())
    parts = [one for one in Path(dsn).iterdir() if one.suffix == ".jsonl"]
    rows = [(row["_id"], row["_fetched_at"]) for part in parts for row in lines_of(part)]
    assert len(rows) == len(set(rows)) == len(BATCHES[0]) + 1, rows


def check_export(dsn: str) -> None:
    old = {row.fingerprint: str(row.item["title"]) for row in BATCHES[0]}
    assert dict(titles(dsn)) in (old, EXPECTED), titles(dsn)
    asyncio.run(destination(dsn).finish())
    assert dict(titles(dsn)) == EXPECTED, titles(dsn)
    strays = {p.name for p in Path(dsn).parent.iterdir()} - {Path(dsn).name, ".skitter"}
    assert not strays, strays


# --- killing --------------------------------------------------------------------------------------


def tracer(on_line: Callable[[str], None]) -> Callable[..., Any]:
    """Tells of every line of the sinks that is about to run."""

    def trace_lines(frame: Any, event: str, _: Any) -> Any:
        if event == "line":
            on_line(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}")
        return trace_lines

    def trace(frame: Any, event: str, _: Any) -> Any:
        return trace_lines if frame.f_code.co_filename.startswith(OURS) else None

    return trace


def fork(work: Callable[[], None]) -> int:
    """Run it in a child; its wait status."""
    return os.waitpid(begin(work), 0)[1]


def begin(work: Callable[[], None]) -> int:
    """Run it in a child, and go on; its pid."""
    if child := os.fork():
        return child
    try:
        work()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def attempt(dsn: str, on_line: Callable[[str], None]) -> None:
    trace = tracer(on_line)
    threading.settrace(trace)
    sys.settrace(trace)
    if is_whole(dsn):
        asyncio.run(destination(dsn).finish())
    else:
        deliver(dsn, acks_of(dsn), batches_of(dsn))
    sys.settrace(None)


def prepare(dsn: str) -> None:
    if is_whole(dsn):
        prepare_export(dsn)


def check(dsn: str) -> None:
    if dsn.endswith(".parts"):
        check_parts(dsn)
    elif is_whole(dsn):
        check_export(dsn)
    else:
        resume(dsn, acks_of(dsn))


def is_whole(dsn: str) -> bool:
    return Path(dsn).suffix in (".csv", ".parquet", ".parts")


def acks_of(dsn: str) -> Path:
    return Path(dsn).with_name("acks")


def kill_at(last: int) -> Callable[[str], None]:
    numbers = count()

    def on_line(_: str) -> None:
        if next(numbers) == last:
            os.kill(os.getpid(), signal.SIGKILL)

    return on_line


def record(home: Path, name: str) -> list[str]:
    """The lines that a writer runs when nobody kills it."""
    log = home.with_name("lines")

    def work() -> None:
        lines: list[str] = []
        attempt(str(home / name), lines.append)
        log.write_text("\n".join(lines))

    assert fork(work) == 0
    return log.read_text().splitlines()


def ends(lines: list[str]) -> list[int]:
    """Where each line runs first, and last."""
    first = {line: n for n, line in reversed(list(enumerate(lines)))}
    last = {line: n for n, line in enumerate(lines)}
    return sorted({*first.values(), *last.values()})


def copy(before: Path, home: Path) -> None:
    shutil.copytree(before, home)
    if (home / ".skitter").exists():
        trust(home / ".skitter")


def kill_and_check(before: Path, name: str, point: int) -> None:
    home = before.with_name(str(point))
    copy(before, home)
    dsn = str(home / name)
    status = fork(lambda: attempt(dsn, kill_at(point)))
    assert os.WIFSIGNALED(status), f"line {point} was not reached"
    assert fork(lambda: check(dsn)) == 0, f"killed at line {point}"
    shutil.rmtree(home)


def main(name: str, base: Path, *, which: str, every: int) -> int:
    """Kill at each of the points, a few at a time; how many there were."""
    if name.endswith(".parquet"):
        import pyarrow.parquet  # noqa: F401  once, and not in each child
    gc.disable()  # or each child would copy the pages of all objects that it looks at
    gc.freeze()
    before, whole = base / "before", base / "whole"
    before.mkdir()
    assert fork(lambda: prepare(str(before / name))) == 0
    copy(before, whole)
    lines = record(whole, name)
    points = (ends(lines) if which == "lines" else list(range(len(lines))))[::every]

    def work(some: list[int]) -> None:
        for point in some:
            try:
                kill_and_check(before, name, point)
            except AssertionError as error:
                error.add_note(f"at {lines[point]}")
                raise

    runners = [begin(partial(work, points[n::RUNNERS])) for n in range(RUNNERS)]
    assert [os.waitpid(pid, 0)[1] for pid in runners] == [0] * RUNNERS
    return len(points)


if __name__ == "__main__":
    print(main(sys.argv[1], Path(sys.argv[2]), which=sys.argv[3], every=int(sys.argv[4])))  # noqa: T201
