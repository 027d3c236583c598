"""All tables, and all settings of a crawl.

All tables; defined here are workers, output and log.

All settings of a crawl, and the part that a worker gets.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

import msgspec

from skitter.errors import BadOption
from skitter.settings.features import BrowserOptions, QualityOptions, SessionPool
from skitter.settings.fetch import FetchOptions
from skitter.settings.job import JobOptions, Limits, Politeness, Retries
from skitter.settings.option import Table, option, options_of
from skitter.settings.proxy import Route, RouteOptions
from skitter.settings.safety import Safety, Visits
from skitter.settings.server import Settings

PROCESSES = "a number from 1 to 1000, cores or auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers(Table):
    """How many processes run here, and how each of them works."""

    processes: str = option(
        "cores",
        "Number of processes, cores, or auto (by queue depth and CPU).",
        flag="--workers --processes -p",
        takes=PROCESSES,
    )
    concurrency: int = option(
        64, "Concurrent pages per process.", low=1, high=10_000, flag="--concurrency -c"
    )
    nice: int | None = option(
        None, "Niceness of workers. Default: 10 next to a dashboard, otherwise 0.",
        low=0, high=19,
    )  # fmt: skip
    only: Literal["http", "browser"] | None = option(
        None, "Fetch only pages for plain HTTP, or only those for a browser.", flag="--only"
    )
    # Far above an ordinary crawl's needs: about 150, plus 64 pages of the largest size.
    max_memory_mb: int | None = option(
        1000, "Replace a worker that uses more than this many MB.", low=50, high=2**24,
        flag="--max-memory",
    )  # fmt: skip
    lease_s: float = option(
        60.0, "Seconds until the URLs of a dead worker return to the queue.", low=1, high=3600
    )
    grace_s: float = option(
        20.0, "Seconds that a stopping worker gives its pages to finish.", low=0, high=3600
    )
    # Half a lease: a process that is silent for longer loses its leases anyway.
    stuck_s: float | None = option(
        30.0, "End a process that one page has held up for this many seconds.",
        low=1, high=3600, variable="SKITTER_STUCK_S",
    )  # fmt: skip
    handler_tries: int = option(
        2, "Attempts for a page whose handler fails over a network or an unknown error.",
        low=1, high=100,
    )  # fmt: skip

    def __post_init__(self) -> None:
        Table.__post_init__(self)
        is_number = self.processes.isdecimal() and len(self.processes) <= 4
        number = int(self.processes) if is_number else 0
        if self.processes not in ("cores", "auto") and not 1 <= number <= 1000:
            raise BadOption("processes", self.processes, PROCESSES)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputOptions(Table):
    """Where items go."""

    to: str | None = option(
        None,
        "Where items go: a file, by its suffix, or a DSN. Default: JOB.db (crawl: JOB.jsonl).",
        flag="--out -o",
        variable="SKITTER_OUT",
        secret=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveOptions(Table):
    """Which pages are kept, and where."""

    keep: bool = option(
        False, "Keep every page that a handler sees, as WARC files.", flag="--archive"
    )
    folder: Path = option(Path("archive"), "Where kept pages are.", flag="--archive-folder")
    offline: bool = option(False, "Take pages from the archive, never from the web.")
    max_file_mb: int = option(1000, "Begin a new WARC file after this size.", low=1, high=10**6)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions(Table):
    """What is logged, and where."""

    level: Literal["debug", "info", "warning", "error"] = option(
        "info", "Lowest level to log.", flag="--log-level"
    )
    file: Path | None = option(None, "Also write the log to this file.", flag="--log-file")
    format: Literal["text", "json"] = option("text", "Format of the log file.")


#: Every table by name: in TOML, in variables and for -s.
TABLES: dict[str, type[Table]] = {
    "fetch": FetchOptions,
    "politeness": Politeness,
    "retries": Retries,
    "limits": Limits,
    "sessions": SessionPool,
    "visits": Visits,
    "safety": Safety,
    "workers": Workers,
    "browser": BrowserOptions,
    "routes": RouteOptions,
    "output": OutputOptions,
    "archive": ArchiveOptions,
    "quality": QualityOptions,
    "log": LogOptions,
    "server": Settings,
}


T = TypeVar("T", FetchOptions, Workers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Every setting, and where each came from."""

    fetch: FetchOptions = field(default_factory=FetchOptions)
    politeness: Politeness = field(default_factory=Politeness)
    retries: Retries = field(default_factory=Retries)
    limits: Limits = field(default_factory=Limits)
    sessions: SessionPool = field(default_factory=SessionPool)
    visits: Visits = field(default_factory=Visits)
    safety: Safety = field(default_factory=Safety)
    workers: Workers = field(default_factory=Workers)
    browser: BrowserOptions = field(default_factory=BrowserOptions)
    routes: RouteOptions = field(default_factory=RouteOptions)
    output: OutputOptions = field(default_factory=OutputOptions)
    archive: ArchiveOptions = field(default_factory=ArchiveOptions)
    quality: QualityOptions = field(default_factory=QualityOptions)
    log: LogOptions = field(default_factory=LogOptions)
    server: Settings = field(default_factory=Settings)
    proxies: tuple[Route, ...] = ()  # [[proxy]]
    origins: dict[str, str] = field(default_factory=dict)  # by key, to show to users
    #: Keys given as flags: they override what an operator set on the job.
    explicit: frozenset[str] = frozenset()

    @property
    def job_options(self) -> JobOptions:
        return JobOptions(
            politeness=self.politeness,
            retries=self.retries,
            limits=self.limits,
            visits=self.visits,
            safety=self.safety,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """What a worker needs to know. Passed as JSON: to processes in their environment, to Celery's
    workers along with the job."""

    job: str = ""
    spider: str = ""  # file.py, file.py:name or package.module:name
    arguments: dict[str, Any] = field(default_factory=dict, repr=False)  # of the spider
    keep_alive: bool = False  # keep running when the crawl has finished or is removed
    fetch: FetchOptions = field(default_factory=FetchOptions)
    sessions: SessionPool = field(default_factory=SessionPool)
    workers: Workers = field(default_factory=Workers)
    browser: BrowserOptions = field(default_factory=BrowserOptions)
    #: Not for Celery's workers, which have their own: hosts and secrets are not read from a server.
    proxies: tuple[Route, ...] = ()
    routes: RouteOptions = field(default_factory=RouteOptions)
    archive: ArchiveOptions = field(default_factory=ArchiveOptions)
    log: LogOptions = field(default_factory=LogOptions)

    def to_json(self) -> str:
        return msgspec.json.encode(self, enc_hook=str).decode()

    @classmethod
    def from_json(cls, text: str) -> Self:
        return msgspec.json.decode(text, type=cls, dec_hook=to_type)


def to_type(kind: type, value: Any) -> Any:
    """Converts types that JSON lacks: paths."""
    return kind(value)


def overlaid(own: T, asked: T) -> T:
    """Our own table, overridden by the values asked for that are not the default."""
    options = options_of(type(own))
    asked_for = [one.name for one in options if getattr(asked, one.name) != one.default]
    return replace(own, **{name: getattr(asked, name) for name in asked_for})
