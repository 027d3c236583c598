"""The options of a job, as a shard keeps them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from skitter.errors import BadOption, JobDamaged, shorten
from skitter.frontier.wire import ms
from skitter.settings import JobOptions, Limits, Politeness, Retries

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skitter.frontier.shard import Shard


PURGE = "purge"  # a state of its own: every script refuses to work on such a job


async def read_control(shard: Shard) -> dict[str, str]:
    """The state and every limit of a shard, as the server has them."""
    raw = await shard.server.command("HGETALL", shard.keys.key("control"))
    return {name.decode(): value.decode("utf-8", "replace") for name, value in raw.items()}


async def read_options(shard: Shard, *, lenient: bool = False) -> JobOptions:
    """The options as the server has them. Lenient: a limit that is no number counts as none."""
    return options_of(shard.keys.job, await read_control(shard), lenient=lenient)


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
    return all(control.get(name, "") == str(value) for name, value in to_fields(options).items())


#: Where a field on the server has another name than the option.
FIELDS = {"delay_s": "delay_ms", "base_s": "retry_base_ms", "cap_s": "retry_cap_ms"}


def to_fields(options: JobOptions) -> dict[str, object]:
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
    defaults = {name: value for name, value in to_fields(JobOptions()).items() if value != ""}
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
