"""The benchmarks run, at sizes at which they measure nothing. No clock is judged here."""

from __future__ import annotations

import io
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Barrier, BrokenBarrierError

import msgspec
import pytest
from rich.console import Console

from benchmarks import peers
from benchmarks.contest import Contender, Figure, Goal, Row, take_turns
from benchmarks.frontier import FRONTIER
from benchmarks.frontier.lease import Lease
from benchmarks.frontier.memory import Memory
from benchmarks.frontier.speed import Speed, in_batches, one_by_one
from benchmarks.ground import make_urls
from benchmarks.record import read_record, write_record
from benchmarks.render import progress_on_stderr, report_table
from benchmarks.report import Finding, Report, describe_machine
from benchmarks.suite import measure, run_suite
from skitter.errors import BadOption, InfrastructureError
from skitter.urls import identify

ROOT = Path(__file__).parents[2]
SPEED = Speed(urls=250, few_urls=5, hosts=10, rounds=2, peers=())
MEMORY = Memory(urls=600, hosts=10, peers=())


def test_urls_are_distinct_of_typical_length_and_spread_over_the_hosts():
    urls = make_urls(1000, hosts=10)
    targets = [identify(url) for url in urls]

    assert len({target.canonical for target in targets}) == 1000
    assert len({target.host for target in targets}) == 10
    assert all(55 <= len(url) <= 70 for url in urls)


async def test_speed_completes_every_url_both_ways_and_has_no_verdict_without_a_peer(ground, told):
    batches, single, work, _ = await measure(ground, [SPEED])

    assert batches.measured > 0
    assert single.measured > 0
    assert work.measured > 0
    assert (len(batches.rounds), batches.ratio, batches.ok) == (2, None, None)
    assert "speed: round 2 of 2, one by one" in told


async def test_a_peer_of_the_queue_gets_the_same_urls_and_is_judged(ground, fake_peer):
    peer = fake_peer("""echo '{"popped": 5, "seconds": 500, "cpu_seconds": 500}'""")
    batches, single, work, _ = await measure(ground, [replace(SPEED, peers=(peer,))])

    assert (batches.peer, batches.goal, batches.ok) == (1e8, "12 times faster", True)
    assert (single.peer, single.goal, single.ok) == (1e8, "twice as fast", True)
    assert batches.ratio == 1e8 / batches.measured
    assert (work.peer or 0) >= 1e8  # and what the server has done meanwhile
    assert len((ground.directory / "few.txt").read_text().splitlines()) == 5


async def test_a_run_that_does_not_complete_everything_is_no_result(ground):
    with pytest.raises(AssertionError, match="1 of 2 URLs"):
        await in_batches(ground, ["https://a.test/", "https://a.test/#again"])
    await ground.clear()
    with pytest.raises(AssertionError, match="1 of 2 URLs"):
        await one_by_one(ground, ["https://a.test/", "https://a.test/#again"])


async def test_memory_is_measured_pending_and_done(ground):
    pending, seen = await measure(ground, [MEMORY])

    assert pending.measured > seen.measured > 0
    assert (pending.unit, pending.goal, seen.goal) == ("bytes", "at most 200", "at most 10")


async def test_lease_has_a_row_per_number_of_hosts_and_judges_the_last(ground):
    first, last = await measure(ground, [Lease(hosts=(1000, 1001), turns=1)])

    assert (first.ratio, first.ok) == (1.0, None)
    assert last.measured > 0
    assert last.ok is not None
    assert "median of 20 calls" in last.what


async def test_a_measurement_leaves_nothing_behind(ground):
    findings = await measure(ground, [SPEED, MEMORY])

    assert [finding.name for finding in findings] == ["speed"] * 4 + ["memory"] * 2
    assert await ground.server.command("DBSIZE") == 0


async def test_the_record_keeps_parts_that_were_not_measured_again(tmp_path):
    file = tmp_path / "benchmarks.json"
    machine = describe_machine(server="valkey 9.1.2")

    def measured(part, value):
        finding = Finding(name=part, what="how fast", unit="URLs/s", measured=value, rounds=[value])
        report = Report(machine=machine, quick=False, seconds=1.0, findings=[finding])
        write_record("frontier", report, file)

    for part, value in (("speed", 1.0), ("memory", 5.0), ("speed", 2.0)):
        measured(part, value)
    kept = read_record(file)["frontier"]

    assert {part: one.findings[0].measured for part, one in kept.items()} == {
        "speed": 2.0,
        "memory": 5.0,
    }
    assert kept["speed"].machine.date == machine.date


