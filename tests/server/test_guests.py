"""What those do not learn who may only look, or only at their own jobs."""

from __future__ import annotations

import json
import platform
from collections.abc import AsyncIterator

import httpx
import pytest

from server.test_events import first, listening
from skitter.errors import DiskFull, ServerFull, ServerUnreachable
from skitter.frontier.jobs import create_job, purge_job
from skitter.frontier.records.agents import Agent, Offer, report_agent
from skitter.frontier.records.operators import NewAction, new_token, note_action
from skitter.frontier.workers import log, read_log
from skitter.server.problems import public

OTHERS = "neighbour"


@pytest.fixture
async def others(server, job) -> AsyncIterator[str]:
    """A job of another tenant."""
    name = f"{OTHERS}-{job}"
    yield name
    await purge_job(await create_job(server, name))


async def of_jobs(client_with, server, scope: str, *jobs: str) -> httpx.AsyncClient:
    client: httpx.AsyncClient = await client_with()
    token = await new_token(server, name="guest", scopes=[scope], jobs=jobs)
    client.headers["authorization"] = f"Bearer {token}"
    return client


async def test_only_who_operates_all_jobs_learns_where_redis_is(client_with, server, job):
    host = server.where
    for scope, jobs, knows in [
        ("operate", (), True),
        ("read", (), False),
        ("operate", (job,), False),
        ("read", (job,), False),
    ]:
        client = await of_jobs(client_with, server, scope, *jobs)
        me = await client.get("/api/me")
        assert me.json()["server"] == (host if knows else "")
        daemon = (await client.get("/daemonstatus.json")).json()
        assert daemon["node_name"] == (platform.node() if knows else "skitter")


async def test_nothing_that_a_tenant_reads_names_others_or_the_server(
    client_with, server, frontier, job, others
):
    """Every route of the table that reads without parts of a path but the job."""
    from skitter.server.api.routes import ROUTES

    await create_job(server, others)
    await log(frontier, "warning", "w", f"{server.where} does not answer. Waiting.")
    await note_action(server, f"root@{platform.node()}-x", NewAction(job, "pause"))
    await note_action(server, "root@elsewhere", NewAction(others, "pause"))
    offers = [Offer(name=others, target="x.py")]
    await report_agent(
        server, Agent(name=f"agent-{OTHERS}", host="h", pid=1, at_most=1, offers=offers)
    )
    guest = await of_jobs(client_with, server, "operate", job)
    asked = 0
    for route in ROUTES:
        if route.method != "GET" or route.media == "text/event-stream":
            continue
        path = route.path.replace("{job}", job)
        if "{" in path or route.scope is None:
            continue
        answer = await guest.get(path, params={"url": "http://a.test/"} if "/url" in path else {})
        asked += 1
        for secret in (OTHERS, server.where, f"{platform.node()}-x", "elsewhere"):
            assert secret not in answer.text, (path, secret)
    assert asked > 25
    assert (await guest.get(f"/api/jobs/{others}")).status_code == 404


async def test_the_log_of_a_job_does_not_say_where_the_server_is(server, frontier):
    await log(frontier, "warning", "w", f"{server.where} does not answer. Waiting.")
    assert [one.text for one in await read_log(frontier)] == [
        "the server does not answer. Waiting."
    ]


async def test_a_job_that_is_purged_under_a_listener_names_no_other(
    client_with, server, frontier, job, others
):
    await create_job(server, others)
    guest = await of_jobs(client_with, server, "read", job)
    async with listening(guest, job) as told:
        await first(told, "overview")
        await purge_job(frontier)
        gone = await first(told, "gone")
    assert OTHERS not in json.dumps(gone.data)
    assert f"there is no job {job!r}" in gone.data["detail"]


def test_errors_name_no_address_and_no_folder(tmp_path):
    where = "rediss://10.1.2.3:6380/0"
    assert public(ServerUnreachable(f"{where} does not answer (10.1.2.3:6380)")) == (
        "Redis does not answer: the log of `skitter serve` says more."
    )
    assert public(ServerFull(where)).startswith("Redis has no memory left (maxmemory)")
    assert str(tmp_path) not in public(DiskFull(tmp_path))
