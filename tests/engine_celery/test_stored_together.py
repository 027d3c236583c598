"""Results are stored in two round trips for a batch of pages, as Celery would store each."""

from __future__ import annotations

from typing import Any

import pytest
from celery.app.task import Context

from engine_celery.conftest import Station
from skitter.celery.jobs import QUEUED, JobSpec
from skitter.celery.results import ResultSink
from skitter.celery.runtime import runtime_of
from skitter.model import Result
from skitter.sinks.base import SinkAway

pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated setex")  # Celery's own


def _row(id: str, title: Any, **more: Any) -> Result:
    task = {"id": id, "task": "skitter.scrape", "args": ["http://a.test/"], "kwargs": {}, **more}
    item = {"task": task, "url": "http://a.test/", "items": [{"title": title}]}
    return Result(id=id, url="http://a.test/", fingerprint=id, index=0, fetched_at=0.0, item=item)


def _wait(station: Station, job: str, *ids: str) -> None:
    for id in ids:
        station.app.backend.store_result(id, {"job": job, "born": "1"}, QUEUED)


def _sink(station: Station, job: str) -> ResultSink:
    return ResultSink(runtime_of(station.app), JobSpec(job=job, kind="scrape"))


def _calls(app: Any) -> dict[str, int]:
    stats = app.backend.client.info("commandstats")
    return {name.removeprefix("cmdstat_"): found["calls"] for name, found in stats.items()}


def test_a_batch_of_results_is_stored_together(busy: Station):
    app, ids = busy.app, [f"together-{i}" for i in range(20)]
    _wait(busy, "together", *ids)
    _wait(busy, "another", "together-other")
    app.backend.store_result("together-done", "kept", "SUCCESS")
    rows = [*(_row(id, id) for id in ids), _row(ids[0], "the same task once more")]
    rows += [_row("together-other", 1), _row("together-unknown", 1), _row("together-done", 1)]
    before = _calls(app)
    busy.run(_sink(busy, "together").write(rows))
    after = _calls(app)
    assert [app.AsyncResult(id).get(timeout=5) for id in ids] == [{"title": id} for id in ids]
    assert app.AsyncResult("together-other").state == QUEUED  # another job's
    assert app.AsyncResult("together-unknown").state == "PENDING"
    assert app.AsyncResult("together-done").result == "kept"
    assert after.get("mget", 0) - before.get("mget", 0) == 1
    assert after["get"] - before["get"] < len(ids)  # only for those that were refused


def test_what_is_stored_is_what_celery_would_store(busy: Station):
    app, about = busy.app, {"parent_id": "p", "root_id": "r", "group": "g"}
    _wait(busy, "exact", "exact-1", "exact-2")
    rows = [_row(id, "é", **about) for id in ("exact-1", "exact-2")]
    busy.run(_sink(busy, "exact").write(rows))
    request = Context(rows[0].item["task"] | {"id": "exact-celery", "delivery_info": {}})
    app.backend.mark_as_done("exact-celery", {"title": "é"}, request)
    ours, theirs = (app.backend.get_task_meta(id) for id in ("exact-1", "exact-celery"))
    differing = {"task_id", "date_done"}
    assert [type(ours[one]) for one in differing] == [type(theirs[one]) for one in differing]
    assert {**ours, **{one: 0 for one in differing}} == {**theirs, **{one: 0 for one in differing}}
    assert (ours["group_id"], ours["parent_id"]) == ("g", "p")
    assert ours["name"] == "skitter.scrape"
    lasting = [
        app.backend.client.ttl(f"celery-task-meta-{id}") for id in ("exact-1", "exact-celery")
    ]
    assert abs(lasting[0] - lasting[1]) < 60


def test_a_value_that_is_not_json_fails_its_own_task_only(busy: Station):
    app = busy.app
    _wait(busy, "json", "json-good", "json-bad")
    busy.run(_sink(busy, "json").write([_row("json-good", 1), _row("json-bad", object())]))
    assert app.AsyncResult("json-good").get(timeout=5) == {"title": 1}
    assert "cannot be sent as JSON" in str(app.AsyncResult("json-bad").result)


def test_a_batch_that_comes_again_changes_nothing(busy: Station):
    """Its process was killed after the results were stored and before the rows were removed."""
    app, ids = busy.app, ["again-1", "again-2"]
    _wait(busy, "again", *ids)
    busy.run(_sink(busy, "again").write([_row(id, "first") for id in ids]))
    before = [app.backend.get(app.backend.get_key_for_task(id)) for id in ids]
    busy.run(_sink(busy, "again").write([_row(id, "second") for id in ids]))
    assert [app.backend.get(app.backend.get_key_for_task(id)) for id in ids] == before


def test_a_backend_that_refuses_is_away_and_the_batch_is_tried_again(station: Station):
    app, ids = station.app, ["full-1", "full-2"]
    _wait(station, "full", *ids)
    sink, rows = _sink(station, "full"), [_row(id, "x" * 1000) for id in ids]
    server = app.backend.client
    server.config_set("maxmemory-policy", "noeviction")
    server.config_set("maxmemory", "1mb")  # less than it has
    with pytest.raises(SinkAway, match="result backend"):
        station.run(sink.write(rows))
    server.config_set("maxmemory", "0")
    station.run(sink.write(rows))
    assert [app.AsyncResult(id).get(timeout=5) for id in ids] == [{"title": "x" * 1000}] * 2
