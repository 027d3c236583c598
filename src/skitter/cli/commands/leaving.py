"""What leaves a job: pages that are forgotten, a list of those it has seen, and all of it, back to
another system."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from skitter.cli.common import SERVER, Job, Json, Where, on_job, on_server
from skitter.cli.parameters import Argument, Exit, Option
from skitter.cli.show.output import answer, emit_json, pairs, say
from skitter.errors import UsageError, shorten
from skitter.frontier.dead import forget
from skitter.frontier.records.filters import read_seen, write_seen
from skitter.frontier.records.operators import NewAction
from skitter.model import Request
from skitter.observe.report import some

if TYPE_CHECKING:
    from skitter.frontier.frontier import Frontier
    from skitter.frontier.transport.connection import Server
    from skitter.scrapy.requests.release import Release, Released


def release(
    to: Annotated[str, Argument(metavar="TO", help="scrapy-redis.")],
    spider: Annotated[str, Option(help="The spider's name: the keys begin with it.")],
    job: Annotated[
        str | None, Option(help="The job's name. Default: the spider's.", show_default=False)
    ] = None,
    requests_key: Annotated[
        str, Option(help="SCHEDULER_QUEUE_KEY, if it is set.")
    ] = "%(spider)s:requests",
    dupefilter_key: Annotated[
        str, Option(help="SCHEDULER_DUPEFILTER_KEY, if it is set.")
    ] = "%(spider)s:dupefilter",
    is_list: Annotated[
        bool, Option("--list", help="For a FifoQueue or LifoQueue; else for a PriorityQueue.")
    ] = False,
    where: Where = SERVER,
    as_json: Json = False,
) -> None:
    """Give the queue and the seen-set of a Scrapy job back to scrapy-redis.

    Stop the nodes first. The job stays as it is, and is paused. The exit code is 1 if some
    requests could not be written: they stay in the job only.
    """
    if to != "scrapy-redis":
        raise UsageError(f"cannot release to {to!r}: only to scrapy-redis.")
    from skitter.scrapy.requests.release import Release
    from skitter.scrapy.requests.release import release as give

    names = {"spider": spider}
    wanted = Release(
        job=job or spider,
        requests_key=requests_key % names,
        dupefilter_key=dupefilter_key % names,
        is_list=is_list,
    )
    result = on_server(where, lambda server: give(server, wanted))
    if as_json:
        emit_json(result)
    elif result.was_released:
        say(f"{result.job} was released before, and nothing was changed.")
        say(f"If it has crawled here since: skitter resume {result.job}, then release it again.")
    else:
        _show(result, wanted)
    if result.kept:
        raise Exit(1)


def _show(result: Released, wanted: Release) -> None:
    early = f"{result.early:,} were planned for later, and are due now"
    pairs(
        [
            ("job", f"{result.job}, now paused"),
            ("requests", f"{result.queued:,} in {wanted.requests_key}"),
            *([("", early)] if result.early else []),
            ("seen", f"{result.fingerprints:,} in {wanted.dupefilter_key}"),
        ]
    )
    say(
        "scrapy-redis reads what was seen with "
        'DUPEFILTER_CLASS = "skitter.scrapy.way_back.RFPDupeFilter".'
    )
    say("Before you start nodes of scrapy-redis, set SCHEDULER_PERSIST = True.")
    for reason, count in result.reasons.items():
        say(f"{some(count, 'request')} not released: {reason}")
    if result.dead:
        say(f"{some(result.dead, 'dead letter')} not released: skitter dead list {result.job}.")
    if result.items:
        say(f"{some(result.items, 'item')} still to be stored: skitter load {result.job}.")


def seen(
    job: Job,
    to: Annotated[Path | None, Option(help="Write what the job has fetched to this file.")] = None,
    source: Annotated[
        Path | None,
        Option("--from", help="Count what this file has as fetched: such a file, or URLs."),
    ] = None,
    where: Where = SERVER,
    as_json: Json = False,
) -> None:
    """Keep what a job has fetched in a file, or take it from there.

    For a job that is to be purged, and for another one that is to fetch only what this one has
    not. The file has a number for each page, not its URL.
    """
    if to is not None and source is None:
        total = on_job(where, job, partial(_write, to))
        answer({"job": job, "seen": total}, f"{to}: {total:,} seen", as_json=as_json)
    elif source is not None and to is None:
        total, new = on_server(where, partial(_read, job=job, file=source))
        said = f"{job}: {total:,} found, {new:,} remembered as done, {total - new:,} known"
        answer({"job": job, "seen": total, "remembered": new}, said, as_json=as_json)
    else:
        raise UsageError("say either --to FILE or --from FILE.")


async def _write(file: Path, frontier: Frontier) -> int:
    """All or nothing."""
    part = file.with_name(f"{file.name}.part")
    try:
        with part.open("w", encoding="utf-8") as stream:
            total = await write_seen(frontier, lambda line: stream.write(f"{line}\n"))
        part.replace(file)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"cannot write {file}: {reason.lower()}.") from None
    finally:
        part.unlink(missing_ok=True)
    return total


async def _read(server: Server, *, job: str, file: Path) -> tuple[int, int]:
    try:
        with file.open(encoding="utf-8") as stream:
            return await read_seen(server, job, stream)
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot read {file}: {reason.lower()}.") from None


def forget_urls(
    job: Job,
    urls: Annotated[list[str], Argument(metavar="URL...", help="URLs of pages that are done.")],
    where: Where = SERVER,
    as_json: Json = False,
) -> None:
    """Forget pages that are done, so that a link or a push brings them again.

    Rows of the page stay where they are stored; its next visit replaces them. The exit code is 1
    if a URL is not done: one that waits or is dead stays what it is.
    """
    requests = [Request(url=url) for url in urls]
    action = NewAction(job, "forget", shorten(" ".join(urls), 200))
    forgotten = on_job(where, job, lambda frontier: forget(frontier, requests), action=action)
    if as_json:
        emit_json(dict(zip(urls, forgotten, strict=True)))
    else:
        for url, was_done in zip(urls, forgotten, strict=True):
            no = f"not done, so it is not forgotten: see `skitter why {job} {url}`"
            say(f"{url}: {'forgotten; its rows stay' if was_done else no}")
    if not all(forgotten):
        raise Exit(1)
