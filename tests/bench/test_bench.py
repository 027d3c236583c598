"""The benchmarks run, at sizes at which they measure nothing. No clock is judged here."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from benchmarks import Report, Sizes, peers, progress_on_stderr, report_table, run_frontier
from benchmarks.frontier import measure
from benchmarks.ground import Ground, make_urls, prepare_ground
from benchmarks.lease import measure_lease
from benchmarks.memory import measure_memory
from benchmarks.report import Finding, describe_machine
from benchmarks.speed import in_batches, measure_speed, one_by_one
from skitter.errors import BadOption, InfrastructureError
from skitter.urls import identify

ROOT = Path(__file__).parents[2]
TINY = Sizes(
    speed_urls=250,
    few_urls=5,
    memory_urls=600,
    url_hosts=10,
    lease_hosts=(1000, 1001),
    rounds=2,
    turns=1,
)


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
async def ground(told: list[str]) -> AsyncIterator[Ground]:
    async with prepare_ground(told.append) as prepared:
        yield prepared


def test_urls_are_distinct_of_typical_length_and_spread_over_the_hosts():
    urls = make_urls(1000, hosts=10)
    targets = [identify(url) for url in urls]

    assert len({target.canonical for target in targets}) == 1000
    assert len({target.host for target in targets}) == 10
    assert all(55 <= len(url) <= 70 for url in urls)


async def test_speed_completes_every_url_both_ways_and_has_no_verdict_without_a_peer(ground, told):
    batches, single = await measure_speed(ground, None, urls=250, few_urls=5, hosts=10, rounds=2)

    assert batches.measured > 0
    assert single.measured > 0
    assert (len(batches.rounds), batches.ratio, batches.ok) == (2, None, None)
    assert told[-1] == "speed: round 2 of 2, one by one"


async def test_a_run_that_does_not_complete_everything_is_no_result(ground):
    with pytest.raises(AssertionError, match="1 of 2 URLs"):
        await in_batches(ground, ["https://a.test/", "https://a.test/#again"])
    await ground.clear()
    with pytest.raises(AssertionError, match="1 of 2 URLs"):
        await one_by_one(ground, ["https://a.test/", "https://a.test/#again"])


async def test_memory_is_measured_pending_and_done(ground):
    pending, seen = await measure_memory(ground, None, urls=600, hosts=10)

    assert pending.measured > seen.measured > 0
    assert (pending.unit, pending.goal, seen.goal) == ("bytes", "at most 300", "at most 10")


async def test_lease_has_a_row_per_number_of_hosts_and_judges_the_last(ground):
    first, last = await measure_lease(ground, hosts=(1000, 1001), turns=1)

    assert (first.ratio, first.ok) == (1.0, None)
    assert last.measured > 0
    assert last.ok is not None
    assert "median of 20 calls" in last.what


async def test_a_measurement_leaves_nothing_behind(ground):
    findings = await measure(ground, None, TINY, ["speed", "memory"])

    assert [finding.name for finding in findings] == ["speed", "speed", "memory", "memory"]
    assert await ground.server.command("DBSIZE") == 0


def finding(*, ok: bool | None) -> Finding:
    return Finding(name="speed", what="a thing", unit="us", measured=1234.5, goal="less", ok=ok)


def report(*findings: Finding) -> Report:
    machine = describe_machine(server="valkey 9", event_loop="asyncio", peer="")
    return Report(machine=machine, quick=True, seconds=1.0, findings=list(findings))


def test_a_report_is_ok_if_no_goal_was_missed():
    assert report(finding(ok=True), finding(ok=None)).ok
    assert not report(finding(ok=True), finding(ok=False)).ok


def test_a_report_reads_the_same_as_table_and_json():
    made = report(finding(ok=True), finding(ok=False))
    console = Console(record=True, width=200, file=io.StringIO())
    console.print(report_table(made, what="frontier"))
    text = console.export_text()

    assert "a thing" in text
    assert "1,234 us" in text
    assert "NO" in text
    decoded = msgspec.json.decode(made.to_json())
    assert decoded["ok"] is False
    assert decoded["findings"][0]["measured"] == 1234.5
    assert decoded["machine"]["cores"] >= 1


def test_progress_goes_to_stderr_alone(capsys):
    with progress_on_stderr() as tell:
        tell("speed: round 1 of 3")

    captured = capsys.readouterr()
    assert captured.out == ""
    assert "speed: round 1 of 3" in captured.err


def test_it_is_started_as_a_module_and_answers_mistakes_with_one_sentence():
    words = [sys.executable, "-m", "benchmarks", "frontier", "--only", "sped"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=50)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("benchmarks: --only")


def test_an_unknown_measurement_is_refused_before_anything_starts():
    with pytest.raises(BadOption, match="one of speed, memory, lease"):
        run_frontier(only=["sped"])


@pytest.fixture
def no_index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without a package index."""
    monkeypatch.setenv("SKITTER_BENCH_DIR", str(tmp_path))
    monkeypatch.setattr(peers, "_quietly", _fail)
    return tmp_path


def _fail(*command: str | Path) -> None:
    raise FileNotFoundError("no such index")


def test_a_peer_that_cannot_be_installed_is_one_sentence_and_what_to_do(no_index):
    with pytest.raises(
        InfrastructureError, match=r"cannot install scrapy-redis.*SKITTER_BENCH_DIR"
    ):
        peers.scrapy_redis()


async def test_a_peer_that_fails_says_why(tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'no module named scrapy' >&2\nexit 1\n")
    python.chmod(0o755)

    with pytest.raises(InfrastructureError, match="a peer failed: no module named scrapy"):
        await peers.Peer("a peer", python, "scrapy_redis.py.txt").run(verb="speed")
