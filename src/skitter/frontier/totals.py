"""A job over all its shards: its options, its state, its counts, its budget."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_origin

from skitter.errors import BadOption, JobDamaged, JobNewer, shorten
from skitter.frontier.transport.messages import ms, open_state, side_by_side
from skitter.model import State, Stats
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
    from collections.abc import Mapping, Sequence

    from skitter.frontier.transport.shard import Shard


#: Fields of `control` that are not numbers.
WORDS = frozenset(("says", "spider", "state")) | {
    option.field
    for option in JOB_OPTIONS
    if option.type is str or get_origin(option.type) is Literal
}


#: Those of one word of a few, to which a release may add.
_CHOICES = frozenset(option.field for option in JOB_OPTIONS if get_origin(option.type) is Literal)
#: Fields that are not options: the state, and what scripts and other modules note.
FACTS = frozenset(
    (
        *("state", "born", "lifo", "shards", "workers", "fleet"),
        *("adopted", "released", "says", "spider"),
        *("depths", "clock", "shift", "spare", "bloom_blocks", "bloom_hashes"),
    )
)
_FIELDS = frozenset(option.field for option in JOB_OPTIONS)
KNOWN_FIELDS = FACTS | _FIELDS
#: Prefix of a field that marks it as set by an operator: it survives the next run of the job.
SET_BY_OPERATOR = "set:"


def newer_options(control: Mapping[str, str]) -> list[str]:
    """Those that only a newer release knows. They are kept for it."""
    names = {name.removeprefix(SET_BY_OPERATOR) for name in control}
    return sorted(shorten(name) for name in names - KNOWN_FIELDS)


async def read_control(shard: Shard) -> dict[str, str]:
    """The state and the limits of a shard, as stored."""
    return await shard.read_hash("control")


async def read_options(shard: Shard, *, lenient: bool = False) -> JobOptions:
    """The stored options. With `lenient`, those that are nonsense are ignored, to be replaced."""
    return options_of(shard.keys.job, await read_control(shard), lenient=lenient)


def options_of(job: str, control: Mapping[str, str], *, lenient: bool = False) -> JobOptions:
    stored: dict[str, float | str] = {}
    for name in _FIELDS & control.keys():
        value = control[name]
        try:
            stored[name] = value if name in WORDS else _finite(value)
        except ValueError:
            if not lenient:
                what = f"{name} is {shorten(repr(value))}, which is not a number"
                raise JobDamaged(job, what) from None
    while True:
        try:
            return _from_fields(stored)
        except BadOption as error:
            if not lenient and error.option in _CHOICES:
                what = f"{error.option} is {shorten(repr(stored[error.option]))}"
                raise JobNewer(job, f"{what}, which it does not know") from None
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
    return {option.field: to_field(option, options) for option in JOB_OPTIONS}


def to_field(option: Option, options: JobOptions) -> object:
    value = getattr(getattr(options, option.table), option.name)
    if value is None:
        return ""
    if option.type is bool:
        return int(value)
    return ms(value) if option.in_ms else value


def _from_fields(stored: Mapping[str, float | str]) -> JobOptions:
    values: dict[str, dict[str, Any]] = {option.table: {} for option in JOB_OPTIONS}
    for option in JOB_OPTIONS:
        if (value := stored.get(option.field)) is not None:
            values[option.table][option.name] = _value(option, value)
        elif option.optional:  # an absent limit means none, whatever its default
            values[option.table][option.name] = None
    return JobOptions(
        politeness=Politeness(**values["politeness"]),
        retries=Retries(**values["retries"]),
        limits=Limits(**values["limits"]),
        visits=Visits(**values["visits"]),
        safety=Safety(**values["safety"]),
    )


def _value(option: Option, stored: Any) -> Any:
    if option.field in WORDS:
        return stored
    return stored / 1000 if option.in_ms else option.type(stored)


_COUNTS = [name for name, kind in Stats.__annotations__.items() if kind == "int"]


#: Prefix of counters of refused links, as in lua/refuse.lua.
REFUSED_BY = "refused by "


class Totals(NamedTuple):
    """The counts of all shards, each read at its own moment, and whether all are idle."""

    stats: Stats
    idle: bool  # nothing is leased, and nothing more will be
    tickets: int = 0  # drawn so far


async def read_totals(shards: Sequence[Shard]) -> Totals:
    """Add up the counts of the shards.

    They are not read at one moment, and a link may be moving from a shard that is yet to be read to
    one that was. So if all look idle, they are read again: if no ticket was drawn meanwhile, no
    work came in or went out, so all were idle at one moment between the two readings.
    """
    totals = await _read(shards)
    if totals.idle and len(shards) > 1:
        again = await _read(shards)
        totals = again._replace(idle=again.idle and again.tickets == totals.tickets)
    return totals


def _kept_out(total: Counter[str]) -> dict[str, int]:
    """Refused links by kind, most frequent first."""
    return {
        name.removeprefix(REFUSED_BY): number
        for name, number in total.most_common()
        if name.startswith(REFUSED_BY)
    }


async def _read(shards: Sequence[Shard]) -> Totals:
    parts = await side_by_side(shard.counts() for shard in shards)
    total = Counter[str]()
    for _, counts in parts:
        total.update(counts)
    job = shards[0].keys.job
    states = [open_state(job, word) for word, _ in parts]
    shown: dict[str, Any] = {name: total[name] for name in _COUNTS}
    waits = [counts["next_visit_ms"] for _, counts in parts if "next_visit_ms" in counts]
    shown["next_visit_s"] = min(waits) / 1000 if waits else None
    stats = Stats(job=job, state=states[0], kept_out=_kept_out(total), **shown)
    is_spent = 0 < parts[0][1]["max_pages"] <= stats.done
    is_cancelled = all(state is State.CANCELLED for state in states)
    has_work = stats.remaining or stats.reopened or stats.due or stats.looks
    idle = not stats.leased and (is_spent or is_cancelled or not has_work)
    return Totals(stats, idle, total["ticket"])


CEDE_NOTHING = -1


class Share(NamedTuple):
    """A shard's share of max_pages, as allow.lua reports it."""

    granted: int
    ceded: int
    used: int


