"""Jobs over HTTP: list, look, steer."""

from __future__ import annotations

import pytest

from skitter.frontier.workers import wanted_workers
from skitter.model import Request


async def test_a_job_is_listed_with_the_numbers_of_its_frontier(web, frontier, job):
    await frontier.add([Request(f"http://a.test/{i}") for i in range(3)])

    rows = (await web.get("/api/jobs")).json()["rows"]
    one = (await web.get(f"/api/jobs/{job}")).json()

    assert [row["pending"] for row in rows if row["job"] == job] == [3]
    assert (one["pending"], one["state"], one["notes"]) == (3, "running", [])


@pytest.mark.parametrize(
    ("verb", "state"),
    [("pause", "paused"), ("drain", "draining"), ("cancel", "cancelled"), ("resume", "running")],
)
async def test_a_job_is_steered(web, frontier, job, verb, state):
    done = await web.post(f"/api/jobs/{job}/{verb}")

    assert (done.status_code, done.json()) == (200, {"state": state})
    assert (await frontier.stats()).state == state


async def test_the_number_of_workers_is_set_and_checked(web, frontier, job):
    done = await web.put(f"/api/jobs/{job}/workers", json={"workers": 3})
    bad = await web.put(f"/api/jobs/{job}/workers", json={"workers": -1})

    seen = await web.put(f"/api/jobs/{job}/workers", json={"workers": 9, "preview": True})

    assert done.json() == {"workers": 3, "per_machine": False, "machines": [], "says": ""}
    assert seen.json()["workers"] == 9
    assert await wanted_workers(frontier) == 3
    assert (bad.status_code, bad.json()["field"]) == (422, "workers")


async def test_a_job_that_is_not_there_is_a_problem_that_names_no_other(web, frontier):
    missing = await web.get("/api/jobs/nothing")

    assert missing.status_code == 404
    assert missing.headers["content-type"] == "application/problem+json"
    problem = missing.json()
    assert (problem["type"], problem["field"]) == ("urn:skitter:job-missing", "job")
    assert frontier.job not in missing.text
