"""Steer a job while it runs: its state, its limits, its hosts."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

from skitter.errors import BadOption, BadURL, JobMismatch
from skitter.frontier.offers import slot_of
from skitter.frontier.options import (
    options_of,
    read_control,
    read_options,
    to_field,
    to_fields,
)
from skitter.frontier.scan import scan_names
from skitter.frontier.seen import seen_set
from skitter.frontier.states import stored_state
from skitter.frontier.traps import free_trapped
from skitter.frontier.wire import ms, side_by_side
from skitter.model import State
from skitter.settings import JOB_OPTIONS, JobOptions, check_number
from skitter.urls import identify

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.shard import Shard


#: Before the name of a field: an operator set it, and it stays when the job is run again.
SET_BY_OPERATOR = "set:"


async def set_state(frontier: Frontier, state: State) -> None:
    """Run, pause, drain or cancel."""
    await write_control(frontier, {"state": stored_state(state)})


async def configure(frontier: Frontier, options: JobOptions, *, create: bool = False) -> None:
    """Set the job's options; every worker obeys them from its next call on."""
    values = to_fields(options) | seen_set(frontier.layout).fields
    if frontier.layout.order == "lifo":
        values |= {"lifo": 1}
    if frontier.layout.shards > 1:
        values |= {"shards": frontier.layout.shards}
    if create:
        values |= {"state": stored_state(State.RUNNING), "born": secrets.randbelow(2**53)}
    await write_control(frontier, values, create=create)
    frontier.options = options
    await settle_hosts(frontier)
    await free_trapped(frontier)


async def change_options(
    frontier: Frontier, changes: Mapping[str, float | str | None]
) -> JobOptions:
    """Set some options and leave the others alone, whoever else sets those. None: no limit."""
    options = replaced(await read_options(frontier.home, lenient=True), changes)
    if "per" in changes:
        check_per(frontier, options)
    changed = [one for one in JOB_OPTIONS if one.name in changes]
    values = {one.field: to_field(one, options) for one in changed}
    await write_control(frontier, values | {SET_BY_OPERATOR + one.field: 1 for one in changed})
    frontier.options = await read_options(frontier.home)
    await settle_hosts(frontier)
    if "shape_budget" in changes:
        await free_trapped(frontier)
    return frontier.options


def check_per(frontier: Frontier, options: JobOptions) -> None:
    """The queue of a URL is that of its host or of its domain, for good. Raises JobMismatch."""
    by_domain, asked = frontier.layout.by_domain, options.politeness.per
    if by_domain != (asked == "domain"):
        stored = "domain" if by_domain else "host"
        hint = f"set it to {stored}"
        raise JobMismatch(frontier.job, "politeness.per", stored=stored, asked=asked, hint=hint)


def replaced(options: JobOptions, changes: Mapping[str, float | str | None]) -> JobOptions:
    """The options with some of them changed, checked. Raises BadOption for an unknown name."""
    tables = {one.name: one.table for one in JOB_OPTIONS}
    for name, value in changes.items():
        if name not in tables:
            raise BadOption("option", name, "one of " + ", ".join(tables))
        group = replace(getattr(options, tables[name]), **{name: value})
        options = replace(options, **{tables[name]: group})
    return options


async def operator_options(frontier: Frontier) -> dict[str, float | None]:
    """What an operator set with `change_options`, by name."""
    control = await read_control(frontier.home)
    options = options_of(frontier.job, control, lenient=True)
    return {
        one.name: getattr(getattr(options, one.table), one.name)
        for one in JOB_OPTIONS
        if SET_BY_OPERATOR + one.field in control
    }


async def release_options(frontier: Frontier, names: Iterable[str]) -> None:
    """Whoever runs the job may set these again."""
    fields = {one.name: one.field for one in JOB_OPTIONS}
    await write_control(frontier, {SET_BY_OPERATOR + fields[name]: "" for name in names})


async def read_controls(frontier: Frontier) -> list[dict[str, str]]:
    """The same of every shard."""
    return await side_by_side(read_control(shard) for shard in frontier.shards)


async def read_birth(frontier: Frontier) -> str:
    """Sets a job apart from one of the same name that was purged."""
    return (await frontier.home.command("HGET", "control", "born") or b"").decode()


async def write_control(
    frontier: Frontier, values: dict[str, object], *, create: bool = False
) -> None:
    rows = list(values.items())
    await side_by_side(shard.control(rows, create=int(create)) for shard in frontier.shards)


async def settle_hosts(frontier: Frontier) -> None:
    """Put every host where the new limits want it: a raised limit frees some."""

    async def settle(shard: Shard) -> None:
        async for names in scan_names(shard, "hosts"):
            await shard.host(names, field="", value="")

    await side_by_side(settle(shard) for shard in frontier.shards)


#: What one host may have of its own, and goes back to: its values, a rest, a delay that was raised.
RESET = (*filter(None, (one.declared.host for one in JOB_OPTIONS)), "blocked_for_s", "raised_s")
HOST_OPTIONS = (*RESET, "crawl_delay_s")


def host_name(text: str) -> str:
    """The host as the frontier names it, from a URL or a part of one."""
    if "://" in text:
        return identify(text).host
    scheme = "https" if text.endswith(":443") else "http"  # a scheme's own port is not named
    try:
        return identify(f"{scheme}://{text}/").host
    except BadURL:
        raise BadOption("the host", text, "as in a URL, such as shop.example:8080") from None


async def set_host(frontier: Frontier, host: str, **values: float | None) -> None:
    """Give one host values of its own, or a rest; None: the job's value again. `host` as in a URL:
    shop.example:8080."""
    await set_slot(frontier, slot_of(host_name(host), frontier.layout), **values)


async def set_slot(frontier: Frontier, slot: str, **values: float | None) -> None:
    """The same for whatever requests name as their `slot`."""
    for name, value in values.items():
        if name not in HOST_OPTIONS:
            raise BadOption("host option", name, ", ".join(HOST_OPTIONS))
        if value is not None:
            low = 1 if name.startswith("max_") else 0
            check_number(name, float(str(value)), low=low, high=2**40)
    shard = frontier.shard_for(slot)
    for name, value in values.items():
        seconds = name.endswith("_s")
        await shard.host(
            [slot],
            field=name.removesuffix("_s") + "_ms" if seconds else name,
            value="" if value is None else ms(float(str(value))) if seconds else value,
        )
