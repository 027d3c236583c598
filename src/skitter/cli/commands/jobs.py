"""What goes into a job, and what it rejects: push, adopt, rejected."""

from __future__ import annotations

import asyncio
import codecs
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

from skitter.cli.common import SERVER, Job, Json, Where, on_job, on_server
from skitter.cli.parameters import Argument, Exit, Option
from skitter.cli.show.output import answer, emit_json, grid, pairs, print_progress, say
from skitter.crawl.replicas import explained, told_if_slow
from skitter.errors import BadURL, QueueFull, ServerFull, SkitterError, UsageError, shorten
from skitter.frontier.feed import feed
from skitter.frontier.frontier import Frontier
from skitter.frontier.items import REJECTED_KEPT, RejectedItem, read_rejected
from skitter.frontier.jobs import create_job
from skitter.frontier.transport.connection import Server
from skitter.model import Added, Request
from skitter.observe.report import some
from skitter.settings import check_priority
from skitter.urls import identify

if TYPE_CHECKING:
    from skitter.scrapy.requests.adopt import Adopted, Adoption
    from skitter.settings import Settings


BATCH = 2000
CHUNK_BYTES = 2**16
#: A line and its place, for messages; None: the next line is still to be written.
Line = tuple[str, str]
Lines = Iterator[Line | None]


def push(
    job: Job,
    urls: Annotated[
        list[str] | None, Argument(metavar="URL...", help="URLs, or - for standard input.")
    ] = None,
    file: Annotated[
        Path | None,
        Option("--file", "-f", help="A file with one URL per line; # begins a comment."),
    ] = None,
    priority: Annotated[int, Option(help="-1000 to 1000; higher goes first.")] = 0,
    wait: Annotated[bool, Option(help="Wait for room if the queue is full.")] = False,
    skip_bad: Annotated[bool, Option(help="Skip lines that are not valid URLs.")] = False,
    where: Where = SERVER,
    as_json: Json = False,
) -> None:
    """Add URLs to a job, which is created if needed.

    URLs that the job has seen are not added again.
    """
    lines = _lines(urls or [], file)
    pushed = on_server(
        where,
        lambda server: _push(server, job, lines, priority=priority, wait=wait, skip_bad=skip_bad),
    )
    extra = "".join(f", {pushed[name]:,} {name}" for name in ("deep", "bad") if pushed[name])
    sentence = f"{job}: {pushed['new']:,} new, {pushed['seen']:,} already seen{extra}"
    answer({"job": job, **pushed}, sentence, as_json=as_json)


def _lines(urls: list[str], file: Path | None) -> Lines:
    """Each URL with the place it came from, for messages."""
    if not urls and file is None:
        raise UsageError("no URLs were given: name some, use --file, or - for standard input.")
    for url in urls:
        if url == "-":
            yield from _numbered(_arriving(sys.stdin), "standard input")
        else:
            yield "argument", url
    if file is not None:
        try:
            with file.open(encoding="utf-8", errors="surrogateescape") as stream:
                yield from _numbered(stream, str(file))
        except OSError as error:
            reason = str(error.strerror).lower()
            raise UsageError(f"cannot read {file}: {reason}. Check the path of --file.") from None


async def _next(lines: Lines) -> list[Line]:
    """The next lines. Ctrl-C need not wait for one: the loop would only cancel its task, which
    happens no sooner than a line comes."""
    await asyncio.sleep(0)  # if it was cancelled a moment ago
    if threading.current_thread() is not threading.main_thread():
        return _batch(lines)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return _batch(lines)
    finally:
        signal.signal(signal.SIGINT, before)


def _batch(lines: Lines) -> list[Line]:
    """At most BATCH lines; fewer if the next one is still to be written."""
    batch: list[Line] = []
    for line in lines:
        if line is not None:
            batch.append(line)
        if len(batch) == BATCH or (line is None and batch):
            break
    return batch


def _arriving(stream: TextIO) -> Iterator[str | None]:
    """Lines as they come, and None when there are no more for now: `tail -f FILE | skitter push
    JOB -` need not wait for a full batch."""
    if not isinstance(stream, TextIOWrapper):
        yield from stream
        return
    begun: list[bytes] = []  # a line that does not end yet
    while chunk := stream.buffer.read1(CHUNK_BYTES):
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            yield b"".join([*begun, line]).decode("utf-8", "surrogateescape")
            begun = []
        begun.append(rest)
        yield None
    yield b"".join(begun).decode("utf-8", "surrogateescape")


