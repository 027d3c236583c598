"""Steering jobs: create, pause, resume, drain, cancel, purge, set, host."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any

from skitter.cli.common import SERVER, Job, Json, Where, Yes, confirm, on_job, on_server
from skitter.cli.flags import Given, changes_of, show_options, with_flags
from skitter.cli.parameters import Argument, Option
from skitter.cli.show.output import answer, emit_json, pairs, print_progress, say
from skitter.errors import JobDamaged, JobMissing, UsageError, shorten
from skitter.frontier.audit.why import look_at_host
from skitter.frontier.control import (
    RESET,
    change_options,
    replaced,
    set_host,
    set_state,
)
from skitter.frontier.frontier import Frontier
from skitter.frontier.jobs import create_job, new_job, open_job, purge_job
from skitter.frontier.records.operators import NewAction
from skitter.frontier.records.outputs import find_sink, further
from skitter.frontier.records.preview import Effect, preview
from skitter.frontier.sites.snapshots import HostFacts
from skitter.frontier.transport.connection import Server
from skitter.model import State, Stats
from skitter.observe.report import some
from skitter.redact import shown
from skitter.settings import JOB_OPTIONS, Bloom, JobOptions, Layout, check_job_name
from skitter.sinks.destination import remove_store, store_of

#: The job options that a host can override.
OWN = tuple(
    replace(option, name=option.declared.host, default=None, optional=False)
    for option in JOB_OPTIONS
    if option.declared.host
)
STATES = (
    (State.PAUSED, "pause", "Stop handing out URLs; new ones are still accepted."),
    (State.RUNNING, "resume", "Continue after pause, drain or cancel."),
    (
        State.DRAINING,
        "drain",
        "Finish the queue; accept no new URLs. New links are lost: `pause` keeps them.",
    ),
    (
        State.CANCELLED,
        "cancel",
        "Stop, and accept no new URLs; the queue stays for `resume`.",
    ),
)


def _spelled(changes: Mapping[str, object]) -> str:
    """The changes as text for the action log."""
    return " ".join(f"{name}={value}" for name, value in changes.items())


# --- create ---------------------------------------------------------------------------------------


@with_flags(JOB_OPTIONS)
def create(
    job: Job,
    shards: Annotated[
        int, Option(help="Number of parts, which can be on different nodes of a cluster.")
    ] = 1,
    bloom: Annotated[
        int | None,
        Option(
            metavar="URLS",
            help="Use a Bloom filter for this many URLs: less memory, but some new URLs are "
            "skipped as seen.",
        ),
    ] = None,
    error_rate: Annotated[
        float | None,
        Option(help="Share of new URLs that the Bloom filter may skip. Default: 0.0001."),
    ] = None,
    where: Where = SERVER,
    as_json: Json = False,
    *,
    given: Given,
) -> None:
    """Create a job with options of its own.

    Shards and the Bloom filter cannot be changed later; limits can, with `set`. Without
    `create`, the first `push` creates a job with the defaults.
    """
    changes = changes_of(given)
    layout = Layout(shards=shards, bloom=_bloom(bloom, error_rate))
    options = replaced(JobOptions(), changes)
    check_job_name(job)
    on_server(
        where,
        lambda server: new_job(server, job, changes=changes, layout=layout),
        action=NewAction(job, "create", _spelled(changes)),
    )
    how = f"a Bloom filter for {bloom:,} URLs" if bloom else "an exact set"
    created = {"job": job, "layout": layout, "options": options}
    answer(created, f"{job}: created with {some(shards, 'shard')} and {how}.", as_json=as_json)


def _bloom(capacity: int | None, error_rate: float | None) -> Bloom | None:
    if capacity is None:
        if error_rate is not None:
            raise UsageError("--error-rate belongs to a Bloom filter: add --bloom URLS.")
        return None
    return Bloom(capacity=capacity, **({} if error_rate is None else {"error_rate": error_rate}))


# --- states ---------------------------------------------------------------------------------------


def _command_for(state: State, verb: str, help_text: str) -> Callable[..., None]:
    def command(job: Job, where: Where = SERVER, as_json: Json = False) -> None:
        async def work(frontier: Frontier) -> Stats:
            await set_state(frontier, state)
            return await frontier.stats()

        stats = on_job(where, job, work, action=NewAction(job, verb))
        counts = f"{stats.pending:,} pending, {stats.leased:,} leased"
        answer(stats, f"{job}: {state.value} ({counts})", as_json=as_json)

    command.__doc__ = help_text
    return command


pause, resume, drain, cancel = (_command_for(*what) for what in STATES)


def purge(
    job: Job,
    yes: Yes = False,
    keep_rows: Annotated[
        bool, Option("--keep-rows", help="Leave the store of a CSV or Parquet output.")
    ] = False,
    where: Where = SERVER,
    as_json: Json = False,
) -> None:
    """Remove a job with its queue, history and items.

    This cannot be undone. A CSV or Parquet file is written from a store in .skitter, which goes,
    too. The file itself, and rows in a database or file that you named, stay.
    """
    store = None if keep_rows else store_of(job, where.directory)
    store = store if store and store.exists() else None
    rows = f", and the store {shown(str(store))}" if store else ""

    async def work(server: Server) -> tuple[int, list[str]]:
        frontier = await open_job(server, job, as_found=True)
        places = [await find_sink(frontier), *await further(frontier)]
        if not yes:
            confirm(f"Remove {job!r} with all its URLs and items{rows}?", what="this removes data")

        async def remove_rows() -> None:
            if store:
                remove_store(job, where.directory)

        return await purge_job(frontier, meanwhile=remove_rows), places

    removed, places = on_server(where, work, action=NewAction(job, "purge"))
    stay = " Files written from it stay, and no new crawl replaces them." * bool(store)
    if kept := [shown(place) for place in places if place not in ("", str(store))]:
        stay += f" Its rows stay in {' and '.join(kept)}."
    done = {"job": job, "removed_keys": removed, "removed_store": store and str(store)}
    answer(done, f"{job}: removed{rows}.{stay}", as_json=as_json)


# --- limits ---------------------------------------------------------------------------------------


@with_flags(JOB_OPTIONS)
def set_options(
    job: Job,
    where: Where = SERVER,
    as_json: Json = False,
    look: Annotated[bool, Option("--preview", help="Only say what the changes would do.")] = False,
    *,
    given: Given,
) -> None:
    """Show a job's limits, or change them while it runs.

    Workers obey at once. A job that does not exist is created if a limit is given.
    """
    changes = changes_of(given)
    replaced(JobOptions(), changes)  # check before creating a job for nothing
    if look:
        _show_effects(on_job(where, job, _looking(changes)), as_json=as_json)
        return

    async def work(server: Server) -> JobOptions:
        if not changes:
            return (await open_job(server, job)).options
        try:
            frontier = await open_job(server, job)
        except JobMissing:
            frontier = await create_job(server, job)
            print_progress(f"{job}: there was no such job, and it was created.")
        except JobDamaged:  # perhaps by the very value that is replaced here
            frontier = await open_job(server, job, as_found=True)
        return await change_options(frontier, changes)

    action = NewAction(job, "set", _spelled(changes)) if changes else None
    options = on_server(where, work, action=action)
    if as_json:
        emit_json(options)
    else:
        show_options(options)


def _looking(changes: dict[str, Any]) -> Callable[[Frontier], Coroutine[None, None, list[Effect]]]:
    async def work(frontier: Frontier) -> list[Effect]:
        return await preview(frontier, replaced(frontier.options, changes))

    return work


def _or_none(value: object) -> object:
    return "none" if value is None else value


def _show_effects(effects: list[Effect], *, as_json: bool) -> None:
    if as_json:
        emit_json(effects)
        return
    for effect in effects:
        at_least = "" if effect.exact else "at least "
        say(f"{effect.option}: {_or_none(effect.was)} -> {_or_none(effect.becomes)}")
        say(f"  {at_least}{effect.urls:,} {effect.says}.")
    if not effects:
        say("No known URL is affected.")


# --- hosts ----------------------------------------------------------------------------------------


@with_flags(OWN)
def host(
    job: Job,
    name: Annotated[str, Argument(metavar="HOST", help="As in a URL: shop.example:8080.")],
    block: Annotated[
        float | None,
        Option(metavar="SECONDS", help="Leave it alone for so many seconds; 0 ends that."),
    ] = None,
    reset: Annotated[
        bool, Option("--reset", help="Forget its own limits, its pause and its refusals.")
    ] = False,
    where: Where = SERVER,
    as_json: Json = False,
    *,
    given: Given,
) -> None:
    """Show one host, or override the job's limits for it."""
    changes = changes_of(given) | ({} if block is None else {"blocked_for_s": block})
    if reset and changes:
        raise UsageError(
            "--reset removes all values of the host: do not combine it with other options."
        )

    async def work(frontier: Frontier) -> tuple[HostFacts, JobOptions, float]:
        if not changes:
            _check_known(await look_at_host(frontier, name), job)
        await set_host(frontier, name, **(dict.fromkeys(RESET) if reset else changes))
        now = await frontier.server_time()
        return await look_at_host(frontier, name), frontier.options, now

    action = (
        NewAction(job, "host", f"{name} {_spelled(changes) or 'reset'}")
        if changes or reset
        else None
    )
    facts, options, now = on_job(where, job, work, action=action)
    if as_json:
        emit_json(facts)
    else:
        pairs(_host_rows(facts, options, now))


