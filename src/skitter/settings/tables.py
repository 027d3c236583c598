"""All settings of a crawl, and the tables of a worker and of what it writes."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeVar

import msgspec

from skitter.errors import BadOption
from skitter.settings.fetch import FetchOptions
from skitter.settings.job import (
    JOB_OPTIONS,
    JobOptions,
    Limits,
    Politeness,
    Retries,
    Safety,
    Visits,
)
from skitter.settings.option import Table, option, options_of
from skitter.settings.proxy import Route, RouteOptions
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
    share: int | None = option(
        None, "Share of this machine: jobs that have one begin pages in proportion to them.",
        low=1, high=1000, flag="--share",
    )  # fmt: skip
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
class BrowserOptions(Table):
    """How pages are rendered. Only handlers with `render` need it."""

    provider: Literal["playwright", "patchright"] = option(
        "playwright", "The library that drives the browser."
    )
    executable: Path | None = option(
        None, "The browser to start. none: the first Chromium or Chrome on the PATH."
    )
    # Anyone who can connect to it controls that browser.
    cdp_url: str | None = option(
        None,
        "Use a browser that runs elsewhere, by its DevTools address. Its traffic leaves from "
        "there: only the addresses of pages are guarded, not what they load.",
        secret=True,
    )
    concurrency: int = option(4, "Pages at a time, per process.", low=1, high=100)
    deadline_s: float = option(30.0, "Seconds for a whole page.", low=1, high=600)
    settle_s: float = option(
        5.0, "Longest wait for the network to become quiet, in seconds.", low=0, high=600
    )
    pages_per_context: int = option(
        50, "Close the context of a session after this many pages.", low=1, high=10_000
    )
    context_age_s: float = option(
        600.0, "Close the context of a session after this many seconds.", low=1, high=86_400
    )
    pages_per_browser: int = option(
        500, "Replace the browser after this many pages.", low=1, high=100_000
    )
    browser_age_s: float = option(
        3600.0, "Replace the browser after this many seconds.", low=1, high=86_400
    )
    max_memory_mb: int | None = option(
        2000, "Replace a browser that uses more than this many MB.", low=100, high=2**24
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityOptions(Table):
    """When the quality of items is bad, and what `run` does then. A handler's latest pages are
    compared with the best stretch before them."""

    min_pages: int = option(
        100, "Pages to compare with as many before them; with fewer, nothing is judged.",
        low=10, high=1_000_000,
    )  # fmt: skip
    max_fill_drop: float | None = option(
        0.5, "How much the fill rate of a field may drop: 0.5 is by half.", low=0.01, high=1
    )
    max_items_drop: float | None = option(
        0.7, "How much the number of items per page may drop: 0.7 is to 30 %.", low=0.01, high=1
    )
    min_items_per_page: float | None = option(
        None, "Smallest acceptable number of items per page.", low=0, high=10_000
    )
    max_blocked: float | None = option(
        0.2, "Largest share of responses that may be block pages.", low=0.001, high=1
    )
    max_blocked_rise: float | None = option(
        0.1, "How much that share may rise: 0.1 is from 1 % to 11 %.", low=0.001, high=1
    )
    on_bad: Literal["warn", "fail", "pause"] = option(
        "warn",
        "On bad quality: warn, fail (run exits with 1), or pause the crawl at once and fail.",
        flag="--on-bad",
    )
    on_empty: Literal["warn", "fail"] = option(
        "fail",
        "If a spider that yields items has stored none: warn, or fail (run exits with 1).",
        flag="--on-empty",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPool(Table):
    """The sessions that a crawl keeps per site (registrable domain), and when one is retired."""

    cookies: bool = option(True, "Keep cookies, as browsers do.", flag="--cookies/--no-cookies")
    size: int = option(1, "Sessions per site and class.", low=1, high=100)
    max_uses: int | None = option(
        None, "Retire a session after this many pages.", low=1, high=10**9
    )
    max_errors: int = option(
        3,
        "Retire a session after this many refusals: 401, 403, 429 and block pages. A page that "
        "arrives makes up for half a refusal.",
        low=1,
        high=1000,
    )
    max_age_s: float | None = option(
        None, "Retire a session after this many seconds.", low=1, high=400 * 86_400
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputOptions(Table):
    """Where items go."""

    to: tuple[str, ...] = option(
        (),
        "Where items go: a file, by its suffix, or a DSN; repeatable. Default: JOB.db (crawl: "
        "JOB.jsonl).",
        flag="--out -o",
        variable="SKITTER_OUT",
        secret=True,
        some=True,
    )
    only_changes: bool = option(
        False,
        "Write what later visits found to the output, in JSON Lines; the rows are kept beside it.",
        flag="--only-changes",
    )

    def places(self, default: str) -> tuple[str, ...]:
        """The outputs of a crawl; `default`: without any."""
        if not self.only_changes:
            return self.to or (default,)
        if len(self.to) != 1 or not self.to[0].endswith(".jsonl"):
            what = "one .jsonl file: with --only-changes, name it with --out"
            raise BadOption("output.to", ", ".join(self.to), what)
        return (f"changes:{self.to[0]}",)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveOptions(Table):
    """Which pages are kept, and where."""

    keep: bool = option(
        False, "Keep every page that a handler sees, as WARC files.", flag="--archive"
    )
    folder: Path = option(Path("archive"), "Where kept pages are.", flag="--archive-folder")
    store: str | None = option(
        None,
        "Keep pages, and copy finished WARC files to this object store: s3://BUCKET/FOLDER.",
        flag="--archive-store",
    )
    offline: bool = option(False, "Take pages from the archive, never from the web.")
    failed_pages: int = option(
        20, "Pages to keep on the server of each kind of failure.", low=0, high=1000
    )
    failed_mb: int = option(32, "Space for these on the server, in MB.", low=1, high=1000)
    max_file_mb: int = option(1000, "Begin a new WARC file after this size.", low=1, high=10**6)

    @property
    def is_on(self) -> bool:
        """Whether pages are kept: what comes from the archive is in it."""
        return (self.keep or self.store is not None) and not self.offline


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions(Table):
    """Where files are downloaded to, and which."""

    folder: Path = option(
        Path("files"),
        "Where downloaded files are. Workers on several machines need a folder that they share.",
        flag="--files-folder",
    )
    store: str | None = option(
        None,
        "Keep downloaded files in this object store, and only unfinished ones in the folder: "
        "s3://BUCKET/FOLDER.",
        flag="--files-store",
    )
    concurrency: int = option(4, "Downloads at a time, per process.", low=1, high=1000)
    max_mb: float = option(2000.0, "Largest file to download, in MB.", low=0.001, high=10**6)
    max_total_mb: float | None = option(
        None, "Download no more when a job has brought this many MB.", low=0.001, high=10**9
    )
    types: tuple[str, ...] = option(
        (), "Content types to download, as application/pdf or image/*; empty: all.",
        takes="content types such as application/pdf or image/*",
    )  # fmt: skip
    text: bool = option(
        False, "Write the text of PDF files, too, into the folder text beside them.",
        flag="--files-text",
    )  # fmt: skip
    max_time_s: float = option(
        6 * 3600.0, "Longest time for one connection of a download, in seconds.",
        low=1, high=30 * 86_400,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions(Table):
    """What is logged, and where."""

    level: Literal["debug", "info", "warning", "error"] = option(
        "info", "Lowest level to log.", flag="--log-level"
    )
    file: Path | None = option(None, "Also write the log to this file.", flag="--log-file")
    format: Literal["text", "json"] = option(
        "text",
        "Format of the log file, and of progress and errors if no terminal shows them.",
        flag="--log-format",
    )


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
    "files": FileOptions,
    "quality": QualityOptions,
    "log": LogOptions,
    "server": Settings,
}


T = TypeVar("T", FetchOptions, Workers, SessionPool, FileOptions)
DEFAULT: Final = "default"  # where a value came from that nobody has set


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
    files: FileOptions = field(default_factory=FileOptions)
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

    def for_worker(self, **given: Any) -> WorkerConfig:
        """The tables that a worker gets, and what else it is given."""
        names = {one.name for one in fields(WorkerConfig)} & {one.name for one in fields(self)}
        return WorkerConfig(**{name: getattr(self, name) for name in names} | given)

    def of_job(self, options: JobOptions) -> Self:
        """With the job's own options wherever nobody says otherwise."""
        changed: dict[str, Any] = {}
        for one in JOB_OPTIONS:
            if self.origins[one.key] == DEFAULT:
                stored = getattr(getattr(options, one.table), one.name)
                changed.setdefault(one.table, {})[one.name] = stored
        return replace(
            self, **{name: replace(getattr(self, name), **new) for name, new in changed.items()}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """What a worker needs to know. Passed as JSON: to processes in their environment, to Celery's
    workers along with the job."""

    job: str = ""
    spider: str = ""  # file.py, file.py:name or package.module:name
    arguments: dict[str, Any] = field(default_factory=dict, repr=False)  # of the spider
    trusts_seeds: bool = True  # a private host may be fetched if a start URL names it
    keep_alive: bool = False  # keep running when the crawl has finished or is removed
    fetch: FetchOptions = field(default_factory=FetchOptions)
    sessions: SessionPool = field(default_factory=SessionPool)
    workers: Workers = field(default_factory=Workers)
    browser: BrowserOptions = field(default_factory=BrowserOptions)
    #: Not for Celery's workers, which have their own: hosts and secrets are not read from a server.
    proxies: tuple[Route, ...] = ()
    routes: RouteOptions = field(default_factory=RouteOptions)
    archive: ArchiveOptions = field(default_factory=ArchiveOptions)
    files: FileOptions = field(default_factory=FileOptions)
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
