"""The options of a job, as a shard stores them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, get_origin

from skitter.errors import BadOption, JobDamaged, shorten
from skitter.frontier.wire import ms
from skitter.settings import (
    JOB_OPTIONS,
    JobOptions,
    Limits,
    Option,
    Politeness,
    Retries,
    Safety,
    Visits,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skitter.frontier.shard import Shard


#: Fields of `control` that are not numbers.
WORDS = frozenset(
    one.field for one in JOB_OPTIONS if one.type is str or get_origin(one.type) is Literal
)


async def read_control(shard: Shard) -> dict[str, str]:
    """The state and the limits of a shard, as stored."""
    return await shard.read_hash("control")


async def read_options(shard: Shard, *, lenient: bool = False) -> JobOptions:
    """The stored options. With `lenient`, those that are nonsense are ignored, to be replaced."""
    return options_of(shard.keys.job, await read_control(shard), lenient=lenient)


def options_of(job: str, control: Mapping[str, str], *, lenient: bool = False) -> JobOptions:
    stored: dict[str, float | str] = {}
    for name, value in control.items():
        try:
            stored[name] = value if name in WORDS else _finite(value)
        except ValueError:
            if name != "state" and not lenient:
                what = f"{name} is {shorten(repr(value))}, which is not a number"
                raise JobDamaged(job, what) from None
    while True:
        try:
            return _from_fields(stored)
        except BadOption as error:
            if not lenient or stored.pop(error.option, None) is None:
                raise JobDamaged(job, _explain(job, error)) from None


def _explain(job: str, error: BadOption) -> str:
    what = str(error).rstrip(".")
    if error.option not in WORDS:
        return what
    flag = error.option.replace("_", "-")
    return f"{what}; `skitter set {job} --{flag} ...` replaces it"


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError
    return number


def has_options(control: Mapping[str, str], options: JobOptions) -> bool:
    """Whether a shard has exactly these options."""
    return all(control.get(name, "") == str(value) for name, value in to_fields(options).items())


def to_fields(options: JobOptions) -> dict[str, object]:
    """The fields that lua/lib/limits.lua reads; an empty value means no limit."""
    return {one.field: to_field(one, options) for one in JOB_OPTIONS}


def to_field(one: Option, options: JobOptions) -> object:
    value = getattr(getattr(options, one.table), one.name)
    if value is None:
        return ""
    if one.type is bool:
        return int(value)
    return ms(value) if one.in_ms else value


def _from_fields(stored: Mapping[str, float | str]) -> JobOptions:
    values: dict[str, dict[str, Any]] = {one.table: {} for one in JOB_OPTIONS}
    for one in JOB_OPTIONS:
        if (value := stored.get(one.field)) is not None:
            values[one.table][one.name] = _value(one, value)
        elif one.optional:  # an absent limit means none, whatever its default
            values[one.table][one.name] = None
    return JobOptions(
        politeness=Politeness(**values["politeness"]),
        retries=Retries(**values["retries"]),
        limits=Limits(**values["limits"]),
        visits=Visits(**values["visits"]),
        safety=Safety(**values["safety"]),
    )


def _value(one: Option, stored: Any) -> Any:
    if one.field in WORDS:
        return stored
    return stored / 1000 if one.in_ms else one.type(stored)
