"""A loader killed at any instruction leads to no missing and no double row."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sinks.loading import BATCH, item
from sinks.making import JOB, lines_of, rows_of
from skitter.sinks.registry import is_database, open_database
from waiting import Child, while_there_is_time

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
ROWS = 1200


@pytest.fixture
def quick_dir() -> Iterator[Path]:
    """In memory if possible: these tests kill processes, not machines, and sync a lot."""
    memory = Path("/dev/shm")
    base = memory if os.access(memory, os.W_OK) else None
    path = Path(tempfile.mkdtemp(prefix="sk-", dir=base))
    yield path
    shutil.rmtree(path, ignore_errors=True)


def python(script: str, *args: str | Path | int) -> list[str]:
    return [sys.executable, "-W", "error", str(HERE / script), *map(str, args)]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(HERE.parent)}


def kill_everywhere(name: str, directory: Path, which: str, every: int) -> int:
    done = subprocess.run(
        python("killed.py", name, directory, which, every),
        env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.timeout(300)  # tens of processes, one after the other; at each line, by `make chaos`
@pytest.mark.parametrize(
    ("name", "every"),
    [
        ("x.jsonl", 23),
        ("x.csv", 83),
        ("x.parquet", 73),
        ("x.db", 109),
        ("feed.db", 83),
    ],
)
def test_a_writer_killed_at_lines_of_our_code_leads_to_exact_rows(
    name: str, every: int, quick_dir: Path
):
    assert kill_everywhere(name, quick_dir, "lines", every) > 10


@pytest.mark.chaos
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("name", "which"),
    [
        ("x.jsonl", "all"),
        ("x.csv", "lines"),
        ("x.parquet", "lines"),
        ("x.db", "lines"),
        ("feed.db", "lines"),
        ("x.parts", "lines"),
    ],
)
def test_a_writer_killed_at_every_line_of_our_code_leads_to_exact_rows(
    name: str, which: str, quick_dir: Path
):
    assert kill_everywhere(name, quick_dir, which, 1) > 200


def load_with_kills(dsn: str, acks: Path, *, kills: int, seed: int) -> None:
    """Start loaders, kill each in the middle of its work, then let one finish."""
    chance = random.Random(seed)
    most = ROWS // BATCH // (kills + 1)  # so that work is left for all of them
    for attempt in range(kills + 1):
        command = python("loading.py", dsn, acks, ROWS, seed + attempt)
        with Child(
            command, env=environment(), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as loader:  # fmt: skip
            if attempt < kills:
                kill_in_batch(loader, chance.randint(1, most), after_s=chance.uniform(0, 0.02))
            _, errors = loader.communicate()
        assert loader.returncode == (-9 if attempt < kills else 0), errors


def kill_in_batch(loader: subprocess.Popen[str], number: int, *, after_s: float) -> None:
    """Kill it so long after it was allowed the batch of that number; it can have no further one."""
    assert loader.stdin
    assert loader.stdout
    for _ in range(number):
        assert loader.stdout.readline() == "ready\n"
        loader.stdin.write("go\n")
        loader.stdin.flush()
    with contextlib.suppress(subprocess.TimeoutExpired):
        loader.wait(timeout=after_s)
    loader.kill()


def read_all(dsn: str) -> list[dict[str, Any]]:
    if not is_database(dsn):
        return lines_of(Path(dsn))
    with closing(open_database(dsn, job=JOB)) as table:
        return [
            {"_id": f"{row.fingerprint}-{row.index}", **row.item}
            for page in table.read(batch=500)
            for row in page.results
        ]


def check_exact(dsn: str) -> None:
    rows = read_all(dsn)
    assert sorted(row["_id"] for row in rows) == [f"{n:016x}-0" for n in range(ROWS)]
    for row in rows:
        number = int(row["_id"].partition("-")[0], 16)
        expected = {k: str(v) for k, v in item(number).items()}
        assert {
            k: str(v) for k, v in row.items() if k[:1] != "_" and v not in (None, "")
        } == expected


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["x.jsonl", "x.db"])
def test_loaders_killed_at_random_moments_lead_to_exact_rows(name: str, quick_dir: Path):
    acks = quick_dir / "acks"
    acks.touch()
    load_with_kills(str(quick_dir / name), acks, kills=4, seed=len(name))
    check_exact(str(quick_dir / name))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["postgres", "mysql"])
def test_loaders_of_a_server_killed_at_random_moments_lead_to_exact_rows(
    name: str, request: pytest.FixtureRequest, quick_dir: Path
):
    dsn: str = request.getfixturevalue(name)
    acks = quick_dir / "acks"
    acks.touch()
    load_with_kills(dsn, acks, kills=4, seed=7)
    check_exact(dsn)


@pytest.mark.chaos
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ["x.jsonl", "x.db"])
def test_many_loaders_killed_at_random_moments_lead_to_exact_rows(name: str, quick_dir: Path):
    for seed in while_there_is_time(150, least=3):
        home = quick_dir / str(seed)
        home.mkdir()
        (home / "acks").touch()
        load_with_kills(str(home / name), home / "acks", kills=8, seed=seed)
        check_exact(str(home / name))


@pytest.mark.parametrize("name", ["rows_of.db", "rows_of.jsonl"])
def test_the_proof_itself_notices_a_missing_row(name: str, quick_dir: Path):
    acks = quick_dir / "acks"
    acks.write_text("5\n")  # acknowledged, and never written
    load_with_kills(str(quick_dir / name), acks, kills=0, seed=1)
    with pytest.raises(AssertionError):
        check_exact(str(quick_dir / name))
    assert len(
        rows_of(quick_dir / name) if name.endswith("db") else lines_of(quick_dir / name)
    ) == (ROWS - 1)
