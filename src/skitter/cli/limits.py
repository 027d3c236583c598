"""The limits of a job as options of a command, spelled once for `create` and `set`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from skitter.cli.output import pairs
from skitter.settings import JobOptions

Delay = Annotated[float | None, typer.Option(help="Seconds between requests to a host.")]
InFlight = Annotated[int | None, typer.Option(help="Requests to a host at a time.")]
MaxRetries = Annotated[int | None, typer.Option(help="Tries after the first.")]
MaxLosses = Annotated[int | None, typer.Option(help="Workers that may vanish with a URL.")]
RetryBase = Annotated[float | None, typer.Option(help="Seconds to the first retry, at the most.")]
RetryCap = Annotated[float | None, typer.Option(help="Seconds to any retry, at the most.")]
MaxPages = Annotated[int | None, typer.Option(help="Pages of the crawl; 0: no limit.")]
MaxPagesPerHost = Annotated[int | None, typer.Option(help="Pages of each host; 0: no limit.")]
MaxDepth = Annotated[int | None, typer.Option(help="Links from a seed; -1: no limit.")]
MaxPending = Annotated[int | None, typer.Option(help="URLs waiting; 0: no limit.")]
MaxItems = Annotated[int | None, typer.Option(help="Results waiting for a loader; 0: no limit.")]

#: Options of the command whose name is not that of the job's option.
_NAMES = {
    "delay": "delay_s",
    "in_flight": "max_in_flight",
    "retry_base": "base_s",
    "retry_cap": "cap_s",
}
_NO_LIMIT = {"max_pages": 0, "max_pages_per_host": 0, "max_pending": 0, "max_items": 0}


def changes_of(asked: Mapping[str, Any]) -> dict[str, float | None]:
    """What was given, by the names of the job's options; None: no limit."""
    given = {_NAMES.get(name, name): value for name, value in asked.items() if value is not None}
    return {name: None if _means_none(name, value) else value for name, value in given.items()}


def _means_none(name: str, value: float) -> bool:
    return value == -1 if name == "max_depth" else value == _NO_LIMIT.get(name)


def show_options(options: JobOptions) -> None:
    groups = (options.politeness, options.retries, options.limits)
    values = {name: getattr(one, name) for one in groups for name in one.__dataclass_fields__}
    pairs((name, "no limit" if value is None else value) for name, value in values.items())
