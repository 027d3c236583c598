"""The limits of a job as options of a command, spelled once for `create` and `set`."""

from __future__ import annotations

import math
from typing import Annotated, Any

import typer

from skitter.cli.output import pairs
from skitter.settings import JobOptions

NO_LIMIT = math.inf


def _number_or_none(text: str) -> float:
    """`none` is no limit: 0 would be one."""
    if text.lower() == "none":
        return NO_LIMIT
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a whole number or none") from None


def _limit(what: str) -> Any:
    return typer.Option(
        parser=_number_or_none, metavar="NUMBER", help=f"{what}; none for no limit."
    )


Delay = Annotated[float | None, typer.Option(help="Seconds between requests to one host.")]
InFlight = Annotated[int | None, typer.Option(help="Concurrent requests to one host.")]
MaxRetries = Annotated[int | None, typer.Option(help="Retries after the first attempt.")]
MaxLosses = Annotated[
    int | None, typer.Option(help="Give a URL up after it was lost with this many workers.")
]
RetryBase = Annotated[
    float | None, typer.Option(help="Longest delay before the first retry, in seconds.")
]
RetryCap = Annotated[float | None, typer.Option(help="Longest delay before any retry, in seconds.")]
MaxPages = Annotated[float | None, _limit("Maximum pages in total")]
MaxPagesPerHost = Annotated[float | None, _limit("Maximum pages per host")]
MaxDepth = Annotated[float | None, _limit("Maximum number of links from a start URL")]
MaxPending = Annotated[float | None, _limit("Maximum URLs in the queue")]
MaxItems = Annotated[float | None, _limit("Maximum items waiting for a loader")]
MaxItemsPerPage = Annotated[
    int | None,
    typer.Option(help="Maximum items from one page; further ones are dropped and counted."),
]
MaxLinksPerPage = Annotated[
    int | None,
    typer.Option(help="Maximum new links from one page; further ones are dropped and counted."),
]

#: The job's option for each of the command's, where it has another name.
_NAMES = {
    "delay": "delay_s",
    "in_flight": "max_in_flight",
    "retry_base": "base_s",
    "retry_cap": "cap_s",
}
_LIMITS = ("max_pages", "max_pages_per_host", "max_depth", "max_pending", "max_items")
_PER_PAGE = ("max_items_per_page", "max_links_per_page")
_OPTIONS = (*_NAMES, "max_retries", "max_losses", *_LIMITS, *_PER_PAGE)


def changes_of(command: typer.Context) -> dict[str, float | None]:
    """The limits that were given, by the names of the job's options; None: no limit."""
    given = {name: command.params[name] for name in _OPTIONS}
    return {
        _NAMES.get(name, name): None if name in _LIMITS and value == NO_LIMIT else value
        for name, value in given.items()
        if value is not None
    }


def show_options(options: JobOptions) -> None:
    groups = (options.politeness, options.retries, options.limits)
    values = {name: getattr(one, name) for one in groups for name in one.__dataclass_fields__}
    pairs((name, "no limit" if value is None else value) for name, value in values.items())