async def refill(shards: Sequence[Shard], wants: Mapping[int, int]) -> list[int]:
    """Grant pages of max_pages to shards that are short. Returns those that may hand out more now.

    First from what is not granted yet; if that is not enough, from what other shards can spare.
    Shard 0 records all shares (lua/grant.lua); each shard reports what it has, and cedes what it
    does not need (lua/allow.lua). Any client that finds a shard short relays the messages, and may
    die between any two of them. The shares never add up to more than the limit, so max_pages is
    exact regardless of how many clients ask and how often.
    """
    granted = [0] * len(shards)
    for keep in (CEDE_NOTHING, max(wants.values())):
        answers = await _allow(shards, granted, keep=keep)
        shares = [Share(*answer) for answer in answers if answer]
        if len(shares) == len(shards):
            granted = await shards[0].grant(
                [(*share, wants.get(i, 0)) for i, share in enumerate(shares)]
            )
        if len(shares) < len(shards) or not granted:
            return []  # the limit is being set or removed, shard by shard
        free = [
            total - share.ceded - share.used for total, share in zip(granted, shares, strict=True)
        ]
        elsewhere = any(pages > 0 for i, pages in enumerate(free) if i not in wants)
        if not elsewhere or all(free[i] >= want for i, want in wants.items()):
            break
    fed = [i for i in wants if free[i] > 0]
    await _allow([shards[i] for i in fed], [granted[i] for i in fed], keep=CEDE_NOTHING)
    return fed


async def _allow(shards: Sequence[Shard], granted: Sequence[int], *, keep: int) -> list[list[int]]:
    return await side_by_side(
        shard.allow(granted=total, keep=keep) for shard, total in zip(shards, granted, strict=True)
    )


async def read_budget(shards: Sequence[Shard]) -> dict[str, str]:
    """The shares of max_pages that grant.lua recorded, for the audit."""
    return await shards[0].read_hash("budget")