def _numbered(stream: Iterable[str | None], name: str) -> Lines:
    """Without empty lines, comments, and the mark that spreadsheets begin a file with."""
    number = 0
    for line in stream:
        if line is None:
            yield None
            continue
        number += 1
        text = line.removeprefix(codecs.BOM_UTF8.decode() * (number == 1)).strip()
        if text and not text.startswith("#"):
            yield f"{name}, line {number:,}", text


async def _push(
    server: Server,
    job: str,
    lines: Lines,
    *,
    priority: int,
    wait: bool,
    skip_bad: bool,
) -> Counter[str]:
    check_priority(priority)
    batch = await _next(lines)
    if not skip_bad:
        _check_all(batch)  # before creating a job for nothing
    frontier = await create_job(server, job)
    total: Counter[str] = Counter(new=0, seen=0)
    while batch:
        offers = []
        for place, url in batch:
            try:
                offers.append(frontier.offer(Request(url=url, priority=priority)))
            except BadURL as error:
                if not skip_bad:
                    raise _explained(error, place, total) from None
                print_progress(f"skipped {place}: {error.reason}")
                total["bad"] += 1
        try:
            with explained(job), told_if_slow(frontier, print_progress):
                fed = await feed(frontier, offers, wait=False)
        except (QueueFull, ServerFull) as full:
            full.added += total["new"]  # from earlier batches
            if not wait or isinstance(full, ServerFull):
                raise
            print_progress(
                f"{full.job} is full: {full.added:,} were added; waiting for room for the rest."
            )
            with explained(job):
                fed = await feed(frontier, offers, wait=True)
            fed[Added.NEW] += full.added - total["new"]
            fed[Added.SEEN] -= full.added - total["new"]
        total.update({str(answer): count for answer, count in fed.items()})
        batch = await _next(lines)
    return total


def _check_all(batch: list[Line]) -> None:
    for place, url in batch:
        try:
            identify(url)
        except BadURL as error:
            raise _explained(error, place, Counter()) from None


def _explained(error: BadURL, place: str, total: Counter[str]) -> SkitterError:
    if place == "argument":
        return error
    before = total["new"] + total["seen"]
    taken = f"{some(before, 'URL')} before it went in, and may be pushed again without harm."
    return UsageError(
        f"{place}: {error} {taken if before else 'Nothing was added.'} Correct the line, or leave "
        "such lines out with --skip-bad."
    )


def rejected(
    job: Job,
    limit: Annotated[int, Option(min=0, help="Maximum number to show.")] = 20,
    where: Where = SERVER,
    as_json: Json = False,
) -> None:
    """Show items that do not fit their type or cannot be stored."""

    async def work(frontier: Frontier) -> list[RejectedItem]:
        return await read_rejected(frontier, min(limit, 2 * REJECTED_KEPT)) if limit else []

    found = on_job(where, job, work)
    if as_json:
        emit_json(found)
    elif not found:
        say(f"{job}: no rejected items.")
    else:
        grid(
            ["url", "field", "reason", "item"],
            [[item.url, item.field, item.reason, shorten(str(item.item), 60)] for item in found],
        )
        print_progress(
            "`skitter redo SPIDER --rejected` handles their pages again, once it is repaired."
        )


TrustPickle = Annotated[
    bool,
    Option(
        "--trust-pickle",
        help="Read pickled requests. Use it only if you trust everyone who can write to the "
        "server. Only plain types are read; what needs a class becomes a dead letter.",
    ),
]


