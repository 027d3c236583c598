"""Programs that work with a job: schedule, webhook, token."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec

from skitter.app import open_crawl
from skitter.cli.common import (
    SERVER,
    Arguments,
    Job,
    Json,
    Where,
    on_job,
    on_server,
    pairs_of,
)
from skitter.cli.parameters import Argument, Group, Option
from skitter.cli.show.output import answer, emit_json, grid, print_progress, say
from skitter.errors import AddressRefused, JobMissing, SkitterError, SpiderError, UsageError
from skitter.fetch import Guard
from skitter.fetch.http.guard import authority_of
from skitter.frontier.frontier import Frontier
from skitter.frontier.jobs import for_each_job, open_job
from skitter.frontier.records.operators import (
    OCCASIONS,
    SHAPE,
    NewAction,
    Token,
    Webhook,
    add_webhook,
    list_tokens,
    list_webhooks,
    new_token,
    new_webhook,
    remove_webhook,
    revoke_token,
    without_secrets,
)
from skitter.frontier.records.schedule import (
    Schedule,
    new_schedule,
    read_schedule,
    remove_schedule,
    set_schedule,
)
from skitter.frontier.transport.connection import Server
from skitter.observe.report import duration, moment
from skitter.settings import resolve
from skitter.settings.option import seconds_of
from skitter.spider import Spider, load_spider
from skitter.spider.seeding import begin_due_round, tell_round

group = Group(help="Start rounds of a job on a schedule.")
WATCH_S = 1.0
Spiders = Annotated[
    str, Argument(metavar="SPIDER", help="A file, file.py:name, or package.module:name.")
]
JobName = Annotated[str | None, Option("--job", help="Job name. Default: the spider's name.")]


@group.add("add")
def add(
    target: Annotated[
        str,
        Argument(metavar="JOB|SPIDER", help="A job, or its spider: file.py."),
    ],
    cron: Annotated[str, Option(metavar="EXPRESSION", help="As in '0 3 * * *', in UTC.")] = "",
    every: Annotated[str, Option(metavar="INTERVAL", help="Such as 6h, 90m or 2d.")] = "",
    arguments: Arguments = None,
    job: JobName = None,
    where: Where = SERVER,
    as_json: Json = False,
) -> None:
    """Set the schedule of a job. If the argument is a spider, its job is created."""
    spider = load_spider(target, pairs_of(arguments)) if names_a_spider(target) else None
    name = job or (spider.name if spider else target)

    async def work(server: Server) -> Schedule:
        every_s = seconds_of("every", every) if every else 0.0
        new_schedule(cron=cron, every_s=every_s, now_ms=0)  # check before creating a job
        frontier = await _open(server, name, spider)
        now_ms = round(1000 * await frontier.server_time())
        schedule = new_schedule(cron=cron, every_s=every_s, now_ms=now_ms)
        await set_schedule(frontier, schedule)
        return schedule

    action = NewAction(name, "schedule", cron or f"every {every}")
    schedule = on_server(where, work, action=action)
    says = f"{name}: the next round begins at {moment(schedule.next_ms / 1000)}."
    answer(_document(name, schedule), says, as_json=as_json)
    if not as_json:
        shown = target if spider else "SPIDER"
        print_progress(
            "Rounds need a running process: `skitter agent` or `skitter run --keep-alive` with its "
            f"spider, or `skitter schedule watch {shown}`."
        )


def names_a_spider(target: str) -> bool:
    """Job names contain neither : nor /. A file called `books` does not make `books` a spider."""
    return target.endswith(".py") or ":" in target or "/" in target


async def _open(server: Server, job: str, spider: Spider | None) -> Frontier:
    """Open the job; if there is none, create it with the spider's options."""
    try:
        return await open_job(server, job)
    except JobMissing:
        if spider is None:
            raise
    return (await open_crawl(server, job, spider, resolve({}, job=job, spider=spider.tables)))[0]


@group.add("list")
def show(where: Where = SERVER, as_json: Json = False) -> None:
    """List the schedules of all jobs. Those that cannot be read are named by `audit`."""

    async def work(server: Server) -> list[tuple[str, Schedule]]:
        async def look(job: str) -> Schedule | None:
            return await read_schedule(await open_job(server, job, as_found=True))

        found = await for_each_job(server, look)
        return [(job, schedule) for job, schedule in found.items() if schedule]

    found = on_server(where, work)
    if as_json:
        emit_json([_document(*schedule) for schedule in found])
    elif found:
        grid(["job", "when", "next round", "last round", "rounds", "missed"], list(_rows(found)))
    else:
        say("No job has a schedule.")


