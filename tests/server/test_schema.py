"""Whatever the OpenAPI document allows, and what it forbids: answers as it says, never a 500."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable

from skitter.frontier.jobs import create_job, list_jobs, open_job, purge_job
from skitter.frontier.records.operators import new_token
from skitter.server.api.routes import ROUTES
from skitter.server.openapi import openapi

pytestmark = pytest.mark.timeout(300)

#: It never ends.
LEFT_OUT = {"/api/events", "/api/jobs/{job}/items/live"}
#: In every run, and in the slow proof.
PER_ROUTE, MANY = 3, 50
CALM = settings(
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def ask_everything(address: str, token: str, job: str, mode: str, examples: int) -> int:
    """Calls of every route, by the document or against it; how many there were."""
    # Here, or every process that collects this file would import it, which takes half a second.
    import schemathesis
    from schemathesis.core.result import Ok
    from schemathesis.specs.openapi import checks

    as_documented = [
        checks.content_type_conformance,
        checks.response_schema_conformance,
        checks.status_code_conformance,
    ]
    schema = schemathesis.openapi.from_dict(openapi(ROUTES))
    headers, asked = {"authorization": f"Bearer {token}"}, 0

    def ask(case: schemathesis.Case[Any]) -> None:
        nonlocal asked
        asked += 1
        if "job" in case.path_parameters and asked % 3:
            case.path_parameters["job"] = job
        response = case.call(base_url=address.rstrip("/"), headers=headers, timeout=20)
        nobody = response.status_code == 503 and "no worker" in response.text
        assert response.status_code < 500 or response.status_code == 501 or nobody, response.text
        case.validate_response(response, checks=as_documented)

    for found in schema.get_all_operations():
        assert isinstance(found, Ok)
        operation = found.ok()
        if operation.path not in LEFT_OUT:
            with suppress(Unsatisfiable):  # a route that takes nothing cannot be called wrongly
                settings(CALM, max_examples=examples)(
                    given(operation.as_strategy(generation_mode=schemathesis.GenerationMode(mode)))(
                        ask
                    )
                )()
    return asked


@pytest.mark.parametrize("mode", ["positive", "negative"])
@pytest.mark.parametrize("examples", [PER_ROUTE, pytest.param(MANY, marks=pytest.mark.chaos)])
async def test_every_call_is_answered_as_documented(address, server, job, web, mode, examples):
    before = set(await list_jobs(server))
    await create_job(server, job)
    token = await new_token(server, name="schema", scopes=["operate"])
    try:
        asked = await asyncio.to_thread(ask_everything, address, token, job, mode, examples)
    finally:
        for one in {*await list_jobs(server)} - before:
            await purge_job(await open_job(server, one, as_found=True))

    assert asked >= len(ROUTES)
    assert (await web.get("/healthz")).status_code == 200
