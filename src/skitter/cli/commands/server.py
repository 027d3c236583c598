"""The embedded server: up, down, doctor."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import uvloop

from skitter.cli.common import SERVER, Directory, Json, Where
from skitter.cli.parameters import Argument, Exit, Option
from skitter.cli.show.console import out, remark
from skitter.cli.show.output import answer, emit_json, pairs, print_progress, say
from skitter.embedded import EmbeddedServer, ServerOptions, check, hold, running, start, stop
from skitter.embedded.home import disk_errors
from skitter.errors import JobMissing, SkitterError, UsageError, free_space
from skitter.fetch.browser.chromium import find_browser, missing
from skitter.frontier.jobs import for_each_job, list_jobs, open_job
from skitter.frontier.records.health import bloom_warnings
from skitter.frontier.transport.connection import Server, ServerFacts, connect, inspect
from skitter.redact import redact
from skitter.settings import BrowserOptions, Settings, find_server, resolve
from skitter.trust import trust

NOT_WRITTEN = "the last write to disk failed: free some disk space where the server runs."
LITTLE_BYTES = 8 * 2**20  # starting already writes a configuration, a log and a data file


def up(
    directory: Directory = None,
    port: Annotated[int | None, Option(help="Also open this TCP port.")] = None,
    bind: Annotated[
        str, Option(help="Address of that port. Any but loopback requires SKITTER_PASSWORD.")
    ] = "127.0.0.1",
    max_memory_mb: Annotated[
        int | None, Option(help="Memory limit; new URLs are refused beyond it.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Start the embedded server, and keep it running until `down`."""
    options = ServerOptions(
        port=port,
        bind=bind,
        password=os.environ.get("SKITTER_PASSWORD") or None,
        max_memory_mb=max_memory_mb,
    )
    server = start(find_server(None, directory).directory, options, progress=print_progress)
    process = running(server.directory)
    pid, name = (process.pid, process.name) if process else (None, "The server")
    sentence = f"{name} is up at {server.url} (pid {pid}); `skitter down` stops it."
    answer({"url": server.url, "port": port, "pid": pid}, sentence, as_json=as_json)
    if port and not as_json:
        secret = ":PASSWORD@" if options.password else ""
        say(f"Workers elsewhere use --redis redis://{secret}{bind}:{port}")
        if not secret:
            print_progress(
                "Any user of this machine can use that port, unless you set SKITTER_PASSWORD."
            )


def down(directory: Directory = None, as_json: Json = False) -> None:
    """Stop the embedded server.

    Its data stays, and the next command that needs it starts it again.
    """
    where = find_server(None, directory).directory
    stopped = stop(where, progress=print_progress)
    sentence = "The server is down." if stopped else f"No server was running in {where}."
    answer({"stopped": stopped}, sentence, as_json=as_json)