# --- contenders, rows and goals -------------------------------------------------------------------

RATE, COST = Figure("pages/s"), Figure("us", min, inverse=True)


def scripted(name: str, *turns: float, figure: Figure = RATE, rounds: int = 9) -> Contender:
    values = iter(turns)

    async def run() -> dict[Figure, list[float]]:
        return {figure: [next(values)]}

    return Contender(name, run, rounds)


async def test_contenders_alternate_and_a_slow_one_has_fewer_rounds(ground, told):
    ours, theirs = scripted("ours", 1, 3, 2), scripted("theirs", 5, rounds=1)
    await take_turns(ground, [ours, theirs], part="speed", rounds=3)

    assert told == [
        "speed: round 1 of 3, ours",
        "speed: round 1 of 1, theirs",
        "speed: round 2 of 3, ours",
        "speed: round 3 of 3, ours",
    ]
    assert (ours.series[RATE], ours.best(RATE), theirs.best(RATE)) == ([1, 3, 2], 3, 5)


@pytest.mark.parametrize(
    ("figure", "goal", "ratio", "ok"),
    [
        (RATE, Goal("twice", least=2), 1.5, False),
        (RATE, Goal("more", least=1.5), 1.5, True),
        (RATE, Goal("a tenth", most=0.1), 1.5, False),
        (RATE, None, 1.5, None),
        (COST, Goal("twice as fast", least=2), 2.0, True),
        (RATE, Goal("at most 7", most=7, of="measured"), 1.5, True),
        (RATE, Goal("at most 5", most=5, of="measured"), 1.5, False),
    ],
)
async def test_a_row_compares_the_best_of_both_and_is_judged(ground, figure, goal, ratio, ok):
    ours, theirs = scripted("ours", 6, 2, figure=figure), scripted("theirs", 4, 4, figure=figure)
    await take_turns(ground, [ours, theirs], part="speed", rounds=2)
    found = Row(what="x", figure=figure, ours=ours, theirs=theirs, goal=goal).finding("speed")

    assert (found.ratio, found.ok) == (ratio, ok)


async def test_a_goal_that_is_a_ratio_has_no_verdict_without_a_peer(ground):
    ours = scripted("ours", 6)
    await take_turns(ground, [ours], part="speed", rounds=1)
    row = Row(what="x", figure=RATE, ours=ours, goal=Goal("twice", least=2))

    assert row.finding("speed").ok is None


def finding(*, ok: bool | None) -> Finding:
    return Finding(name="speed", what="a thing", unit="us", measured=1234.5, goal="less", ok=ok)


def report(*findings: Finding) -> Report:
    machine = describe_machine(server="valkey 9")
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
    with progress_on_stderr() as progress:
        progress("speed: round 1 of 3")

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
        run_suite(FRONTIER, only=["sped"])


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
        peers.SCHEDULER.install()


async def test_a_peer_that_fails_says_why(fake_peer):
    with pytest.raises(InfrastructureError, match="a peer failed: no module named scrapy"):
        await fake_peer("echo 'no module named scrapy' >&2; exit 1").run(verb="speed")


def test_a_peer_that_two_processes_want_at_once_is_installed_once(monkeypatch, tmp_path):
    begun, both_here = [], Barrier(2)

    def install(*command):
        begun.append(command)
        (tmp_path / "peer").mkdir(exist_ok=True)
        with suppress(BrokenBarrierError):
            both_here.wait(timeout=0.5)

    monkeypatch.setenv("SKITTER_BENCH_DIR", str(tmp_path))
    monkeypatch.setattr(peers, "_quietly", install)
    with ThreadPoolExecutor(2) as both:
        found = list(both.map(partial(peers.environment, "peer"), [("it==1",)] * 2))

    assert len(begun) == 2  # the environment, and what is in it
    assert found == [tmp_path / "peer" / "bin" / "python"] * 2
