"""Stored items over HTTP: from where this server is configured to read, and from nowhere else."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from sinks.making import FETCHED_AT, result, write
from skitter.crawl.outputs import open_destination
from skitter.frontier.items import ItemStream
from skitter.frontier.records.outputs import claim_sink
from skitter.frontier.sites.sessions import Cost, FleetRoutes, Settled, Wanted, open_sessions
from skitter.model import Completion, Request
from skitter.settings import SessionPool, Settings
from skitter.sinks.destination import Destination


async def bring(frontier, count: int) -> None:
    await frontier.add([Request(f"http://a.test/{i}") for i in range(count)])
    leases = (await frontier.lease(count)).leases
    items = [{"title": f"Book {one.url[-1]}", "price": "=1+1"} for one in leases]
    done = [Completion(lease=one, items=[it]) for one, it in zip(leases, items, strict=True)]
    await frontier.complete(done)


async def store(frontier, dsn: str, directory) -> None:
    async with open_destination(frontier, Destination(dsn, frontier.job, directory)) as sink:
        await sink.write(await ItemStream(frontier, "a test").read(1000, 0))


async def titles(web, job: str, **query) -> list[str]:
    found, after = [], ""
    while after is not None:
        answer = await web.get(f"/api/jobs/{job}/items", params={**query, "after": after})
        assert answer.status_code == 200, answer.text
        found += [row["title"] for row in answer.json()["rows"]]
        after = answer.json()["next"]
    return sorted(found)


@pytest.fixture(params=["items.db", "items.jsonl"])
async def stored(request, frontier, monkeypatch, tmp_path) -> str:
    """Nine items, where the server reads them."""
    await bring(frontier, 9)
    dsn = str(tmp_path / request.param)
    await store(frontier, dsn, tmp_path)
    monkeypatch.setenv("SKITTER_OUT", dsn)
    return dsn


async def test_stored_items_are_paged_and_filtered(web, stored, job):
    assert await titles(web, job, limit=4) == [f"Book {i}" for i in range(9)]
    assert await titles(web, job, where="book 3") == ["Book 3"]
    assert await titles(web, job, where="7", field="title") == ["Book 7"]
    assert await titles(web, job, where="7", field="price") == []


async def test_stored_items_are_exported(web, stored, job):
    lines = await web.get(f"/api/jobs/{job}/items/export")
    csv = await web.get(f"/api/jobs/{job}/items/export", params={"format": "csv"})

    assert lines.headers["content-type"] == "application/x-ndjson"
    assert "attachment" in lines.headers["content-disposition"]
    assert lines.text.count("\n") == 9
    if stored.endswith(".db"):
        assert csv.text.splitlines()[0] == "_id,_url,_fetched_at,title,price"
        assert "'=1+1" in csv.text  # a spreadsheet does not run it
    else:
        assert csv.status_code == 400


async def test_changes_are_shown_newest_first_and_long_texts_as_a_diff(web, stored, job):
    path = f"/api/jobs/{job}/changes"
    assert (await web.get(path)).json()["rows"] == []
    if not stored.endswith(".db"):
        return  # which has no feed
    text = "".join(f"Line {n} of a text.\n" for n in range(20))
    for number, item in enumerate(({"text": text}, {"text": text + "One more."}, {"text": ""})):
        at = FETCHED_AT + 60 * number
        write(stored, [replace(result(1, item), fetched_at=at)], job=job)

    first = (await web.get(path, params={"limit": 1})).json()
    [row] = first["rows"]
    assert (row["kind"], row["field"], row["new"]) == ("changed", "text", None)
    assert row["diff"][-1] == "-One more."
    [row] = (await web.get(path, params={"after": first["next"]})).json()["rows"]
    assert row["diff"][-1] == "+One more."
    assert (await web.get(path, params={"after": "x"})).status_code == 422


async def test_items_that_no_loader_has_taken_are_shown(web, frontier, job):
    await bring(frontier, 5)

    assert await titles(web, job, limit=2) == [f"Book {i}" for i in range(5)]
    assert (await web.get(f"/api/jobs/{job}/items/export")).status_code == 409
    assert (await web.get(f"/api/jobs/{job}/items", params={"after": "/etc"})).status_code == 422


async def test_a_place_that_only_the_frontier_names_is_not_opened(web, frontier, job, tmp_path):
    secret = tmp_path / "secret.jsonl"
    secret.write_text('{"title": "secret"}\n')
    await claim_sink(frontier, str(secret))

    for path in ("items", "items/export"):
        answer = await web.get(f"/api/jobs/{job}/{path}")
        assert answer.status_code == 409
        assert "SKITTER_OUT" in answer.json()["hint"]


@pytest.mark.parametrize("suffix", ["db", "jsonl"])  # of `run`, and of `crawl`
async def test_items_are_found_where_crawls_put_them_by_default(
    web, frontier, job, suffix, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    await bring(frontier, 2)
    await store(frontier, f"{job}.{suffix}", tmp_path)

    assert await titles(web, job) == ["Book 0", "Book 1"]


async def test_the_named_outputs_of_celery_are_read(web, frontier, job, monkeypatch, tmp_path):
    dsn = f"sqlite:///{tmp_path / 'warehouse.db'}"
    await bring(frontier, 3)
    await store(frontier, dsn, tmp_path)
    assert (await web.get(f"/api/jobs/{job}/items")).status_code == 409

    monkeypatch.setenv("SKITTER_OUTPUT_OTHER", str(tmp_path / "other.db"))
    monkeypatch.setenv("SKITTER_OUTPUT_WAREHOUSE", dsn)

    assert await titles(web, job) == ["Book 0", "Book 1", "Book 2"]


async def test_two_exports_at_once_do_not_hold_each_other_up(web, stored, job):
    path = f"/api/jobs/{job}/items/export"
    first, second = await asyncio.gather(web.get(path), web.get(path))

    assert first.text == second.text


async def test_sessions_and_routes_are_listed(web, frontier, job):
    wanted = [Wanted("a.test", "a.test/shop", make=True), Wanted("b.test", "b.test/", make=True)]
    await open_sessions(frontier, wanted, SessionPool(size=1))

    spent = Settled(route=f"dc-{job}", domain="a.test", verdict="good", cost=Cost(2**20, 2000))
    await FleetRoutes.on(frontier.server).settle([spent])

    rows = (await web.get(f"/api/jobs/{job}/sessions")).json()["rows"]
    routes = (await web.get(f"/api/jobs/{job}/routes")).json()["rows"]

    assert [(row["site"], row["kind"]) for row in rows] == [("a.test", "shop"), ("b.test", "")]
    [total] = [one for one in routes if (one["domain"], one["proxy"]) == ("(all)", f"dc-{job}")]
    assert (total["good"], total["page_faults"], total["success"]) == (1, 0, 1.0)
    assert (total["mb"], total["cost"], total["cost_per_1000_good"]) == (1.0, 0.002, 2.0)


async def test_the_state_of_a_task_is_told(web, site, frontier, job, short_dir):
    assert (await web.get(f"/api/tasks/{job}")).status_code == 501

    site.where = Settings(directory=short_dir / "v")

    assert (await web.get("/api/tasks/0f0e-nothing")).json()["state"] == "PENDING"
    assert (await web.get(f"/api/tasks/{job}")).json()["job"] == job


async def test_a_task_that_is_not_one_is_a_problem(web):
    assert (await web.get("/api/tasks/..%2f..")).status_code == 404
    assert (await web.get("/api/tasks/a%20b")).status_code == 404
