"""How requests end: done, dead with a reason, or taken over by somebody else."""

from __future__ import annotations

import json

import pytest

from skitter.frontier.items import read_items, read_rejected
from skitter.frontier.jobs import purge_job
from skitter.model import Lease, State
from skitter.model import Request as FrontierRequest
from skitter.scrapy.dupefilter import identities
from skitter.scrapy.node.mailbox import AT_THE_END, OpenLease

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def shop(open_shop):
    return open_shop(books=50)


def test_every_way_in_which_a_request_can_end(shop, make_cluster):
    cluster = make_cluster(shop)

    node = cluster.run_odd("endings", SCHEDULER_PERSIST=True)

    assert node.finish() == "finished"
    items = cluster.items()
    assert [one["upc"] for one in items] == [
        *["again"] * 3, "before the failure", "caught", "data", "found before the failure", "gone",
        "moved",
    ]  # fmt: skip
    by_name = {one["upc"]: one for one in items}
    assert by_name["gone"]["status"] == 410
    assert by_name["data"]["text"] == "hello"
    assert by_name["moved"]["hops"] >= 2
    dead = {url.rpartition("/")[2]: reason for url, reason in cluster.dead().items()}
    assert dead["out-of-print-1"] == "404 Not Found"
    assert dead["about"] == "ValueError: on purpose"
    assert "refused" in dead["refused"].lower()
    assert dead["raised"] == "RuntimeError: the errback failed too"
    assert "not a method of the spider" in dead["?lambda"]
    assert f"unsent:GET {shop.url}?lambda" in cluster.dead()
    assert dead["?object"].startswith("meta['it'] is a builtins.object")
    assert set(dead) == {"out-of-print-1", "about", "refused", "raised", "?lambda", "?object"}
    assert node.stat("retry/count") == 3 * 2
    assert cluster.stats().stored == len(items)
    cluster.assert_accounted_for()


def test_a_node_whose_job_is_gone_says_so_and_fails(shop, make_cluster, until):
    """Whatever starts it again, such as systemd, does so only then."""
    cluster = make_cluster(shop)
    node = cluster.run_odd("fed")
    until(lambda: "scrapy node started" in node.log)

    cluster.ask(purge_job)

    assert node.finish(code=1) == "job_gone"
    assert f"the job {cluster.job} is gone: it was purged, or its server has lost it." in node.log


@pytest.mark.parametrize("pipeline", ["RedisPipeline", "ItemPipeline"])
def test_items_that_cannot_be_written_are_set_aside_with_the_reason(shop, make_cluster, pipeline):
    cluster = make_cluster(shop)

    node = cluster.run_odd(
        "unstored",
        SCHEDULER_PERSIST=True,
        ITEM_PIPELINES=json.dumps({f"skitter.scrapy.{pipeline}": 300}),
    )

    assert node.finish() == "finished"
    aside = {
        one.item["upc"]: one for one in cluster.ask(lambda frontier: read_rejected(frontier, 9))
    }
    assert set(aside) == {"no data", "big"}
    assert "object" in aside["no data"].reason
    assert aside["no data"].item["it"].startswith("<object object")
    assert aside["big"].reason.startswith("TooBig")
    assert aside["big"].url == shop.url
    stats = cluster.stats()
    assert (stats.rejected, stats.done, stats.dead) == (2, 1, 0), "the page itself is done"
    assert len(cluster.items()) + stats.items == 1


def test_a_callback_that_is_gone_after_a_deploy_makes_a_dead_letter(
    shop, make_cluster, monkeypatch
):
    cluster = make_cluster(shop)
    # Stopped before it begins: what start yields is queued, and nothing is fetched.
    cluster.run_odd("renamed", SCHEDULER_PERSIST=True, CLOSESPIDER_TIMEOUT=0, DOWNLOAD_DELAY=0)
    cluster.nodes[0].finish()
    cluster.command("DEL", f"{cluster.job}:items")
    monkeypatch.setenv("DEPLOYED", "1")
    cluster.ask(_queue_for_old)

    assert cluster.run_odd("renamed", SCHEDULER_PERSIST=True).finish() == "finished"

    [reason] = cluster.dead().values()
    assert "the spider 'renamed' has no method 'old'" in reason
    assert cluster.items() == []
    cluster.assert_accounted_for()