def trust_directory(
    directory: Annotated[
        Path | None,
        Argument(metavar="DIR", help="Default: .skitter", show_default=False),
    ] = None,
    as_json: Json = False,
) -> None:
    """Use a directory that another release, machine or user made.

    Its configuration, keys and data are obeyed from then on. Skitter asks for this when it finds a
    directory that it did not make here: one from an earlier release, or a copy.
    """
    where = find_server(None, directory).directory.absolute()
    if not where.is_dir():
        raise UsageError(f"there is no directory {where}: Skitter makes one when it needs it.")
    with disk_errors(EmbeddedServer(directory=where)):
        trust(where)
    answer({"trusted": str(where)}, f"Skitter uses {where} from now on.", as_json=as_json)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What runs, how safe it is, and what to do about it."""

    server: str
    running: bool
    facts: ServerFacts | None = None
    jobs: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    browser: str = ""  # what renders pages, or what to install for that


def doctor(where: Where = SERVER, as_json: Json = False) -> None:
    """Check the server, and say how to fix what is wrong with it."""
    found = replace(diagnose(where), browser=browser_of(resolve().browser))
    if as_json:
        emit_json(found)
    else:
        _show(found)
    if found.problems:
        raise Exit(1)


def diagnose(where: Settings) -> Diagnosis:
    """Examine the server without starting anything."""
    if where.redis_url is not None:
        return uvloop.run(_examine(where.redis_url, None, redact(where.redis_url)))
    home = EmbeddedServer(directory=where.directory)
    check(home)
    name, full = f"embedded, in {home.directory}", problems_of_disk(home.directory)
    if running(where.directory) is None:
        return Diagnosis(name, running=False, problems=full)
    with hold(where.directory) as server:
        found = uvloop.run(_examine(server.url, server.password, name))
    known = {NOT_WRITTEN} if full else set()
    return replace(found, problems=sorted({*found.problems, *full} - known))


def browser_of(options: BrowserOptions) -> str:
    """Describe the browser. Having none is not a problem: most crawls do not need one."""
    if lacking := missing(options):
        return f"none, which render=True needs; {lacking}"
    where = "a browser elsewhere" if options.cdp_url else options.executable or find_browser()
    return f"{options.provider} {version(options.provider)} on {where}"


def problems_of_disk(directory: Path) -> list[str]:
    """Without disk space a server refuses writes and does not start."""
    place = next(path for path in (directory, *directory.parents) if path.exists())
    if shutil.disk_usage(place).free >= LITTLE_BYTES:
        return []
    return [
        f"the disk of {directory} is full ({free_space(place)} free): make room there, "
        "or choose another directory with --dir."
    ]


async def _examine(url: str, password: str | None, name: str) -> Diagnosis:
    async with connect(url, password=password) as server:
        nodes = await inspect(server)
        problems = sorted({problem for facts in nodes for problem in problems_of(facts)})
        problems += await _problems_in_jobs(server)
        jobs = await list_jobs(server)
        return Diagnosis(name, running=True, facts=nodes[0], jobs=jobs, problems=problems)


async def _problems_in_jobs(server: Server) -> list[str]:
    """Obvious problems of jobs; `audit` checks one thoroughly."""
    problems: list[str] = []

    async def look(job: str) -> None:
        notes = await bloom_warnings(await open_job(server, job))
        problems.extend(f"{job}: {note}" for note in notes)

    def on_damaged(job: str, error: SkitterError) -> None:
        if not isinstance(error, JobMissing):  # else it was purged meanwhile
            problems.append(str(error))

    await for_each_job(server, look, on_damaged)
    return sorted(problems)


def problems_of(facts: ServerFacts) -> list[str]:
    """What an operator should change. Pure."""
    problems = []
    if not facts.append_only:
        problems.append(
            "appendonly is off, so a restart of the server loses URLs: "
            "run `CONFIG SET appendonly yes` on it, and put it into its configuration."
        )
    elif facts.append_fsync == "no":
        problems.append(
            "appendfsync is 'no', so a power failure may lose 30 seconds: "
            "run `CONFIG SET appendfsync everysec`."
        )
    if not facts.last_write_ok:
        problems.append(NOT_WRITTEN)
    if facts.max_memory_bytes and facts.memory_bytes > 0.8 * facts.max_memory_bytes:
        share = facts.memory_bytes / facts.max_memory_bytes
        problems.append(
            f"memory is {share:.0%} full, and new URLs are refused at 100 %: "
            "raise maxmemory, or let workers and loaders drain it."
        )
    return problems


def _show(found: Diagnosis) -> None:
    rows: list[tuple[str, object]] = [("server", found.server)]
    facts = found.facts
    if facts is None:
        rows.append(("running", "no; it starts when a command needs it"))
    else:
        room = f"{facts.max_memory_bytes / 2**20:,.0f} MB" if facts.max_memory_bytes else "no limit"
        fsync = f"append-only file, fsync {facts.append_fsync or 'unknown'}"
        rows += [
            ("running", f"{facts.name} {facts.version}, pid {facts.pid}, for {facts.uptime_s:,} s"),
            ("durability", fsync if facts.append_only else "none"),
            ("eviction", facts.eviction),
            ("memory", f"{facts.memory_bytes / 2**20:,.1f} MB of {room}"),
            ("jobs", ", ".join(found.jobs) or "none yet"),
        ]
    pairs([*rows, ("browser", found.browser)])
    for problem in found.problems:
        remark("problem", problem, style="yellow")
    if facts is not None and not found.problems:
        out.print("[green]No problems.[/]")