def _check_known(facts: HostFacts, job: str) -> None:
    """Reject an unknown host: the name is probably misspelled."""
    numbers = (facts.queued, facts.in_flight, facts.pages, facts.asked_at, facts.blocked_until)
    if facts.readable and not any((*numbers, facts.own)):
        raise UsageError(
            f"job {job!r} has no URL of host {shorten(facts.name)!r}: write the host as in the "
            "URL, with its port if there is one. (Values can be set for a host without URLs.)"
        )


def _host_rows(facts: HostFacts, options: JobOptions, now: float) -> Iterator[tuple[str, object]]:
    def own(field: str) -> str:
        return " (its own)" if field in facts.own else ""

    yield "host", facts.name
    yield "requests", f"{facts.queued:,} pending, {facts.in_flight:,} in flight"
    yield "pages", f"{facts.pages:,}"
    yield "delay", f"{facts.delay(options).seconds:g} s ({facts.delay(options).why})"
    in_flight = int(facts.own.get("max_in_flight", options.politeness.max_in_flight))
    yield "in flight", f"{in_flight:,}{own('max_in_flight')}"
    budget = facts.own.get("max_pages", options.limits.max_pages_per_host)
    yield "budget", f"{f'{budget:,.0f} pages' if budget else 'no limit'}{own('max_pages')}"
    wait_s = facts.opens_at(options) - now
    yield "next request", f"in {wait_s:,.1f} s" if wait_s > 0 else "now"