async def _queue_for_old(frontier):
    from skitter.model import Request

    await frontier.add([Request(url="http://localhost:1/", handler="old", identity="x", slot="x")])


def test_the_children_of_a_slow_page_do_not_wait_for_its_end(shop, make_cluster):
    cluster = make_cluster(shop)

    assert cluster.run_odd("slow", SCHEDULER_PERSIST=True).finish() == "finished"

    assert cluster.items() == [{"upc": "the child came first"}]
    assert cluster.dead() == {}


@pytest.mark.chaos
def test_a_page_that_kills_its_process_is_dead_in_the_end_and_takes_nobody_along(
    shop, make_cluster
):
    cluster = make_cluster(shop)

    for _ in range(10):
        # The next node takes over from a dead one at once. A short lease could run out under a
        # living node of a busy machine: a loss of innocent pages.
        node = cluster.run_odd("killer", SCHEDULER_PERSIST=True, SKITTER_LEASE_S=300)
        if node.wait() == 0:
            break

    [(url, reason)] = cluster.dead().items()
    assert (url[-4:], reason) == ("?bad", "its worker vanished 4 times")
    assert len(cluster.items()) == 12
    cluster.assert_accounted_for()


def test_scrapy_hears_of_duplicates_that_only_the_frontier_knows_and_large_requests_travel(
    shop, make_cluster
):
    cluster = make_cluster(shop)
    cluster.create_paused()

    async def find_it_before(frontier):
        url = f"{shop.url}?known"
        await frontier.add([FrontierRequest(url=url, identity=identities(url)[1], slot="x")])

    cluster.ask(find_it_before)
    cluster.set_state(State.RUNNING)

    node = cluster.run_odd("dropped", SCHEDULER_PERSIST=True)

    assert node.finish() == "finished"
    assert node.log.count(f"dropped: {shop.url}?known") == 1
    assert f"dropped: {shop.url}?new" not in node.log
    assert node.stat("dupefilter/filtered") == 1
    assert {one["upc"]: one["large"] for one in cluster.items()} == {
        shop.url: 0, f"{shop.url}?known": 0, f"{shop.url}?new": 1_000_000
    }  # fmt: skip


def test_more_items_than_fit_into_one_step_are_all_stored_with_a_number_of_their_own(
    shop, make_cluster
):
    cluster = make_cluster(shop)
    both = {"skitter.scrapy.RedisPipeline": 300, "skitter.scrapy.ItemPipeline": 400}

    node = cluster.run_odd("plenty", SCHEDULER_PERSIST=True, ITEM_PIPELINES=json.dumps(both))

    assert node.finish() == "finished"
    raw = cluster.command("LRANGE", f"{cluster.job}:items", 0, -1)
    assert sorted(json.loads(one)["upc"] for one in raw) == list(range(2500))
    results = cluster.ask(_results)
    assert sorted(one.item["upc"] for one in results) == list(range(2500))
    assert len({one.index for one in results}) == 2500


async def _results(frontier):
    return [one async for page in read_items(frontier) for one in page]


@pytest.mark.parametrize("add", ["add_item", "add_push"])
def test_a_page_that_brings_a_million_items_is_not_one_step_of_the_server(add):
    page = FrontierRequest(url="https://example.com/")
    lease = Lease(
        request=page, fingerprint="f", host="h", token="t", priority=0, attempt=1, losses=0
    )
    entry = OpenLease(lease, since_s=0.0)
    for n in range(1_000_000):
        if add == "add_item":
            entry.add_item(n, 10)
        else:
            entry.add_push("list", b"x")

    assert len(entry.items) + len(entry.pushes) == AT_THE_END
    assert len(entry.more_items) + len(entry.more_pushes) == 1_000_000 - AT_THE_END
