"""Quotas over HTTP and on the command line."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from skitter.frontier.jobs import create_job
from skitter.frontier.quotas import set_tenant
from skitter.frontier.records.agents import Agent, Offer, report_agent
from skitter.frontier.records.operators import new_token
from skitter.frontier.transport.keys import TENANTS


@pytest.fixture
async def tenant(server, job) -> AsyncIterator[str]:
    pattern = f"{job}-*"
    yield pattern
    await server.command("HDEL", TENANTS, pattern)


@pytest.fixture
async def of_tenant(client_with, server, tenant) -> httpx.AsyncClient:
    """A client with a token of the tenant's jobs."""
    client: httpx.AsyncClient = await client_with()
    token = await new_token(server, name="shop", scopes=["operate"], jobs=[tenant])
    client.headers["authorization"] = f"Bearer {token}"
    return client


async def test_a_push_beyond_the_quota_is_429_and_says_which_and_who_can_raise_it(
    of_tenant, server, job, tenant
):
    await set_tenant(server, tenant, {"max_pending": 3})
    for n in (1, 2):
        await create_job(server, f"{job}-{n}")
    urls = [f"http://example.com/{n}" for n in range(5)]

    said = await of_tenant.post(f"/api/jobs/{job}-1/urls", json={"urls": urls})
    other = await of_tenant.post(f"/api/jobs/{job}-2/urls", json={"urls": urls})

    for answer, added in ((said, 3), (other, 0)):
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "2")
        says = answer.json()["detail"]
        assert f"the jobs {tenant} have the 3 waiting URLs that their quota allows" in says
        assert f"{added} of these went in" in says
        assert f"`skitter tenant set '{tenant}' --max-pending N`" in says


async def test_a_job_beyond_the_quota_is_429_with_a_second_token_too(
    of_tenant, client_with, server, job, tenant
):
    await set_tenant(server, tenant, {"max_jobs": 1})
    assert (await of_tenant.post("/api/jobs", json={"job": f"{job}-1"})).status_code == 201

    second = await client_with()
    token = await new_token(server, name="again", scopes=["operate"], jobs=[tenant])
    second.headers["authorization"] = f"Bearer {token}"
    refused = await second.post("/api/jobs", json={"job": f"{job}-2"})

    assert (refused.status_code, refused.json()["type"]) == (429, "urn:skitter:quota-reached")
    assert f"`skitter tenant set '{tenant}' --max-jobs N`" in refused.json()["detail"]
    assert "retry-after" not in refused.headers


async def test_a_run_that_would_make_one_job_too_many_is_429_and_one_of_a_known_job_is_not(
    of_tenant, server, job, tenant
):
    offers = [Offer(name=f"{job}-{n}", target="x.py") for n in (1, 2)]
    agent = Agent(name=f"a-{job}", host="h", pid=1, at_most=2, offers=offers)
    await report_agent(server, agent)
    await set_tenant(server, tenant, {"max_jobs": 1})
    await create_job(server, f"{job}-1")

    known, new = [await of_tenant.post("/api/runs", json={"spider": f"{job}-{n}"}) for n in (1, 2)]

    assert (known.status_code, new.status_code) == (201, 429)
    assert "max_jobs" in new.json()["detail"]


async def test_each_sees_the_quotas_of_its_own_jobs(of_tenant, web, server, job, tenant):
    await set_tenant(server, tenant, {"max_jobs": 5, "max_pages_per_day": 1000})
    await set_tenant(server, f"other-{tenant}", {"max_jobs": 7})
    await create_job(server, f"{job}-1")
    try:
        mine = (await of_tenant.get("/api/tenants")).json()["rows"]
        assert [(row["tenant"], row["quota"], row["used"], row["limit"]) for row in mine] == [
            (tenant, "max_jobs", 1, 5),
            (tenant, "max_pages_per_day", 0, 1000),
        ]
        everything = (await web.get("/api/tenants")).json()["rows"]
        assert {row["tenant"] for row in everything} >= {tenant, f"other-{tenant}"}
        look = (await of_tenant.get(f"/api/jobs/{job}-1")).json()
        assert [use["quota"] for use in look["quotas"]] == ["max_jobs", "max_pages_per_day"]
    finally:
        await server.command("HDEL", TENANTS, f"other-{tenant}")
