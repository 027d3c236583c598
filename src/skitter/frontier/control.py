"""Steer a job while it runs: its state, its limits, its hosts."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from skitter.errors import BadOption, BadURL, JobMismatch
from skitter.frontier.dead import restore_excluded
from skitter.frontier.requests import slot_of
from skitter.frontier.seen import seen_set
from skitter.frontier.sites.learned import free_trapped
from skitter.frontier.totals import (
    SET_BY_OPERATOR,
    options_of,
    read_control,
    read_options,
    to_field,
    to_fields,
)
from skitter.frontier.transport.messages import ms, side_by_side, stored_state
from skitter.frontier.transport.shard import scan_names
from skitter.model import State
from skitter.settings import JOB_OPTIONS, JobOptions, check_number
from skitter.urls import identify

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.transport.shard import Shard


async def set_state(frontier: Frontier, state: State) -> None:
    """Run, pause, drain or cancel."""
    await write_control(frontier, {"state": stored_state(state)})


async def configure(frontier: Frontier, options: JobOptions, *, create: bool = False) -> None:
    """Set the job's options; workers follow them from their next call on."""
    values = to_fields(options) | seen_set(frontier.layout).fields
    if frontier.layout.order == "lifo":
        values |= {"lifo": 1}
    if frontier.layout.shards > 1:
        values |= {"shards": frontier.layout.shards}
    if create:
        born = int.from_bytes(os.urandom(8)) >> 11  # 53 bits: Lua counts in floats
        values |= {"state": stored_state(State.RUNNING), "born": born}
    await write_control(frontier, values, create=create)
    frontier.options = options
    await settle_hosts(frontier)
    await free_trapped(frontier)
    if not create:
        await restore_excluded(frontier)


async def change_options(
    frontier: Frontier, changes: Mapping[str, float | str | None]
) -> JobOptions:
    """Set only these options, so that concurrent changes to others survive. None: no limit."""
    options = replaced(await read_options(frontier.home, lenient=True), changes)
    if "per" in changes:
        check_per(frontier, options)
    changed = [option for option in JOB_OPTIONS if option.name in changes]
    values = {option.field: to_field(option, options) for option in changed}
    await write_control(
        frontier, values | {SET_BY_OPERATOR + option.field: 1 for option in changed}
    )
    frontier.options = await read_options(frontier.home)
    await settle_hosts(frontier)
    if "shape_budget" in changes:
        await free_trapped(frontier)
    if changes.keys() & {"exclude", "include"}:
        await restore_excluded(frontier)
    return frontier.options


def check_per(frontier: Frontier, options: JobOptions) -> None:
    """A job queues URLs by host or by domain and cannot switch. Raises JobMismatch."""
    by_domain, asked = frontier.layout.by_domain, options.politeness.per
    if by_domain != (asked == "domain"):
        stored = "domain" if by_domain else "host"
        hint = f"set it to {stored}"
        raise JobMismatch(frontier.job, "politeness.per", stored=stored, asked=asked, hint=hint)


def replaced(options: JobOptions, changes: Mapping[str, float | str | None]) -> JobOptions:
    """The options with these changes, checked. Raises BadOption for an unknown name."""
    tables = {option.name: option.table for option in JOB_OPTIONS}
    for name, value in changes.items():
        if name not in tables:
            raise BadOption("option", name, "one of " + ", ".join(tables))
        group = replace(getattr(options, tables[name]), **{name: value})
        options = replace(options, **{tables[name]: group})
    return options


async def operator_options(frontier: Frontier) -> dict[str, float | None]:
    """The options an operator set with `change_options`, by name."""
    control = await read_control(frontier.home)
    options = options_of(frontier.job, control, lenient=True)
    return {
        option.name: getattr(getattr(options, option.table), option.name)
        for option in JOB_OPTIONS
        if SET_BY_OPERATOR + option.field in control
    }


async def release_options(frontier: Frontier, names: Iterable[str]) -> None:
    """Let the next run of the job set these again."""
    fields = {option.name: option.field for option in JOB_OPTIONS}
    await write_control(frontier, {SET_BY_OPERATOR + fields[name]: "" for name in names})


async def read_controls(frontier: Frontier) -> list[dict[str, str]]:
    """The control hash of every shard."""
    return await side_by_side(read_control(shard) for shard in frontier.shards)


async def read_birth(frontier: Frontier) -> str:
    """A number that tells a job from a purged one of the same name."""
    return (await frontier.home.command("HGET", "control", "born") or b"").decode()


async def write_control(
    frontier: Frontier, values: dict[str, object], *, create: bool = False
) -> None:
    rows = list(values.items())
    await side_by_side(shard.control(rows, create=int(create)) for shard in frontier.shards)


async def settle_hosts(frontier: Frontier) -> None:
    """Settle every host under the new limits: a raised limit frees some."""

    async def settle(shard: Shard) -> None:
        async for names in scan_names(shard, "hosts"):
            await shard.host(names, field="", value="")

    await side_by_side(settle(shard) for shard in frontier.shards)


#: What can be reset for one host: its own limits, a rest, a raised delay.
RESET = (
    *filter(None, (option.declared.host for option in JOB_OPTIONS)),
    "blocked_for_s",
    "raised_s",
)
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
    """Give one host its own values, or a rest; None restores the job's value. `host` is as in a
    URL: shop.example:8080."""
    await set_slot(frontier, slot_of(host_name(host), frontier.layout), **values)


async def set_slot(frontier: Frontier, slot: str, **values: float | None) -> None:
    """As `set_host`, for the name that requests give as their `slot`."""
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
