"""Whether every URL is accounted for, and why a URL is where it is."""

from __future__ import annotations

from typing import Any

import msgspec

from skitter.explain import explain_url
from skitter.frontier.admin.jobs import open_job
from skitter.frontier.audit.auditor import audit
from skitter.redact import redact_tree
from skitter.server.call import Call
from skitter.server.query import Query


class OfUrl(Query, frozen=True, kw_only=True):
    """A URL or a fingerprint; the method and body of a request that is not a plain GET."""

    url: str
    method: str = "GET"
    body: str = ""


async def story(call: Call, query: OfUrl) -> dict[str, Any]:
    """The story of a URL: its state, what it waits for, and where it was found."""
    frontier = await call.frontier()
    explanation = await explain_url(
        frontier, query.url, method=query.method, body=query.body.encode()
    )
    found: dict[str, Any] = redact_tree(msgspec.to_builtins(explanation))
    return found


async def audit_job(call: Call) -> dict[str, Any]:
    """Check that every URL is accounted for. Reads the whole job, in small steps."""
    frontier = await open_job(call.site.server, call.path("job"), as_found=True)
    return (await audit(frontier)).document()
