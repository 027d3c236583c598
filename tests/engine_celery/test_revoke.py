"""Celery's own ways to end a task reach a page that waits in the frontier."""

from __future__ import annotations

import time

import pytest
from celery import chord
from celery.exceptions import ChordError, TaskRevokedError, TimeLimitExceeded

from skitter.celery import map_reduce, status
from skitter.celery.runtime import runtime_of
from skitter.frontier.jobs import list_jobs
from waiting import until

pytestmark = pytest.mark.timeout(300)
WAIT_S = 120


def test_revoked_and_expired_pages_are_not_fetched_and_a_limit_ends_an_attempt(busy):
    endless = "engine_celery.helper_spiders:endless"
    limited = busy.scrape.apply_async(
        (busy.page("/about?limited"),), {"spider": endless}, time_limit=8
    )
    busy.skitter("pause", "scrape")
    began = time.time()
    before = busy.stats("scrape").pending
    names = ("revoked", "cancelled", "expired", "kept")
    options = {"expired": {"expires": 12}, "kept": {"expires": 3600, "time_limit": 600}}
    sent = {
        one: busy.scrape.apply_async((busy.page(f"/about?{one}"),), **options.get(one, {}))
        for one in names
    }
    try:
        until(lambda: busy.stats("scrape").pending == before + 4)
        sent["revoked"].revoke()
        busy.scrape.cancel(sent["cancelled"].id)
        until(lambda: busy.stats("scrape").pending == before + 2)
        until(lambda: time.time() > began + 13)
    finally:
        busy.skitter("resume", "scrape")

    for one, word in (("revoked", "revoked"), ("cancelled", "revoked"), ("expired", "expired")):
        with pytest.raises(TaskRevokedError, match=word):
            sent[one].get(timeout=WAIT_S)
        assert status(sent[one].id, app=busy.app).state == "REVOKED"
    assert sent["kept"].get(timeout=WAIT_S)["status"] == 200
    fetched = {entry.target for entry in busy.shop.log()}
    assert {f"/about?{one}" for one in names} & fetched == {"/about?kept"}
    with pytest.raises(TimeLimitExceeded):
        limited.get(timeout=WAIT_S)
    until(lambda: busy.stats("scrape").dead + busy.stats("scrape").excluded == 0)
    assert not busy.audit("scrape").problems


def test_a_chord_and_a_map_reduce_that_are_revoked_end(busy):
    busy.skitter("pause", "scrape")
    pages = [
        busy.scrape.s(url).set(task_id=f"part-{i}") for i, url in enumerate(busy.pages(2, "c"))
    ]
    try:
        whole = chord(pages)(busy.summarize.s())
        until(lambda: status("part-1", app=busy.app).state == "QUEUED")
        until(lambda: status("part-0", app=busy.app).state == "QUEUED")
        until(lambda: busy.stats("scrape").pending >= 2)
        busy.app.control.revoke(["part-0"])
        with pytest.raises((ChordError, TaskRevokedError)):
            whole.get(timeout=WAIT_S)
    finally:
        busy.skitter("resume", "scrape")

    mapped = map_reduce(busy.pages(50, "map"), busy.summarize, app=busy.app, delay_s=60)
    until(lambda: status(mapped.id, app=busy.app).pending > 0)
    mapped.revoke()
    with pytest.raises(TaskRevokedError):
        mapped.get(timeout=WAIT_S)
    server = busy.run(runtime_of(busy.app).server())
    until(lambda: f"map-{mapped.id}" not in busy.run(list_jobs(server)))
