"""Runs: what was asked for, which agent has it, and what came of it.

A run is leased as URLs are: by a token, until the lease expires. docs/adr/0083-runs.md explains it.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from skitter.errors import (
    BadOption,
    FrontierError,
    RunMissing,
    UsageError,
    did_you_mean,
    shorten,
)
from skitter.frontier.transport.endpoints import client_name
from skitter.frontier.transport.keys import RUNS, ShardKeys
from skitter.frontier.transport.messages import clip, side_by_side
from skitter.frontier.transport.scripts import Code
from skitter.frontier.transport.shard import Shard
from skitter.settings import JOB_OPTIONS, check_job_name
from skitter.settings.sources import OPTIONS, check_given

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from skitter.frontier.transport.connection import Server

#: An agent renews every few seconds; without that, after LEASE_S, the run is another agent's.
LEASE_S: Final = 15.0
RENEW_S: Final = 3.0
#: How often a run changes hands without an end. Then it ends: it may be what kills its agents.
MOST_LOST: Final = 20
#: Runs that have ended and are kept, and those that have not.
KEPT: Final = 1000
MOST_OPEN: Final = 1000

#: What a run may set: nothing that names a path, a host or a program of the agent's machine.
RUN_OPTIONS = (
    *JOB_OPTIONS,
    *(OPTIONS[key] for key in ("workers.processes", "workers.concurrency", "workers.share")),
)
SETTABLE = {option.key for option in RUN_OPTIONS}
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
FILE = re.compile(r"[A-Za-z0-9][\w.-]{0,99}\.(db|jsonl|csv|parquet)")
SAYS_CHARS = 2000
#: It is handed to a process in its environment.
SPEC_BYTES: Final = 50_000
MOST_TIME_S: Final = 10**9


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """What is to run. It names a spider of an agent's list, never a file."""

    spider: str
    arguments: dict[str, str] = {}
    settings: dict[str, Any] = {}  # by key, as in a file
    job: str = ""  # empty: as the spider says
    out: str = ""  # a file name in the agent's directory; empty: as the agent is configured
    fresh: bool = False
    max_time_s: float | None = None
    by: str = ""  # who asked for it
    again: str = ""  # the run that it repeats
    round_ms: int = 0  # the scheduled round that it begins
    #: Patterns of the jobs that it may work on, as in the token of who asked; empty: any. What a
    #: spider calls its job may depend on its arguments.
    within: list[str] = []

    def check(self) -> None:
        """Raises UsageError. Also called by the agent: anybody can write to the server."""
        if self.job:
            check_job_name(self.job)
        if len(msgspec.json.encode(self)) > SPEC_BYTES:
            raise UsageError(f"a run takes at most {SPEC_BYTES:,} bytes of arguments and settings.")
        if self.max_time_s is not None and not 0 < self.max_time_s <= MOST_TIME_S:
            raise BadOption("max_time_s", f"{self.max_time_s:g}", f"up to {MOST_TIME_S:,} seconds")
        if self.out and not FILE.fullmatch(self.out):
            raise BadOption("out", self.out, "a file name such as books.db, without a directory")
        for key in self.settings:
            if key not in SETTABLE:
                hint = did_you_mean(key, SETTABLE) or "the agent's skitter.toml sets all others."
                raise UsageError(f"a run cannot set {shorten(key)!r}: {hint}")
        check_given(self.settings)


