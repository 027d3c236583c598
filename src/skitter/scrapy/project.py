"""A Scrapy project in the list of an agent: what it offers, and its runs.

A run is carried out by nodes, each a process in the project's folder that does what `scrapy crawl`
does. They use the agent's server; what else they do is up to the project's own settings.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import math
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec
from scrapy import cmdline
from scrapy.spiderloader import SpiderLoader
from scrapy.utils.misc import load_object
from scrapy.utils.project import get_project_settings

from skitter.app import open_server
from skitter.crawl.carried import STARTED, leave_if_orphaned, started, take_stdout, write_out
from skitter.crawl.children import Children
from skitter.crawl.findings import dead_reasons
from skitter.crawl.printed import Output
from skitter.crawl.supervisor import HURRY_S, STOP_S, TICK_S
from skitter.engine.pulse import is_orphan
from skitter.errors import FrontierError, JobMissing, SkitterError, UsageError
from skitter.frontier.jobs import open_job, purge_job
from skitter.frontier.records.agents import Offer
from skitter.frontier.records.drivers import read_run
from skitter.observe.report import CrawlResult, Written, report_of
from skitter.scrapy.connection import NEEDLESS
from skitter.scrapy.node.housekeeping import join_run, open_shared, remove_if_last
from skitter.scrapy.scheduler import Scheduler
from skitter.scrapy.settings import job_name, read_options
from skitter.settings import find_server
from skitter.spider.offers import arguments_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy import Spider
    from scrapy.settings import BaseSettings
    from scrapy.settings import Settings as ScrapySettings

    from skitter.crawl.carried import Carried, Started
    from skitter.crawl.children import Child, Death
    from skitter.frontier.frontier import Frontier
    from skitter.frontier.records.runs import Spec
    from skitter.frontier.transport.connection import Server
    from skitter.observe.report import Report
    from skitter.scrapy.settings import NodeOptions
    from skitter.settings import Settings

#: What a run may set, by Scrapy's names. Besides these, how many nodes it has.
SETTINGS: Final = {
    "limits.max_depth": "DEPTH_LIMIT",
    "limits.max_pages": "CLOSESPIDER_PAGECOUNT",
    "politeness.delay_s": "DOWNLOAD_DELAY",
    "politeness.max_in_flight": "CONCURRENT_REQUESTS_PER_DOMAIN",
    "retries.max_retries": "RETRY_TIMES",
    "workers.concurrency": "CONCURRENT_REQUESTS",
}
NODES: Final = "workers.processes"
#: They would have the spider read the keys of others, or work on their job.
NOT_ARGUMENTS: Final = ("name", "redis_key", "settings", "crawler")
#: Where the server is: not as the project says, but as the agent does.
PLACES: Final = ("REDIS_HOST", "REDIS_PORT", "REDIS_DB", "REDIS_PASSWORD")
#: Of the environment of a node: a later one of the same run begins nothing anew.
RUN: Final = "SKITTER_SCRAPY_RUN"
LOOK_S: Final = 0.5


def list_offers() -> None:
    """The spiders of the project in this folder, as JSON."""
    out, settings = take_stdout(), get_project_settings()
    loader = SpiderLoader.from_settings(settings)
    offers = [_offer(loader.load(name), settings) for name in loader.list()]
    write_out(out, msgspec.json.encode(offers))


def _offer(kind: type[Spider], settings: BaseSettings) -> Offer:
    parameters = inspect.signature(kind).parameters.values()
    named = [argument for argument in arguments_of(kind, {}) if argument.name != "name"]
    return Offer(
        name=kind.name,
        job=job_name(_own(settings, kind), kind.name),
        arguments=[
            msgspec.structs.replace(argument, default="")
            if argument.default == "none"
            else argument
            for argument in named
        ],
        takes_any=any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters),
        settings=[*SETTINGS, NODES],
        version=_version_of(kind),
    )


def _own(settings: BaseSettings, kind: type[Spider]) -> BaseSettings:
    """With those of the spider, as Scrapy's crawler has them."""
    own = settings.copy()
    kind.update_settings(own)
    return own


def _version_of(kind: type[Spider]) -> str:
    """As for spiders of ours: the name, and a digest of its file."""
    try:
        code = Path(inspect.getfile(kind)).read_bytes()
    except (OSError, TypeError):
        return kind.name
    return f"{kind.name} {hashlib.sha256(code).hexdigest()[:7]}"


