"""What holds for every call: paths, Host header, security headers, broken input."""

from __future__ import annotations

from collections import Counter

import pytest

from skitter.frontier.jobs import create_job
from skitter.frontier.records.metrics import record
from skitter.observe.metrics import Batch
from skitter.server.api.routes import ROUTES
from skitter.server.openapi import openapi


async def test_the_page_and_the_document_of_the_api_are_served(web):
    page = await web.get("/")
    document = await web.get("/api/openapi.json")

    assert page.headers["content-type"].startswith("text/html")
    assert document.json()["openapi"] == "3.1.0"
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["referrer-policy"] == "no-referrer"


async def test_the_page_of_the_api_shows_every_route_and_needs_no_script(web):
    page = (await web.get("/api")).text

    assert all(f'id="{route.name}"' in page for route in ROUTES)
    assert "<script" not in page
    assert (await web.get("/static/api.css")).headers["content-type"].startswith("text/css")


async def test_no_path_leads_out_of_the_page(web):
    for path in ("..%2f..%2fproblems.py", "%2e%2e/problems.py", "api.css%00", "/etc/passwd"):
        answer = await web.get(f"/static/{path}")
        assert answer.status_code in (404, 405), path
        assert answer.headers["content-type"] == "application/problem+json"


def test_every_route_is_in_the_document():
    paths = openapi(ROUTES)["paths"]

    for route in ROUTES:
        operation = paths[route.path][route.method.lower()]
        assert operation["summary"]
        assert operation.get("x-scope") == route.scope


async def test_a_name_that_is_not_ours_is_refused(web):
    for host in ("evil.test", "evil.test:8765", "127.0.0.1.evil.test", ""):
        answer = await web.get("/api/jobs", headers={"host": host})
        assert (answer.status_code, answer.json()["field"]) == (421, "Host")


async def test_localhost_and_addresses_are_names_of_ours(web):
    for host in ("localhost", "localhost:8765", "[::1]:1", "127.0.0.1"):
        assert (await web.get("/healthz", headers={"host": host})).json() == {"ok": True}


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b'{"workers": "x"}', "application/json", 422),
        (b'{"workers": 1}', "text/plain", 415),
        (b" " * (11 * 2**20), "application/json", 413),
    ],
)
async def test_broken_input_is_a_problem(web, frontier, job, body, kind, status):
    headers = {"content-type": kind}
    answer = await web.put(f"/api/jobs/{job}/workers", content=body, headers=headers)

    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"


async def test_prometheus_reads_the_figures_of_all_jobs_with_a_token(web, client_with, job, server):
    await record(await create_job(server, job), Batch(counts=Counter(pages=5)))

    answer = await web.get("/metrics")

    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert f'crawl="{job}"' in answer.text
    assert (await (await client_with()).get("/metrics")).status_code == 401


async def test_an_unknown_path_or_method_is_a_problem(web):
    assert (await web.get("/api/nothing")).json()["status"] == 404
    assert (await web.delete("/healthz")).json()["status"] == 405


async def test_a_wrong_method_is_told_all_that_are_right(web):
    refused = await web.put("/api/jobs")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD, POST")
