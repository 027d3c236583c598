"""What the CLI shows and does, over HTTP."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from typing import Any

import pytest

from conftest import rude
from skitter import explain
from skitter.frontier.audit.why import look_at_host
from skitter.frontier.dead import kind_of
from skitter.frontier.feed import ExcludedLink, record_refusals
from skitter.frontier.items import RejectedItem, reject_items
from skitter.frontier.jobs import create_job, list_jobs, open_job
from skitter.frontier.records.metrics import record
from skitter.frontier.workers import Heartbeat, beat, leave, log_lines, take_back
from skitter.model import Failure, Request
from skitter.observe.metrics import TABLES, Batch, Row
from skitter.settings import Layout
from skitter.settings.widening import widening


async def bury(frontier, *urls: str, error: str = "HTTP 404", **fields) -> None:
    await frontier.add([Request(url, **fields) for url in urls])
    leases = (await frontier.lease(1000)).leases
    await frontier.bury([Failure(lease=one, error=error) for one in leases])


# --- jobs -----------------------------------------------------------------------------------------


async def test_a_job_is_created_with_options_and_once(web, job):
    body = {"job": job, "options": {"max_pages": 7, "delay_s": 0.5}}
    made, again = await web.post("/api/jobs", json=body), await web.post("/api/jobs", json=body)

    assert (made.status_code, made.json()["job"]) == (201, job)
    assert (again.status_code, again.json()["type"]) == (409, "urn:skitter:job-exists")
    rows = (await web.get(f"/api/jobs/{job}/settings")).json()["rows"]
    known = {row["name"]: (row["value"], row["by"]) for row in rows}
    assert known["max_pages"] == (7, "operator")
    assert known["max_retries"] == (3, "default")


async def test_bad_names_and_options_are_named(web, job):
    name = await web.post("/api/jobs", json={"job": "../x"})
    option = await web.post("/api/jobs", json={"job": job, "options": {"delay_s": -1}})
    unknown = await web.post("/api/jobs", json={"job": job, "options": {"x": 1}})

    assert (name.status_code, name.json()["field"]) == (400, "job")
    assert (option.status_code, option.json()["field"]) == (400, "delay_s")
    assert unknown.status_code == 400
    assert (await web.get(f"/api/jobs/{job}")).status_code == 404


async def test_a_purge_wants_the_name_again(web, frontier, server, job):
    asked = await web.delete(f"/api/jobs/{job}")
    assert (asked.status_code, asked.json()["field"]) == (422, "confirm")

    done = await web.delete(f"/api/jobs/{job}", params={"confirm": job})

    assert done.json()["removed_keys"] > 0
    assert job not in await list_jobs(server)


async def test_a_setting_with_a_value_of_the_wrong_kind_is_named(web, frontier, job):
    body = {"max_depth": 3, "politeness": {"delay_s": 5}}
    answer = await web.patch(f"/api/jobs/{job}/settings", json=body)

    assert (answer.status_code, answer.json()["field"]) == (422, "politeness")


async def test_settings_are_changed_for_all_workers(web, frontier, server, job):
    changed = await web.patch(f"/api/jobs/{job}/settings", json={"max_depth": 3, "max_pages": None})

    assert changed.status_code == 200
    assert {row["name"]: row["value"] for row in changed.json()["rows"]}["max_depth"] == 3
    limits = (await open_job(server, job)).options.limits
    assert (frontier.options.limits.max_depth, limits.max_depth, limits.max_pages) == (
        None,
        3,
        None,
    )


async def test_a_preview_says_what_a_change_would_do_and_changes_nothing(web, frontier, job):
    await frontier.add([Request(f"http://a.test/{i}", depth=i % 3) for i in range(9)])
    body = {"max_pages": 4, "max_pages_per_host": 2, "max_depth": 2, "max_pending": 5}
    found = await web.post(f"/api/jobs/{job}/settings/preview", json=body)

    assert {row["option"]: row["urls"] for row in found.json()["rows"]} == {
        "max_pages": 5,
        "max_pages_per_host": 7,
        "max_depth": 3,
        "max_pending": 4,
    }
    rows = (await web.get(f"/api/jobs/{job}/settings")).json()["rows"]
    assert {row["value"] for row in rows if row["name"] in body} == {None}


async def test_an_exclusion_is_previewed_checked_kept_and_removed(web, frontier, job):
    await frontier.add([Request(f"http://a.test/{i % 3}/{i}") for i in range(9)])
    path, body = f"/api/jobs/{job}/settings", {"exclude": "/0/* re:/8$"}

    [effect] = (await web.post(f"{path}/preview", json=body)).json()["rows"]
    assert (effect["urls"], effect["becomes"]) == (4, "/0/* re:/8$")
    bad = await web.patch(path, json={"exclude": "re:("})
    assert (bad.status_code, bad.json()["field"]) == (400, "exclude")
    for value in ("/0/* re:/8$", None):
        await web.patch(path, json={"exclude": value})
        rows = (await web.get(path)).json()["rows"]
        assert [row["value"] for row in rows if row["name"] == "exclude"] == [value]


async def test_a_longer_delay_is_previewed_with_the_time_that_it_takes(web, frontier, job):
    """0.3 s to 30 s was said to affect nothing."""
    await frontier.add([Request(f"http://a.test/{i}") for i in range(100)])
    await frontier.add([Request("http://b.test/")])
    path = f"/api/jobs/{job}/settings/preview"

    [effect] = (await web.post(path, json={"delay_s": 30})).json()["rows"]
    assert (effect["option"], effect["becomes"], effect["urls"]) == ("delay_s", 30, 101)
    assert "would take at least 50 min, as a.test has 100 of them; now," in effect["says"]
    assert (await web.post(path, json={"delay_s": frontier.options.politeness.delay_s})).json()[
        "rows"
    ] == []


@pytest.mark.timeout(30)
async def test_no_token_hangs_the_server_with_a_pattern(client_with, web, frontier, job):
    await frontier.add([Request(f"http://a.test/{'a' * 5000}!")])
    path, bomb = f"/api/jobs/{job}/settings", {"exclude": "re:(a+)+$"}

    assert (await (await client_with("read")).post(f"{path}/preview", json=bomb)).status_code == 403
    assert (await web.post(f"{path}/preview", json=bomb)).json()["rows"][0]["urls"] == 0
    around = await web.post(f"{path}/preview", json={"also_include": "re:(?=a)a"})
    assert (around.status_code, around.json()["field"]) == (400, "also_include")


async def test_a_wider_scope_is_previewed_by_the_links_that_were_kept_out(web, frontier, job):
    links = ("http://b.test/1", "http://m.b.test/2", "http://c.test/old/3", "http://b.test/old/4")
    kept_out = {url: ExcludedLink("scope", "", "http://a.test/") for url in links}
    kept_out["http://b.test/5"] = ExcludedLink("robots", "", "http://a.test/")
    await record_refusals(frontier, kept_out)
    path = f"/api/jobs/{job}/settings"
    body = {"also_hosts": "*.b.test", "also_include": "/old/*"}

    effects = (await web.post(f"{path}/preview", json=body)).json()["rows"]
    assert {one["option"]: one["urls"] for one in effects} == {"also_hosts": 3, "also_include": 2}
    bad = await web.patch(path, json={"also_hosts": "*"})
    assert (bad.status_code, bad.json()["field"]) == (400, "also_hosts")
    await web.patch(path, json=body)
    there = (await open_job(frontier.server, job)).options
    assert there.limits.widening == widening("*.b.test", "/old/*")


async def test_a_schedule_is_set_shown_and_removed(web, frontier, job):
    path = f"/api/jobs/{job}/schedule"
    assert (await web.get(path)).json() is None
    assert (await web.put(path, json={"cron": "nope"})).status_code == 400
    assert (await web.put(path, json={"every_s": 60})).json()["every_s"] == 60
    assert (await web.get(path)).json()["next_ms"] > 0
    assert (await web.delete(path)).json() == {"removed": True}


# --- dead letters ---------------------------------------------------------------------------------


async def test_dead_letters_are_paged_without_gaps(web, make_frontier, job):
    frontier = await make_frontier(rude(), Layout(shards=3))
    await bury(frontier, *(f"http://{i}.test/" for i in range(25)))  # all in one millisecond
    path, found, after = f"/api/jobs/{job}/dead", [], ""
    while after is not None:
        page = (await web.get(path, params={"limit": 4, "after": after})).json()
        assert "rows" in page, page
        found += [row["url"] for row in page["rows"]]
        after = page["next"]

    assert sorted(found) == sorted(f"http://{i}.test/" for i in range(25))


async def test_dead_letters_are_filtered_and_shown_without_secrets(web, frontier, job):
    await bury(frontier, "http://a.test/1?password=hush", headers={"authorization": "Bearer hush"})
    await bury(frontier, "http://a.test/2", error="ConnectFailed: refused")
    path = f"/api/jobs/{job}/dead"

    rows = (await web.get(path, params={"reason": "404"})).json()["rows"]
    one = await web.get(f"{path}/{rows[0]['fingerprint']}")

    assert len(rows) == 1
    assert one.json() == rows[0]
    assert "hush" not in one.text
    assert (await web.get(f"{path}/123")).status_code == 404
    assert (await web.get(path, params={"after": "x"})).json()["field"] == "after"


async def test_dead_letters_are_grouped_by_kind_of_reason(web, frontier, job):
    await bury(frontier, "http://a.test/1", error="http://a.test/1: took 3.5 s")
    await bury(frontier, "http://a.test/2", error="http://a.test/2: took 4.75 s")
    await bury(frontier, "http://a.test/3", error="HTTP 404")

    groups = (await web.get(f"/api/jobs/{job}/dead/groups")).json()["rows"]

    assert [(one["count"], one["reason"]) for one in groups] == [(2, "… took … s"), (1, "HTTP 404")]
    body = {"reason": groups[0]["reason"], "preview": True}
    found = await web.post(f"/api/jobs/{job}/dead/retry", json=body)
    assert found.json() == {"matched": 2, "changed": 0}


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("HTTP 503", "HTTP 503"),
        ("KeyError: 'price'", "KeyError: …"),
        ("1234567 bytes, the limit is 100", "… bytes, the limit is 100"),
        ("ValueError: row 7 of 12 is bad", "ValueError: row … of … is bad"),
        ("timeout after 30 s", "timeout after 30 s"),
        (
            "handler book failed: ValueError: row 7 of 12 is bad (shop.py:33: int(text))",
            "handler book failed: ValueError (shop.py:33: int(text))",
        ),
    ],
)
def test_a_kind_of_reason_leaves_out_what_differs(reason, kind):
    assert kind_of(reason) == kind


async def test_dead_letters_are_retried_and_dropped_as_selected(web, frontier, job):
    await bury(frontier, *(f"http://a.test/{i}" for i in range(4)))
    retry, drop = f"/api/jobs/{job}/dead/retry", f"/api/jobs/{job}/dead/drop"
    first = (await web.get(f"/api/jobs/{job}/dead")).json()["rows"][0]

    nothing = await web.post(retry, json={})
    some = await web.post(retry, json={"fingerprints": [first["fingerprint"]]})
    rest = await web.post(drop, json={"all": True, "forget": True})

    assert (nothing.status_code, nothing.json()["field"]) == (422, "all")
    assert some.json() == {"matched": 1, "changed": 1}
    assert rest.json() == {"matched": 3, "changed": 3}
    stats = await frontier.stats()
    assert (stats.pending, stats.dead) == (1, 0)


# --- hosts ----------------------------------------------------------------------------------------


async def test_hosts_are_shown_with_how_their_requests_went(web, server, job):
    frontier = await create_job(server, job)
    await frontier.add(
        [Request(url) for url in ("http://a.test/", "http://b.test/1", "http://b.test/2")]
    )
    await record(
        frontier, Batch(tables={"host": {"a.test": Row(ok=1, failed=3), "b.test": Row(ok=4)}})
    )

    async def order(sort: str) -> list[str]:
        rows = (await web.get(f"/api/jobs/{job}/hosts", params={"sort": sort})).json()["rows"]
        assert {(row["host"], row["failed"]) for row in rows} == {("a.test", 3), ("b.test", 0)}
        return [row["host"] for row in rows]

    assert await order("success") == ["a.test", "b.test"]
    assert await order("queued") == ["b.test", "a.test"]
    assert (await web.get(f"/api/jobs/{job}/hosts", params={"sort": "x"})).status_code == 422


async def test_hosts_are_searched_sorted_and_paged_on_the_server(web, frontier, job):
    """The page searched the 500 rows that it had loaded."""
    names = [f"h{number:04}.test" for number in range(1200)]
    await frontier.add([Request(f"http://{name}/") for name in names])
    await frontier.add([Request(f"http://h0777.test/{i}") for i in range(3)])
    path = f"/api/jobs/{job}/hosts"

    async def ask(**query: Any) -> Any:
        return (await web.get(path, params=query)).json()

    found = await ask(search="H0777")
    assert ([one["host"] for one in found["rows"]], found["total"]) == (["h0777.test"], 1)
    assert (await ask(sort="queued", limit=1))["rows"][0]["host"] == "h0777.test"
    listed: list[str] = []
    after: str | None = ""
    while after is not None:
        page = await ask(sort="host", limit=500, after=after)
        listed += [one["host"] for one in page["rows"]]
        after = page.get("next")
    assert listed == names
    assert (await web.get(path, params={"after": "x"})).json()["field"] == "after"


async def test_jobs_and_workers_are_searched_and_paged_on_the_server(web, server, frontier, job):
    await frontier.add([Request("http://a.test/")])
    await create_job(server, f"{job}-idle")
    now = time.time()
    for number in range(3):
        name, host = f"w{number}", f"box-{number}"
        await beat(frontier, Heartbeat(name=name, host=host, pid=1, started_at=now, at=now + 600))

    def names(answer: Any) -> list[str]:
        return [one.get("name") or one["job"] for one in answer.json()["rows"]]

    found = await web.get(f"/api/jobs/{job}/workers", params={"search": "box-1"})
    assert names(found) == ["w1"]
    pages = await web.get(f"/api/jobs/{job}/workers", params={"limit": 2})
    assert (names(pages), pages.json()["next"], pages.json()["total"]) == (["w0", "w1"], "2", 3)
    assert names(await web.get("/api/jobs", params={"search": f"{job}-id"})) == [f"{job}-idle"]
    await take_back(frontier, "w0", seen=True)
    for name in ("w1", "w2"):
        await leave(frontier, name)
    worst = await web.get("/api/jobs", params={"search": "no workers", "sort": "worst"})
    assert job in names(worst)


async def test_a_host_gets_values_of_its_own_and_a_rest(web, frontier, job):
    await frontier.add([Request("http://a.test:8080/")])
    path = f"/api/jobs/{job}/hosts/a.test:8080"
    changed = await web.patch(path, json={"delay_s": 9, "blocked_for_s": 60})

    assert changed.json()["delay_s"] == 9
    assert (await look_at_host(frontier, "a.test:8080")).blocked_until > 0
    assert (await web.patch(path, json={"reset": True})).json()["own"] == {}
    bad = await web.patch(path, json={"delay_s": -1})
    assert (bad.status_code, bad.json()["field"]) == (400, "delay_s")
    assert (await web.patch(f"/api/jobs/{job}/hosts/..%2fx", json={})).status_code in (400, 404)


# --- records --------------------------------------------------------------------------------------


async def test_the_log_is_read_from_its_end_and_onwards(web, frontier, job):
    await log_lines(frontier, "w", [("info", f"line {i}", "") for i in range(5)])
    await log_lines(frontier, "w", [("error", "bad", "http://a.test/")])
    path = f"/api/jobs/{job}/logs"

    end = (await web.get(path, params={"limit": 3})).json()["rows"]
    loud = (await web.get(path, params={"level": "warning"})).json()["rows"]
    rest = (await web.get(path, params={"after": end[0]["id"]})).json()["rows"]

    assert [row["text"] for row in end] == ["line 3", "line 4", "bad"]
    assert [row["text"] for row in loud] == ["bad"]
    assert [row["text"] for row in rest] == ["line 4", "bad"]
    assert (await web.get(path, params={"after": "x"})).status_code == 422


async def test_figures_are_told_by_whatever_there_is_a_table_of(web, server, job):
    frontier = await create_job(server, job)
    row = Row(ok=3, failed=1, bytes=10, ms=400, spread=(0, 0, 0, 0, 0, 4))
    await record(frontier, Batch(tables={name: {"one": row} for name in TABLES}))
    path = f"/api/jobs/{job}/figures"

    for name in TABLES:
        [said] = (await web.get(path, params={"by": name})).json()["rows"]
        assert (said["name"], said["ok"], said["failed"], said["ms"]) == ("one", 3, 1, 400)
        assert 64 <= said["p95_ms"] <= 128
    assert (await web.get(path, params={"by": "mood"})).status_code == 422


async def test_history_is_a_chart_and_names_are_checked(web, server, job):
    await record(await create_job(server, job), Batch(counts=Counter(pages=5)))
    path = f"/api/jobs/{job}/history"
    chart = (await web.get(path, params={"names": "pages,fetch", "since_s": 600})).json()

    assert sum(one or 0 for one in chart["series"]["pages"]) == 5
    assert set(chart["quantiles"]["fetch"]) == {"p50", "p95", "p99"}
    assert (await web.get(path, params={"names": "nope"})).json()["field"] == "names"


async def test_quality_and_rejected_items_are_shown(web, frontier, job):
    await reject_items(
        frontier, RejectedItem(url="http://a.test/", field="price", reason="not a number", item={})
    )

    rows = (await web.get(f"/api/jobs/{job}/rejected")).json()["rows"]
    assert [(row["field"], row["reason"]) for row in rows] == [("price", "not a number")]
    assert (await web.get(f"/api/jobs/{job}/quality")).json()["bad"] == []


async def test_nobody_waits_while_scrapy_is_imported_for_a_look_up(web, frontier, job, monkeypatch):
    """The look-up of an unknown URL ends only after another call was answered."""
    begun, answered = threading.Event(), threading.Event()

    def identities(url):
        begun.set()
        assert answered.wait(20)
        return []

    monkeypatch.setattr(explain, "_identities", identities)
    looking = asyncio.create_task(web.get(f"/api/jobs/{job}/url?url=http://a.test/never"))
    await asyncio.to_thread(begun.wait)
    assert (await web.get("/api/jobs")).status_code == 200
    answered.set()

    assert (await looking).json()["state"] == "unknown"


async def test_the_story_of_a_url_and_the_audit_are_told(web, frontier, job):
    await frontier.add([Request("http://a.test/")])
    path = f"/api/jobs/{job}/url"

    assert (await web.get(path, params={"url": "http://a.test/"})).json()["state"] == "pending"
    assert (await web.get(path, params={"url": "http://b.test/"})).json()["state"] == "unknown"
    assert (await web.get(path, params={"url": "nope"})).json()["field"] == "url"
    assert (await web.get(path)).status_code == 422
    found = (await web.get(f"/api/jobs/{job}/audit")).json()
    assert (found["clean"], found["counts"]["pending"]) == (True, 1)


async def test_workers_are_listed(web, frontier, job):
    assert (await web.get(f"/api/jobs/{job}/workers")).json()["rows"] == []