class Hold(Enum):
    """What an agent learns when it renews."""

    OURS = Code.EXTENDED
    STOPPED = Code.CLOSED  # somebody wants it to stop
    LOST = Code.LOST  # it is another agent's, or has ended


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """A run that an agent has for now."""

    id: str
    token: str
    spec: Spec
    lost: int  # agents that vanished with it
    started_at: float
    job: str  # it was begun there by an earlier agent; empty: it was not
    done_before: int = 0  # pages of that job that were done before the run
    spent_s: float = 0.0  # since it was first begun, by the server's clock


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a run."""

    id: str
    state: str  # waiting, running, stopping, finished, failed or stopped
    spider: str
    arguments: dict[str, str]
    settings: dict[str, Any]
    job: str  # empty: not known before it begins
    out: str
    fresh: bool
    max_time_s: float | None
    by: str
    again: str
    within: list[str]
    asked_at: float
    started_at: float | None
    ended_at: float | None
    agent: str  # the last one
    version: str  # of the spider's source
    lost: int  # agents that vanished with it
    stopped_by: str
    exit_code: int | None
    says: str  # why it failed, if it has no report
    report: dict[str, Any] | None  # what `run --json` prints

    @property
    def seconds(self) -> float | None:
        if self.started_at is None or self.ended_at is None:
            return None
        return max(0.0, self.ended_at - self.started_at)


def new_id() -> str:
    return secrets.token_hex(5)


@dataclass(slots=True)
class Runs:
    """The runs of a server, for one client."""

    shard: Shard

    @classmethod
    def on(cls, server: Server, *, clock: Callable[[], int] | None = None) -> Self:
        return cls(Shard(server, ShardKeys(RUNS, 0), client_name(), clock))

    # --- for those who want one -------------------------------------------------------------------

    async def start(self, spec: Spec, identity: str = "", *, job: str = "") -> bool:
        """Record it, to be run by an agent. False: there is a run of that id already. `job`: what
        the spec does not name, but the spider does."""
        spec.check()
        if not ID.fullmatch(identity):
            raise BadOption("id", identity, "1 to 64 letters, digits, '.', '_' or '-'")
        code = await self.shard.start_run(
            id=identity,
            spider=spec.spider,
            lane=spec.job or job or f"spider {spec.spider}",
            spec=msgspec.json.encode(spec),
            keep=KEPT,
            at_most=MOST_OPEN,
        )
        if code == Code.FULL:
            raise FrontierError(
                f"{MOST_OPEN:,} runs have not ended: stop some with `skitter runs stop`."
            )
        return code == Code.NEW

    async def stop(self, identity: str, *, by: str) -> bool:
        """Whether there was anything to stop. Raises RunMissing."""
        code = await self.shard.stop_run(id=identity, who=by)
        if code == Code.LOST:
            raise RunMissing(identity)
        return code != Code.SEEN

    async def get(self, identity: str) -> Run:
        """Raises RunMissing."""
        run = await self._read(identity) if ID.fullmatch(identity) else None
        if run is None:
            raise RunMissing(identity)
        return run

    async def spec_again(self, identity: str, by: str) -> Spec:
        """What a run was given, to be started again. Raises RunMissing."""
        run = await self.get(identity)
        names = set(Spec.__struct_fields__) - {"round_ms", "within"}
        fields = {name: getattr(run, name) for name in names}
        asked = await self.shard.server.command("HGET", self.shard.keys.key("run", run.id), "spec")
        job = msgspec.json.decode(asked, type=Spec).job
        return Spec(**fields | {"job": job, "by": by, "again": identity})

    async def newest(
        self, wanted: Callable[[Run], bool], *, limit: int, skip: int = 0
    ) -> tuple[list[Run], int | None]:
        """The newest that are wanted, and where to go on; None: there are no more."""
        found, at, step = list[Run](), skip, max(limit, 50)
        while True:
            ids = await self.shard.command("ZREVRANGE", "runs", at, at + step - 1)
            for number, run in enumerate(
                await side_by_side([self._read(raw.decode()) for raw in ids]), at + 1
            ):
                if run and wanted(run):
                    found.append(run)
                if len(found) == limit:
                    return found, number
            if len(ids) < step:
                return found, None
            at += step

    async def _read(self, identity: str) -> Run | None:
        raw = await self.shard.server.command("HGETALL", self.shard.keys.key("run", identity))
        try:
            return run_of(identity, {name.decode(): value.decode() for name, value in raw.items()})
        except (ValueError, KeyError):  # it was forgotten, or others have written there
            return None

    # --- for agents -------------------------------------------------------------------------------

    async def take(self, agent: str, spiders: Iterable[str]) -> Lease | None:
        """The run that has waited longest, of those that this agent can run."""
        found = await self.shard.take_run(
            list(spiders), agent=agent, ttl_ms=round(1000 * LEASE_S), most_lost=MOST_LOST
        )
        if not found:
            return None
        texts = [part.decode("utf-8", "replace") for part in found]  # others can write there
        identity, token, spec, lost, started_ms, job, done, now = texts
        return Lease(
            id=identity,
            token=token,
            spec=_spec_in(spec),
            lost=_number(lost),
            started_at=_number(started_ms) / 1000,
            job=job,
            done_before=_number(done),
            spent_s=max(0, _number(now) - _number(started_ms)) / 1000,
        )

    async def renew(
        self, identity: str, token: str, *, job: str = "", version: str = "", done: int = 0
    ) -> Hold:
        """`job`: it has begun there, with a spider of this version, after so many pages."""
        ttl_ms = round(1000 * LEASE_S)
        said = await self.shard.renew_run(
            id=identity, claim=token, ttl_ms=ttl_ms, job=job, version=version, done=done
        )
        return Hold(Code(said))

    async def end(
        self,
        lease: Lease,
        *,
        exit_code: int | None = None,
        report: bytes = b"",
        says: str = "",
        back: bool = False,
        blamed: bool = True,
    ) -> bool:
        """It has ended, or goes `back` to wait for another agent. Not `blamed`: as this one is
        being stopped. False: it is not ours."""
        came: dict[str, str | bytes] = {
            "exit_code": "" if exit_code is None else str(exit_code),
            "report": report,
            "says": clip(says[-SAYS_CHARS:]),
        }
        code = await self.shard.end_run(
            [(field, value) for field, value in came.items() if value],
            id=lease.id,
            claim=lease.token,
            back=int(back),
            blamed=int(blamed),
            most_lost=MOST_LOST,
        )
        return code == Code.DONE


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 16 else 0


def _spec_in(text: str) -> Spec:
    """One that names no spider if others have written there."""
    try:
        return msgspec.json.decode(text, type=Spec)
    except msgspec.MsgspecError:
        return Spec(spider="")


def run_of(identity: str, fields: Mapping[str, str]) -> Run:
    """Raises KeyError or ValueError."""
    spec = msgspec.json.decode(fields["spec"], type=Spec)
    exit_code = int(fields["exit_code"]) if fields.get("exit_code") else None
    report = msgspec.json.decode(fields["report"]) if fields.get("report") else None

    def moment(name: str) -> float | None:
        return int(fields[name]) / 1000 if name in fields else None

    return Run(
        id=identity,
        state=_state(fields, exit_code),
        job=fields.get("job") or spec.job or _lane(fields),
        asked_at=moment("asked_ms") or 0.0,
        started_at=moment("started_ms"),
        ended_at=moment("ended_ms"),
        agent=fields.get("agent", ""),
        version=fields.get("version", ""),
        lost=int(fields.get("lost", 0)),
        stopped_by=fields.get("stop", ""),
        exit_code=exit_code,
        says=fields.get("says", "") or _why(fields, exit_code),
        report=report,
        spider=spec.spider,
        arguments=spec.arguments,
        settings=spec.settings,
        out=spec.out,
        fresh=spec.fresh,
        max_time_s=spec.max_time_s,
        by=spec.by,
        again=spec.again,
        within=spec.within,
    )


def _lane(fields: Mapping[str, str]) -> str:
    lane = fields.get("lane", "")
    return "" if " " in lane else lane  # no job has a space in its name


def _state(fields: Mapping[str, str], exit_code: int | None) -> str:
    if "ended_ms" not in fields:
        if "token" not in fields:
            return "waiting"
        return "stopping" if "stop" in fields else "running"
    if "stop" in fields:
        return "stopped"
    return "finished" if exit_code == 0 else "failed"


def _why(fields: Mapping[str, str], exit_code: int | None) -> str:
    if "ended_ms" in fields and "stop" not in fields and exit_code is None:
        return f"{fields.get('lost', '0')} agents had it, and each vanished or gave it back."
    return ""
