"""Take over another system's queue: adopt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from skitter.cli.common import Directory, Json, Redis, on_server, settings
from skitter.cli.output import emit_json, pairs, say
from skitter.errors import UsageError

if TYPE_CHECKING:
    from skitter.scrapy.adopt import Adopted, Adoption

TrustPickle = Annotated[
    bool,
    typer.Option(
        "--trust-pickle",
        help="Read pickled requests. Use it only if you trust everyone who can write to the "
        "server. Only plain types are read; what needs a class becomes a dead letter.",
    ),
]


def adopt(
    whose: Annotated[str, typer.Argument(metavar="scrapy-redis", help="Whose queue to take.")],
    spider: Annotated[str, typer.Option(help="The spider's name: the keys begin with it.")],
    job: Annotated[
        str | None, typer.Option(help="The job's name. Default: the spider's.", show_default=False)
    ] = None,
    requests_key: Annotated[
        str, typer.Option(help="SCHEDULER_QUEUE_KEY, if it was set.")
    ] = "%(spider)s:requests",
    dupefilter_key: Annotated[
        str, typer.Option(help="SCHEDULER_DUPEFILTER_KEY, if it was set.")
    ] = "%(spider)s:dupefilter",
    trust_pickle: TrustPickle = False,
    lifo: Annotated[bool, typer.Option("--lifo", help="The queue was a LifoQueue.")] = False,
    redis: Redis = None,
    directory: Directory = None,
    as_json: Json = False,
) -> None:
    """Take over the queue and dupefilter of a scrapy-redis spider.

    Stop its nodes first. The counts are verified, and the old keys are kept, with :adopted at
    their end. The exit code is 1 if some requests could not be read: they become dead letters,
    and their pages do not count as seen.
    """
    if whose != "scrapy-redis":
        raise UsageError(f"cannot adopt from {whose!r}: only from scrapy-redis.")
    from skitter.scrapy.adopt import Adoption
    from skitter.scrapy.adopt import adopt as take_over

    names = {"spider": spider}
    adoption = Adoption(
        spider=spider,
        job=job or spider,
        requests_key=requests_key % names,
        dupefilter_key=dupefilter_key % names,
        trust_pickle=trust_pickle,
        lifo=lifo,
    )
    result = on_server(settings(redis, directory), lambda server: take_over(server, adoption))
    if as_json:
        emit_json(result)
    else:
        _show(result, adoption)
    if result.dead or result.unreadable:
        raise typer.Exit(1)


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
            "Their pages do not count as seen."
        )