def adopt(
    whose: Annotated[
        str, Argument(metavar="WHOSE", help="scrapy-redis, or redis: a queue of your own.")
    ],
    spider: Annotated[
        str | None, Option(help="scrapy-redis: the spider's name: the keys begin with it.")
    ] = None,
    queue: Annotated[
        list[str] | None,
        Option(help="redis: a key with URLs to fetch or in flight. Repeatable."),
    ] = None,
    seen: Annotated[str | None, Option(help="redis: the key with all URLs ever queued.")] = None,
    lowest_first: Annotated[
        bool, Option("--lowest-first", help="redis: the lowest score came first.")
    ] = False,
    job: Annotated[
        str | None, Option(help="The job's name. Default: the spider's.", show_default=False)
    ] = None,
    requests_key: Annotated[
        str, Option(help="SCHEDULER_QUEUE_KEY, if it was set.")
    ] = "%(spider)s:requests",
    dupefilter_key: Annotated[
        str, Option(help="SCHEDULER_DUPEFILTER_KEY, if it was set.")
    ] = "%(spider)s:dupefilter",
    trust_pickle: TrustPickle = False,
    lifo: Annotated[bool, Option("--lifo", help="The queue was a LifoQueue.")] = False,
    where: Where = SERVER,
    as_json: Json = False,
) -> None:
    """Take over the queue of a scrapy-redis spider, or a queue of your own on Redis.

    Stop its nodes first. The counts are verified, and the old keys are kept, with :adopted at
    their end. The exit code is 1 if some requests could not be read: they become dead letters,
    and their pages do not count as seen.
    """
    if whose == "redis":
        _adopt_own(job, queue, seen, lowest_first, where, as_json)
        return
    if whose != "scrapy-redis":
        raise UsageError(f"cannot adopt from {whose!r}: only from scrapy-redis or redis.")
    if spider is None:
        raise UsageError("which spider? Name it: `skitter adopt scrapy-redis --spider NAME`.")
    from skitter.scrapy.requests.adopt import Adoption
    from skitter.scrapy.requests.adopt import adopt as take_over

    names = {"spider": spider}
    adoption = Adoption(
        spider=spider,
        job=job or spider,
        requests_key=requests_key % names,
        dupefilter_key=dupefilter_key % names,
        trust_pickle=trust_pickle,
        lifo=lifo,
    )
    result = on_server(where, lambda server: take_over(server, adoption))
    if as_json:
        emit_json(result)
    else:
        _show(result, adoption)
    if result.dead or result.unreadable:
        raise Exit(1)


def _adopt_own(
    job: str | None,
    queues: list[str] | None,
    seen: str | None,
    lowest_first: bool,
    where: Settings,
    as_json: bool,
) -> None:
    from skitter.frontier.adoption import HomeMade, take_over

    if not job or not queues:
        raise UsageError(
            "name the job and the keys: `skitter adopt redis --job JOB --queue KEY [--seen KEY]`."
        )
    keys = HomeMade(job=job, queues=queues, seen=seen, lowest_first=lowest_first)
    result = on_server(where, lambda server: take_over(server, keys))
    if as_json:
        emit_json(result)
    else:
        known, before = f"{result.known:,} known", f"{result.seen - result.remembered:,} known"
        pairs(
            [
                ("job", job),
                ("queue", f"{result.entries:,} found"),
                ("", f"{result.queued:,} queued, {known}, {result.dead:,} dead letters"),
                ("seen", f"{result.seen:,} found"),
                ("", f"{result.remembered:,} remembered as done, {before}"),
            ]
        )
        say("The keys are kept, with :adopted at the end of their names.")
    if result.dead:
        say(f"What is not a request is a dead letter: skitter dead list {job}.")
        raise Exit(1)


def _show(result: Adopted, adoption: Adoption) -> None:
    pairs(
        [
            ("job", result.job),
            ("requests", f"{result.entries:,} found"),
            ("", f"{result.queued:,} queued, {result.known:,} known, {result.dead:,} dead letters"),
            ("fingerprints", f"{result.fingerprints:,} found"),
            ("", f"{result.remembered:,} remembered, {result.remembered_before:,} known"),
            *([("", f"{result.forgotten:,} of dead letters")] if result.forgotten else []),
            *([("", f"{result.unreadable:,} are not fingerprints")] if result.unreadable else []),
        ]
    )
    found = {adoption.requests_key: result.entries, adoption.dupefilter_key: result.fingerprints}
    kept = " and ".join(f"{key}:adopted" for key, count in found.items() if count)
    say(f"The counts agree. Kept: {kept or 'nothing, as there was nothing'}.")
    for reason, count in result.reasons.items():
        say(f"{count:,} not adopted: {reason}")
    if result.dead or result.unreadable:
        say(
            f"They are dead letters: skitter dead list {result.job}. "
            "Their pages are not marked as seen."
        )
