"""What an agent and its processes make of runs: what others wrote is not believed."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest

from skitter.cli.started import Crawling
from skitter.crawl.agent import Agency
from skitter.crawl.carried import Started
from skitter.errors import FrontierError, UsageError
from skitter.frontier.records.agents import Offer
from skitter.frontier.records.runs import Lease, Runs, Spec
from skitter.frontier.transport.connection import Server

SPIDER = """
from skitter import Spider

def shop(kind: str = "books", start: str = "http://127.0.0.1:8001/") -> Spider:
    spider = Spider(f"shop-{kind}", start=[start])

    @spider.page
    def page(page):
        pass

    return spider
"""


@pytest.fixture
def target(tmp_path: Path) -> str:
    (tmp_path / "shop.py").write_text(SPIDER)
    return str(tmp_path / "shop.py")


def carried(target: str, spec: Spec, *, started_at: float = 0.0, spent_s: float = 0.0) -> Crawling:
    lease = Lease(
        id="1", token="t", spec=spec, lost=0, started_at=started_at, job="", spent_s=spent_s
    )
    return Crawling(Started(lease=lease, target=target), parent=1, out=0)


def test_an_argument_opens_no_address_of_the_agents_network(target):
    own = carried(target, Spec(spider="shop")).plan
    assert own.worker.trusts_seeds
    given = {"start": "http://169.254.169.254/latest/"}
    plan = carried(target, Spec(spider="shop", arguments=given)).plan
    assert not plan.worker.trusts_seeds
    assert plan.allowing({"169.254.169.254:80"}).worker.fetch.allow_hosts == ("127.0.0.1:8001",)


@pytest.mark.parametrize(
    "spec",
    [
        Spec(spider="shop", arguments={"kind": "other"}, within=["shop-books*"]),
        Spec(spider="shop", job="../x"),
        Spec(spider="shop", out="../x.db"),
        Spec(spider="shop", settings={"fetch.proxy": "http://a.test"}),
        Spec(spider="shop", max_time_s=-1),
    ],
)
def test_a_process_refuses_what_no_run_may_have(target, spec):
    with pytest.raises(UsageError):
        _ = carried(target, spec).plan


def test_the_time_that_is_left_does_not_depend_on_the_agents_clock(target):
    spec = Spec(spider="shop", max_time_s=60)
    for clock in (0.0, time.time() + 3600):
        plan = carried(target, spec, started_at=clock, spent_s=20).plan
        assert plan.max_time_s == pytest.approx(40, abs=5)


async def test_a_process_that_slept_while_another_agent_took_over_discards_nothing(
    target, server: Server
):
    with pytest.raises(FrontierError, match="another agent has this run"):
        await carried(target, Spec(spider="shop", fresh=True)).opened(server)


async def planted(server: Server, **fields: str | bytes) -> str:
    """A run that waits, with fields that no program of ours writes."""
    await server.command("FLUSHALL")
    runs = Runs.on(server)
    await runs.start(Spec(spider="books"), "planted")
    await server.command("HSET", runs.shard.keys.key("run", "planted"), *sum(fields.items(), ()))
    return "planted"


@pytest.mark.parametrize(
    "spec",
    [
        b"no json",
        msgspec.json.encode(Spec(spider="another")),
        msgspec.json.encode(Spec(spider="books", arguments={"kind": "x" * 200_000})),
    ],
    ids=["no record", "a spider that it has not", "too long for a process"],
)
async def test_a_planted_run_ends_and_its_agent_works_on(server: Server, spec: bytes):
    identity, said = await planted(server, spec=spec), list[str]()
    agency = Agency(server, [], 2, "a1", {}, said.append)
    agency.offers = {"books": Offer(name="books", job="books", target="books.py")}
    agency._reported_at = time.monotonic()
    await agency._tick()

    key = Runs.on(server).shard.keys.key("run", identity)
    assert await server.command("HGET", key, "exit_code") == b"2"
    assert "it cannot be started" in said[0]
    assert await Runs.on(server).take("a2", ["books"]) is None


async def test_an_agent_whose_list_is_empty_says_so(server: Server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = list[str]()
    agency = Agency(server, ["spiders/*.py"], 2, "a1", {}, said.append)
    await agency._look_at_list()
    await agency._look_at_list()
    assert said == [f"no spider in spiders/*.py below {tmp_path}: waiting for one"]