@group.add("remove")
def remove(job: Job, where: Where = SERVER, as_json: Json = False) -> None:
    """Remove the schedule of a job."""
    action = NewAction(job, "unschedule")
    removed = on_job(where, job, remove_schedule, action=action)
    says = "its schedule is removed" if removed else "it had no schedule"
    answer({"job": job, "removed": removed}, f"{job}: {says}.", as_json=as_json)


@group.add("watch")
def watch(
    target: Spiders,
    arguments: Arguments = None,
    job: JobName = None,
    where: Where = SERVER,
) -> None:
    """Start the rounds of a job when they are due, until stopped. Each starts once."""
    spider = load_spider(target, pairs_of(arguments))
    name = job or spider.name

    async def work(server: Server) -> None:
        frontier = await _open(server, name, spider)
        schedule = await read_schedule(frontier)
        when = (
            f"the next round begins at {moment(schedule.next_ms / 1000)}"
            if schedule
            else (f"no schedule yet, add one: `skitter schedule add {name} --every 6h`")
        )
        print_progress(f"Watching {name}: {when}.")
        await _watch(frontier, spider)

    on_server(where, work)


async def _watch(frontier: Frontier, spider: Spider) -> None:
    """Begin rounds as they fall due. If the server is down or seeds fail, report once and retry."""
    last_error = ""
    while True:
        try:
            begun = await begin_due_round(frontier, spider)
        except SkitterError as error:
            if not (error.retryable or isinstance(error, SpiderError)):
                raise
            if str(error) != last_error:
                print_progress(f"{error} Trying again.")
            last_error = str(error)
        else:
            last_error = ""
            if begun and begun.is_ours:
                say(f"{moment(begun.due_ms / 1000)}: {tell_round(begun)[1]}.")
                sys.stdout.flush()  # to a file too: it may run for weeks
        await asyncio.sleep(WATCH_S)


def _document(job: str, schedule: Schedule) -> dict[str, Any]:
    return {"job": job, **msgspec.structs.asdict(schedule)}


def _rows(found: list[tuple[str, Schedule]]) -> Iterator[list[object]]:
    for job, schedule in found:
        when = schedule.cron or f"every {duration(schedule.every_s)}"
        last = moment(schedule.fired_ms / 1000) if schedule.fired_ms else "never"
        yield [job, when, moment(schedule.next_ms / 1000), last, schedule.rounds, schedule.missed]


webhook_group = Group(help="Get a message when a crawl finishes or is in trouble.")


@webhook_group.add("add")
def webhook_add(
    job: Job,
    url: Annotated[str, Argument(metavar="URL", help="Where messages are posted.")],
    on: Annotated[
        list[str] | None,
        Option("--on", help=f"{', '.join(OCCASIONS)}; may be repeated. Default: all."),
    ] = None,
    dead: Annotated[int, Option(min=1, help="Send `dead` at this many dead letters.")] = 100,
    failures: Annotated[
        float, Option(help="Send `failures` when this share of recent attempts fails.")
    ] = 0.5,
    blocked: Annotated[
        float,
        Option(help="Send `blocked` when this share of recent responses are block pages."),
    ] = 0.2,
    private: Annotated[
        bool,
        Option(
            "--allow-private",
            help="Accept a private address. The server must allow it, too: SKITTER_ALLOW_HOSTS.",
        ),
    ] = False,
    where: Where = SERVER,
    as_json: Json = False,
) -> None:
    """Post messages about a job to a URL. Prints the secret that signs them."""
    is_private = _check(url, private=private)
    limits = {"dead": dead, "failures": failures, "blocked": blocked, "private": private}
    hook = new_webhook(url, on or (), **limits)
    action = NewAction(job, "webhook add", f"{hook.id} {authority_of(url).host}")
    on_job(where, job, lambda frontier: add_webhook(frontier, hook), action=action)
    says = f"{job}: webhook {hook.id}. Its secret, shown this once: {hook.secret}"
    if is_private:
        host = authority_of(url).host_port
        says += f"\n`skitter serve` posts there if it runs with SKITTER_ALLOW_HOSTS={host}"
    answer(hook, says, as_json=as_json)


def _check(url: str, *, private: bool) -> bool:
    """Whether its address is private. Raises UsageError if that was not asked for."""
    try:
        Guard().check_url(url)
    except AddressRefused as error:
        if private:
            return True
        why = error.reason.partition(": to ")[0]
        raise UsageError(f"{why}: to use it anyway, add --allow-private.") from None
    return False


