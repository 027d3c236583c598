"""Steer a job while it runs: its state, its limits, its hosts."""

from __future__ import annotations

import math
import secrets
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from skitter.errors import BadOption, BadURL, JobDamaged, shorten
from skitter.frontier.scan import scan_names
from skitter.frontier.wire import ms, side_by_side
from skitter.model import State
from skitter.settings import JobOptions, Limits, Politeness, Retries, check_number
from skitter.urls import identify, shard_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.shard import Shard


PURGE = "purge"  # a state of its own: every script refuses to work on such a job


async def set_state(frontier: Frontier, state: State) -> None:
    """Run, pause, drain or cancel."""
    await _write(frontier, {"state": state.value})


async def configure(frontier: Frontier, options: JobOptions, *, create: bool = False) -> None:
    """Set the job's options; every worker obeys them from its next call on."""
    values = _to_fields(options)
    if bloom := frontier.layout.bloom:
        values |= {"bloom_blocks": bloom.blocks, "bloom_hashes": bloom.hashes}
    if frontier.layout.order == "lifo":
        values |= {"lifo": 1}
    if frontier.layout.shards > 1:
        values |= {"shards": frontier.layout.shards}
    if create:
        values |= {"state": State.RUN.value, "born": secrets.randbelow(2**53)}
    await _write(frontier, values, create=create)
    frontier.options = options
    await settle_hosts(frontier)


async def change_options(frontier: Frontier, changes: Mapping[str, float | None]) -> JobOptions:
    """Set some options and leave the others alone, whoever else sets those. None: no limit."""
    options = replaced(await read_options(frontier, lenient=True), changes)
    names = [_FIELDS.get(name, name) for name in changes]
    await _write(frontier, {name: _to_fields(options)[name] for name in names})
    frontier.options = await read_options(frontier)
    await settle_hosts(frontier)
    return frontier.options


def replaced(options: JobOptions, changes: Mapping[str, float | None]) -> JobOptions:
    """The options with some of them changed, checked. Raises BadOption for a name that is none."""
    groups = {one.name: getattr(options, one.name) for one in fields(JobOptions)}
    known = {one.name: name for name, group in groups.items() for one in fields(group)}
    for name, value in changes.items():
        if name not in known:
            raise BadOption("option", name, "one of " + ", ".join(known))
        groups[known[name]] = replace(groups[known[name]], **{name: value})
    return JobOptions(**groups)


async def read_control(shard: Shard) -> dict[str, str]:
    """The state and every limit of a shard, as the server has them."""
    raw = await shard.server.command("HGETALL", shard.keys.key("control"))
    return {name.decode(): value.decode("utf-8", "replace") for name, value in raw.items()}


async def read_controls(frontier: Frontier) -> list[dict[str, str]]:
    """The same of every shard."""
    return await side_by_side(read_control(shard) for shard in frontier.shards)


async def read_birth(frontier: Frontier) -> str:
    """Sets a job apart from one of the same name that was purged."""
    shard = frontier.shards[0]
    return (await shard.server.command("HGET", shard.keys.key("control"), "born") or b"").decode()


async def set_adopted(frontier: Frontier) -> None:
    """What the job has seen was numbered by scrapy-redis: its nodes go on like that."""
    await _write(frontier, {"adopted": 1})


async def is_adopted(frontier: Frontier) -> bool:
    shard = frontier.shards[0]
    return bool(await shard.server.command("HGET", shard.keys.key("control"), "adopted"))


async def read_options(frontier: Frontier, *, lenient: bool = False) -> JobOptions:
    """The options as the server has them. Lenient: a limit that is no number counts as none."""
    control = await read_control(frontier.shards[0])
    return options_of(frontier.job, control, lenient=lenient)


def options_of(job: str, control: Mapping[str, str], *, lenient: bool = False) -> JobOptions:
    stored: dict[str, float] = {}
    for name, value in control.items():
        try:
            stored[name] = _finite(value)
        except ValueError:
            if name != "state" and not lenient:
                what = f"{name} is {shorten(repr(value))}, which is no number"
                raise JobDamaged(job, what) from None
    try:
        return _from_fields(stored)
    except BadOption as error:
        raise JobDamaged(job, str(error).rstrip(".")) from None


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError
    return number


def has_options(control: Mapping[str, str], options: JobOptions) -> bool:
    """Whether a shard has just these."""
    return all(control.get(name, "") == str(value) for name, value in _to_fields(options).items())