# --- a run ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Project:
    """The spider of a run, and its settings. This process is in the project's folder."""

    started: Started
    where: Settings
    kind: type[Spider]
    found: BaseSettings  # as the project and the spider have it
    settings: ScrapySettings  # as its nodes get it

    @classmethod
    def enter(cls, started: Started) -> Self:
        """Raises UsageError for what no run may set."""
        check(started.lease.spec)
        where = find_server()
        where = replace(where, directory=where.directory.resolve())
        file, _, name = started.target.partition(":")
        place = Path(file).resolve()
        started = msgspec.structs.replace(started, target=f"{place}:{name}")  # for its nodes
        os.chdir(place.parent)
        settings = get_project_settings()
        kind = SpiderLoader.from_settings(settings).load(name)
        found = _own(settings, kind)
        settings.setdict(_forced(started, where, found), priority="cmdline")
        job = started.lease.spec.job or job_name(found, name)
        settings.set("SKITTER_JOB", job, priority="cmdline")
        return cls(started, where, kind, found, settings)

    @cached_property
    def options(self) -> NodeOptions:
        spider: Any = self.kind  # its attributes are asked for
        return read_options(_own(self.settings, self.kind), spider)

    @property
    def nodes(self) -> int:
        return _nodes(self.started.lease.spec.settings)

    def environment(self, run: int) -> dict[str, str]:
        """A node's: arguments may be secrets, which anybody could read in `ps`."""
        place = {"SKITTER_DIR": str(self.where.directory), RUN: str(run)}
        return {**os.environ, **place, STARTED: msgspec.json.encode(self.started).decode()}


def check(spec: Spec) -> None:
    """Raises UsageError. Scrapy makes an attribute of the spider of each argument."""
    spec.check()
    for name in spec.arguments:
        if name in NOT_ARGUMENTS:
            raise UsageError(f"{name} cannot be an argument of a run: the project sets it.")
    for key in spec.settings:
        if key not in (*SETTINGS, NODES):
            raise UsageError(f"a run of a Scrapy spider cannot set {key!r}.")


def _nodes(settings: Mapping[str, Any]) -> int:
    wanted = settings.get(NODES, os.environ.get("SKITTER_WORKERS_PROCESSES"))
    return max(1, int(wanted)) if str(wanted).isdecimal() else 1


def _forced(started: Started, where: Settings, found: BaseSettings) -> dict[str, Any]:
    """What a node is told on its command line, as it were."""
    spec = started.lease.spec
    forced: dict[str, Any] = dict.fromkeys(PLACES)
    params = found.getdict("REDIS_PARAMS")
    forced |= {
        "REDIS_URL": where.redis_url,
        "REDIS_PARAMS": {name: params[name] for name in params if name in NEEDLESS},
        "SKITTER_DIR": str(where.directory),
        "SKITTER_TRUST_START": not spec.arguments,
        # Other nodes need the job until all have ended; `carry_out_project` removes it.
        "SCHEDULER_PERSIST": True,
        "SCHEDULER_FLUSH_ON_START": False,
    }
    scheduler = load_object(found["SCHEDULER"])
    if not issubclass(scheduler, Scheduler):
        forced["SCHEDULER"] = Scheduler
    forced |= {SETTINGS[key]: value for key, value in spec.settings.items() if key != NODES}
    if pages := spec.settings.get("limits.max_pages"):  # each node counts its own
        forced["CLOSESPIDER_PAGECOUNT"] = math.ceil(pages / _nodes(spec.settings))
    return forced


def run_node(parent: int) -> None:
    """`scrapy crawl`, until it ends or its parent does."""
    ours = started()
    project = Project.enter(ours)
    project.settings.set("SKITTER_RUN", os.environ.pop(RUN), priority="cmdline")
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    given = [f"{name}={value}" for name, value in ours.lease.spec.arguments.items()]
    words = ["scrapy", "crawl", project.kind.name]
    cmdline.execute([*words, *(word for one in given for word in ("-a", one))], project.settings)


def _end_with(parent: int) -> None:
    while not is_orphan(parent):
        time.sleep(LOOK_S)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(LOOK_S)
    os.kill(os.getpid(), signal.SIGTERM)  # a second time: without waiting for pages