@webhook_group.add("list")
def webhook_show(job: Job, where: Where = SERVER, as_json: Json = False) -> None:
    """List the webhooks of a job, without their secrets."""
    hooks = [without_secrets(hook) for hook in on_job(where, job, list_webhooks)]
    if as_json:
        emit_json(hooks)
    elif hooks:
        grid(["id", "url", "on", "sent"], [_cells(hook) for hook in hooks])
    else:
        say(f"{job}: no webhooks.")


def _cells(hook: Webhook) -> list[object]:
    return [hook.id, hook.url, ", ".join(hook.on), ", ".join(hook.told)]


@webhook_group.add("remove")
def webhook_remove(
    job: Job,
    identity: Annotated[str, Argument(metavar="ID", help="As `list` shows it.")],
    where: Where = SERVER,
    as_json: Json = False,
) -> None:
    """Remove a webhook."""

    async def work(frontier: Frontier) -> None:
        if not await remove_webhook(frontier, identity):
            raise UsageError(f"{job} has no webhook {identity!r}: `skitter webhook list {job}`.")

    action = NewAction(job, "webhook remove", identity)
    on_job(where, job, work, action=action)
    answer({"id": identity, "removed": True}, f"{job}: {identity} removed.", as_json=as_json)


token_group = Group(help="Make, list and revoke tokens for the HTTP API.")


@token_group.add("new")
def new(
    scope: Annotated[
        list[str],
        Option(help="read, push, or operate, which includes both; may be repeated."),
    ],
    name: Annotated[str, Option(help="Who uses it; shown in the list.")] = "unnamed",
    job: Annotated[
        list[str] | None,
        Option(metavar="PATTERN", help="Only for these jobs: shop, 'shop-*'; repeatable."),
    ] = None,
    expires: Annotated[
        str | None, Option(metavar="AFTER", help="It is void after this: 12h, 7d.")
    ] = None,
    link: Annotated[
        str | None,
        Option(metavar="URL", help="Print a link that logs in to this dashboard instead."),
    ] = None,
    where: Where = SERVER,
    as_json: Json = False,
) -> None:
    """Make a token and print it. It is not shown again: the server keeps only a hash."""
    if link is not None and not link.startswith(("http://", "https://")):
        raise UsageError(f"--link is an address such as https://crawls.example/, not {link!r}.")

    async def work(server: Server) -> str:
        jobs, expires_s = job or (), seconds_of("--expires", expires) if expires else 0.0
        return await new_token(server, name=name, scopes=scope, jobs=jobs, expires_s=expires_s)

    of = f" of {', '.join(job)}" if job else ""
    action = NewAction("", "token new", f"{name}: {', '.join(scope)}{of}")
    token = on_server(where, work, action=action)
    found = SHAPE.fullmatch(token)
    shown = f"{link.rstrip('/')}/#token={token}" if link else token
    document = {"id": found and found[1], "token": token} | ({"link": shown} if link else {})
    answer(document, shown, as_json=as_json)


@token_group.add("list")
def token_show(where: Where = SERVER, as_json: Json = False) -> None:
    """List the tokens by id, name and scope. They are not shown themselves."""
    tokens = on_server(where, list_tokens)
    if as_json:
        emit_json([_token_document(token) for token in tokens])
    elif tokens:
        grid(
            ["id", "name", "scopes", "jobs", "created", "expires"],
            [_token_cells(token) for token in tokens],
        )
    else:
        say("There are no tokens: `skitter token new` creates one.")


@token_group.add("revoke")
def revoke(
    identity: Annotated[str, Argument(metavar="ID", help="As `list` shows it.")],
    where: Where = SERVER,
    as_json: Json = False,
) -> None:
    """Revoke a token. Browsers that logged in with it are logged out."""
    action = NewAction("", "token revoke", identity)
    on_server(where, lambda server: revoke_token(server, identity), action=action)
    answer({"id": identity, "revoked": True}, f"{identity}: revoked.", as_json=as_json)


def _token_document(token: Token) -> dict[str, object]:
    return {
        "id": token.id,
        "name": token.name,
        "scopes": token.granted,
        "jobs": token.jobs,
        "created_at": token.created_at,
        "expires_at": token.until or None,
    }


def _token_cells(token: Token) -> list[str]:
    jobs = ", ".join(token.jobs) or "all"
    ends = _minute(token.until) if token.until else "never"
    return [token.id, token.name, ", ".join(token.granted), jobs, _minute(token.created_at), ends]


def _minute(at: float) -> str:
    return f"{datetime.fromtimestamp(max(0, min(at, 2**34)), UTC):%Y-%m-%d %H:%M} UTC"