async def _write(frontier: Frontier, values: dict[str, object], *, create: bool = False) -> None:
    each = [part for pair in values.items() for part in pair]
    await side_by_side(
        shard.call("control", each, strict=False, create=int(create)) for shard in frontier.shards
    )


async def settle_hosts(frontier: Frontier) -> None:
    """Put every host where the new limits want it: a raised limit frees hosts that stood still."""

    async def settle(shard: Shard) -> None:
        async for names in scan_names(shard, "hosts"):
            await shard.call("host", names, field="", value="")

    await side_by_side(settle(shard) for shard in frontier.shards)


class HostOptions(TypedDict, total=False):
    """What one host may have of its own. None: the job's value again."""

    delay_s: float | None
    max_in_flight: int | None
    max_pages: int | None
    blocked_for_s: float | None


def host_name(text: str) -> str:
    """The host as the frontier names it, from a URL or from what stands in one."""
    if "://" in text:
        return identify(text).host
    scheme = "https" if text.endswith(":443") else "http"  # a scheme's own port is not named
    try:
        return identify(f"{scheme}://{text}/").host
    except BadURL:
        raise BadOption("the host", text, "as in a URL, such as shop.example:8080") from None


async def set_host(frontier: Frontier, host: str, **values: Unpack[HostOptions]) -> None:
    """Give one host values of its own, or a rest. `host` as in a URL: shop.example:8080."""
    await set_slot(frontier, host_name(host), **values)


async def set_slot(frontier: Frontier, slot: str, **values: Unpack[HostOptions]) -> None:
    """The same for whatever requests name as their `slot`."""
    for name, value in values.items():
        if name not in HostOptions.__annotations__:
            raise BadOption("host option", name, ", ".join(HostOptions.__annotations__))
        if value is not None:
            low = 1 if name.startswith("max_") else 0
            check_number(name, float(str(value)), low=low, high=2**40)
    shard = frontier.shards[shard_of(slot, len(frontier.shards))]
    for name, value in values.items():
        seconds = name.endswith("_s")
        await shard.call(
            "host",
            [slot],
            field=name.removesuffix("_s") + "_ms" if seconds else name,
            value="" if value is None else ms(float(str(value))) if seconds else value,
        )


#: Where a field on the server has another name than the option.
_FIELDS = {"delay_s": "delay_ms", "base_s": "retry_base_ms", "cap_s": "retry_cap_ms"}


def _to_fields(options: JobOptions) -> dict[str, object]:
    """As lua/lib/limits.lua reads them; an empty value is no limit."""
    politeness, retries, limits = options.politeness, options.retries, options.limits
    return {
        "delay_ms": ms(politeness.delay_s),
        "max_in_flight": politeness.max_in_flight,
        "max_retries": retries.max_retries,
        "max_losses": retries.max_losses,
        "retry_base_ms": ms(retries.base_s),
        "retry_cap_ms": ms(retries.cap_s),
        "max_pages": limits.max_pages or "",
        "max_pages_per_host": limits.max_pages_per_host or "",
        "max_depth": "" if limits.max_depth is None else limits.max_depth,
        "max_pending": limits.max_pending or "",
        "max_items": limits.max_items or "",
        "max_items_per_page": limits.max_items_per_page,
        "max_links_per_page": limits.max_links_per_page,
    }


def _from_fields(stored: dict[str, float]) -> JobOptions:
    defaults = {name: value for name, value in _to_fields(JobOptions()).items() if value != ""}
    values: dict[str, Any] = {**defaults, **stored}

    def limit(name: str) -> int | None:
        return int(values[name]) if name in values else None

    return JobOptions(
        politeness=Politeness(
            delay_s=values["delay_ms"] / 1000, max_in_flight=int(values["max_in_flight"])
        ),
        retries=Retries(
            max_retries=int(values["max_retries"]),
            max_losses=int(values["max_losses"]),
            base_s=values["retry_base_ms"] / 1000,
            cap_s=values["retry_cap_ms"] / 1000,
        ),
        limits=Limits(
            max_pages=limit("max_pages"),
            max_pages_per_host=limit("max_pages_per_host"),
            max_depth=limit("max_depth"),
            max_pending=limit("max_pending"),
            max_items=limit("max_items"),
            max_items_per_page=int(values["max_items_per_page"]),
            max_links_per_page=int(values["max_links_per_page"]),
        ),
    )
