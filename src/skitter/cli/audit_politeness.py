"""How politely hosts were crawled: audit --politeness."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import lru_cache

import typer

from skitter.cli.common import on_job
from skitter.cli.console import out, remark
from skitter.cli.output import emit_json, grid, say
from skitter.fetch.robots import open_rules
from skitter.frontier.audit.politeness import Allows, HostPoliteness, audit_politeness
from skitter.redact import redact, redact_tree
from skitter.settings import Settings, resolve

COLUMNS = ["host", "requests", "delay", "smallest gap", "in flight", "disallowed", "unknown"]


def show_politeness(job: str, where: Settings, *, as_json: bool) -> None:
    """Exits with 1 if a host was not crawled politely."""
    allows = _reader_of_rules()
    found = on_job(where, job, lambda frontier: audit_politeness(frontier, allows=allows))
    if as_json:
        emit_json(redact_tree([{**asdict(one), "problems": one.problems} for one in found]))
    elif not found:
        say(f"{job}: no request to a host with a delay is on record.")
    else:
        _show(found)
    if any(one.problems for one in found):
        raise typer.Exit(1)


def _reader_of_rules() -> Allows:
    user_agent, opened = resolve().fetch.user_agent, lru_cache(maxsize=100)(open_rules)

    def allows(stored: bytes, url: str) -> bool | None:
        rules = opened(stored)
        return rules.allows(url, user_agent) if rules else None

    return allows


def _show(found: list[HostPoliteness]) -> None:
    grid(COLUMNS, [list(_cells(one)) for one in found])
    for one in found:
        for problem in one.problems:
            remark("problem", f"{one.host}: {problem}", style="red")
        for url in one.disallowed or ():
            remark("disallowed", redact(url), style="red")
    if not any(one.problems for one in found):
        out.print("[green]Every host was asked politely.[/]")


def _cells(one: HostPoliteness) -> Iterator[object]:
    yield one.host
    yield one.requests
    yield f"{one.delay_s:g} s"
    yield "-" if one.smallest_gap_s is None else f"{one.smallest_gap_s:.3f} s"
    yield f"{one.most_in_flight} of {one.max_in_flight}"
    yield "-" if one.disallowed is None else len(one.disallowed)
    yield one.vanished
