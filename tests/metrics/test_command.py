"""`skitter metrics`: what a crawl measured, and what users did in code of their own."""

from __future__ import annotations

from collections import Counter

import skitter as package
from cli.conftest import skitter, skitter_here  # noqa: F401
from skitter.frontier.jobs import create_job
from skitter.frontier.records.metrics import record
from skitter.observe.metrics import COUNTERS, TIMINGS, Batch, Histogram


async def test_it_shows_the_figures_of_a_crawl(server, job, skitter_here, monkeypatch):  # noqa: F811
    monkeypatch.setenv("COLUMNS", "80")
    frontier = await create_job(server, job)
    counts = Counter(dict.fromkeys(COUNTERS.keys() - {"reports"}, 12_345_678))
    timings = {name: Histogram({0: 90, 320: 10}, 9e9) for name in TIMINGS}
    await record(frontier, Batch(counts, timings))

    shown = (await skitter_here("metrics", "--job", job)).out
    told = (await skitter_here("metrics", "--job", job, "--json")).json
    one = (await skitter_here("metrics", "fetch", "--job", job, "--days", "7", "--json")).json

    assert max(map(len, shown.splitlines())) <= 80
    assert "12,345,678" in shown
    for name in (*COUNTERS, *TIMINGS):
        assert name in shown
    pages = next(row for row in told["counted"] if row["name"] == "pages")
    assert pages["sum"] == 12_345_678
    assert one["counted"] == []
    [fetch] = one["timed"]
    assert (fetch["name"], fetch["count"]) == ("fetch", 100)
    assert fetch["p50_ms"] < 2 < 1000 < fetch["p99_ms"]


def test_it_shows_what_users_counted_and_timed(server_url, skitter):  # noqa: F811
    metrics = package.Metrics(redis=server_url)
    metrics.increment("shown books", 3, tags={"shop": "one"})
    metrics.observe("shown parsing", 0.5, ok=False)
    metrics.close()

    shown = skitter("metrics").out
    told = skitter("metrics", "shown parsing", "--json").json

    assert "shop=one" in shown
    assert told["counted"] == []
    [row] = told["timed"]
    assert (row["name"], row["count"], row["errors"]) == ("shown parsing", 1, 1)


def test_without_figures_it_says_so(skitter, job):  # noqa: F811
    skitter("create", job)

    assert skitter("metrics", "--job", job).out == "Nothing has been counted or timed yet.\n"
    assert skitter("metrics", "shop").out == (
        "Nothing has been counted or timed under the name 'shop' yet; for a crawl, "
        "`skitter metrics --job shop`.\n"
    )


def test_a_figure_that_a_crawl_does_not_have_is_a_mistake(skitter, job):  # noqa: F811
    skitter("create", job)

    answer = skitter("metrics", "surprise", "--job", job)

    assert answer.exit_code == 2
    assert "no metric of a crawl is called 'surprise'" in answer.err
