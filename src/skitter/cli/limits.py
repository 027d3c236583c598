"""The limits of a job as options of a command, spelled once for `create` and `set`."""

from __future__ import annotations

from typing import Annotated

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

#: The job's option for each of the command's, and the value that stands for no limit.
_LIMITS: dict[str, tuple[str, int | None]] = {
    "delay": ("delay_s", None),
    "in_flight": ("max_in_flight", None),
    "max_retries": ("max_retries", None),
    "max_losses": ("max_losses", None),
    "retry_base": ("base_s", None),
    "retry_cap": ("cap_s", None),
    "max_pages": ("max_pages", 0),
    "max_pages_per_host": ("max_pages_per_host", 0),
    "max_depth": ("max_depth", -1),
    "max_pending": ("max_pending", 0),
    "max_items": ("max_items", 0),
}


def changes_of(command: typer.Context) -> dict[str, float | None]:
    """The limits that were given, by the names of the job's options; None: no limit."""
    given = {name: command.params[name] for name in _LIMITS}
    return {
        _LIMITS[name][0]: None if value == _LIMITS[name][1] else value
        for name, value in given.items()
        if value is not None
    }


def show_options(options: JobOptions) -> None:
    groups = (options.politeness, options.retries, options.limits)
    values = {name: getattr(one, name) for one in groups for name in one.__dataclass_fields__}
    pairs((name, "no limit" if value is None else value) for name, value in values.items())
