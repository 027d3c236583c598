"""Quotas of tenants: set, list, remove."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from skitter.cli.common import SERVER, Json, Where, on_server
from skitter.cli.parameters import Argument, Group, Option
from skitter.cli.show.output import answer, emit_json, grid, say
from skitter.cli.status import quota_line
from skitter.errors import UsageError
from skitter.frontier.quotas import (
    QUOTAS,
    Quota,
    QuotaUse,
    Tenant,
    list_tenants,
    remove_tenant,
    set_tenant,
    uses_of,
)
from skitter.frontier.records.operators import NewAction
from skitter.frontier.transport.connection import Server
from skitter.settings.option import number_of

group = Group(help="Set quotas for the jobs of one name pattern, and see what is used.")

Pattern = Annotated[str, Argument(metavar="PATTERN", help="Names of jobs: 'shop-*'.")]
#: None: as it is.
Number = str | None
NONE = " none: no limit."


@group.add("set")
def set_quotas(
    pattern: Pattern,
    max_jobs: Annotated[Number, Option(metavar="N", help="Jobs that there may be." + NONE)] = None,
    max_pending: Annotated[
        Number, Option(metavar="N", help="URLs that may wait, such as 1M; then pushes wait." + NONE)
    ] = None,
    max_pages_per_day: Annotated[
        Number,
        Option(metavar="N", help="Pages begun from 00:00 UTC on, tries included." + NONE),
    ] = None,
    where: Where = SERVER,
    as_json: Json = False,
) -> None:
    """Set quotas for all jobs whose names match, together. Without options, show them."""
    given = dict(zip(QUOTAS, (max_jobs, max_pending, max_pages_per_day), strict=True))
    changes: dict[Quota, int | None] = {
        name: None if text == "none" else number_of(name, text)
        for name, text in given.items()
        if text is not None
    }
    said = " ".join(f"{name}={given[name]}" for name in changes)

    async def work(server: Server) -> tuple[Tenant, list[QuotaUse]]:
        if changes:
            tenant = await set_tenant(server, pattern, changes)
        else:
            tenant = await _find(server, pattern)
        return tenant, await uses_of(server, [tenant])

    action = NewAction("", "tenant set", f"{pattern}: {said}") if changes else None
    tenant, uses = on_server(where, work, action=action)
    lines = [f"{pattern}: {quota_line(use)}" for use in uses] or [f"{pattern}: no quotas."]
    answer({"tenant": tenant, "use": uses}, "\n".join(lines), as_json=as_json)


async def _find(server: Server, pattern: str) -> Tenant:
    for tenant in await list_tenants(server):
        if tenant.jobs == pattern:
            return tenant
    raise UsageError(
        f"{pattern!r} has no quotas: `skitter tenant set --help` shows which it may have."
    )


@group.add("list")
def show(where: Where = SERVER, as_json: Json = False) -> None:
    """List the tenants, their quotas, and what is used of each."""

    async def work(server: Server) -> tuple[list[Tenant], list[QuotaUse]]:
        tenants = await list_tenants(server)
        return tenants, await uses_of(server, tenants)

    tenants, uses = on_server(where, work)
    if as_json:
        emit_json([_document(tenant, uses) for tenant in tenants])
    elif uses:
        grid(["jobs", "quota", "used", "limit"], [[*msgspec.structs.astuple(use)] for use in uses])
    else:
        say("There are no quotas: `skitter tenant set 'shop-*' --max-jobs 20` sets one.")


def _document(tenant: Tenant, uses: list[QuotaUse]) -> dict[str, Any]:
    used = {use.quota: use.used for use in uses if use.tenant == tenant.jobs}
    return {**msgspec.structs.asdict(tenant), "used": used}


@group.add("remove")
def remove(pattern: Pattern, where: Where = SERVER, as_json: Json = False) -> None:
    """Remove the quotas of a tenant. Its jobs and tokens stay."""
    action = NewAction("", "tenant remove", pattern)
    on_server(where, lambda server: remove_tenant(server, pattern), action=action)
    answer({"jobs": pattern, "removed": True}, f"{pattern}: no quotas.", as_json=as_json)