async def carry_out_project(carried: Carried) -> int:
    """The run that an agent has leased. Returns the exit code."""
    project = Project.enter(carried.started)
    job = project.options.job
    carried.check_job(job)
    async with open_server(project.where, progress=_say) as server:
        await carried.opened(server)
        discards = carried.discards or project.found.getbool("SCHEDULER_FLUSH_ON_START")
        if discards and not carried.started.lease.job:
            await _discard(server, job)
        frontier = await open_shared(server, project.options)
        report, over = await _crawl(carried, project, frontier)
        carried.ended(report)
        if over and not project.found.getbool("SCHEDULER_PERSIST"):
            await remove_if_last(frontier)
    return report.exit_code


async def _discard(server: Server, job: str) -> None:
    with suppress(JobMissing):
        await purge_job(await open_job(server, job, as_found=True))


async def _crawl(carried: Carried, project: Project, frontier: Frontier) -> tuple[Report, bool]:
    began, before = time.monotonic(), await frontier.stats()
    version = _version_of(project.kind)
    has_begun = bool(carried.started.lease.job)
    run = await (read_run(frontier) if has_begun else join_run(frontier, before))
    if not await carried.note_begun(frontier.server, frontier.job, version, before):
        raise FrontierError("another agent has this run.")
    output = Output.of(project.where.directory, frontier.job)
    children = Children(frontier, project.environment(run), output, on_output=_say)
    nodes = Nodes(frontier, children, project.nodes)
    leaving = asyncio.create_task(leave_if_orphaned(carried.parent, nodes.stop))
    over = await nodes.run(carried.left_s)
    leaving.cancel()
    after = await frontier.stats()
    result = CrawlResult(
        before,
        after,
        time.monotonic() - began,
        over=over,
        max_time_s=carried.started.lease.spec.max_time_s if nodes.is_out_of_time else None,
        dead_reasons=await dead_reasons(frontier) if after.dead else {},
    )
    report = report_of(result, Written(""))
    if nodes.failed:
        code = nodes.failed.code
        end = f"{nodes.failed.cause}: {_last_error(output)}"
        report = replace(report, exit_code=code, end=end, finished=False)
    elif over and not after.crawled:  # CloseSpider, and settings that lead to it
        left = f"{after.remaining:,} requests are left; run it again to continue"
        report = replace(report, end=f"closed by its spider; {left}", finished=True, exit_code=0)
    return report, over


def _last_error(output: Output) -> str:
    """As Scrapy's log has it; else what Python said last."""
    lines = output.read() or ["it wrote nothing."]
    errors = [said for line in lines if (said := line.partition("] ERROR: ")[2])]
    return (errors or lines)[-1]


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")  # the agent reads it


@dataclass(slots=True)
class Nodes:
    """The nodes of a run on this machine. One that is killed is started again."""

    frontier: Frontier
    children: Children
    number: int
    failed: Death | None = None  # a node that ended with an error: another would, too
    is_out_of_time: bool = False
    _nodes: list[Child] = field(default_factory=list)
    _signals: int = 0

    async def run(self, left_s: float | None) -> bool:
        """Until all have ended by themselves (True), or one failed, or we are told to stop."""
        loop, numbers = asyncio.get_running_loop(), (signal.SIGTERM, signal.SIGINT)
        for number in numbers:
            loop.add_signal_handler(number, self.stop)
        ends_at = math.inf if left_s is None else time.monotonic() + left_s
        over = False
        while not (over or self.failed or self._signals):
            if time.monotonic() > ends_at:
                self.is_out_of_time = True
                break
            try:
                over = await self._look()
            except SkitterError as error:  # nodes wait for the server, too
                if not error.retryable:
                    raise
            await self.children.one_ended(within_s=TICK_S)
        self.children.kill_within(STOP_S)
        await self.children.stop("node")
        for number in numbers:
            loop.remove_signal_handler(number)
        return over

    def stop(self) -> None:
        self._signals += 1
        if self._signals > 1:  # without waiting for pages in flight
            self.children.kill_within(HURRY_S)
            self.children.send(signal.SIGTERM)

    async def _look(self) -> bool:
        """Whether all have ended."""
        for node in self._nodes:
            if (death := node.reap()) and death.code > 0:
                self.failed = death
                return False
        if self._nodes and all(node.finished for node in self._nodes):
            return True
        # The first one alone, until there is work for another.
        wanted = self.number if (await self.frontier.stats()).remaining > 1 else 1
        while len(self._nodes) < wanted:
            words = [sys.executable, "-P", "-m", "skitter", "node", self.frontier.job]
            command = [*words, "--parent", str(os.getpid())]
            self._nodes.append(self.children.add("node", command))
        for node in self._nodes:
            await self.children.keep_running(node)
        return False


if __name__ == "__main__":
    list_offers()
