"""All settings of a crawl, and the part that a worker gets."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar

import msgspec

from skitter.settings.browser import BrowserOptions
from skitter.settings.fetch import FetchOptions
from skitter.settings.job import JobOptions, Limits, Politeness, Retries
from skitter.settings.option import options_of
from skitter.settings.proxy import Route, RouteOptions
from skitter.settings.quality import QualityOptions
from skitter.settings.safety import Safety
from skitter.settings.server import Settings
from skitter.settings.sessions import SessionPool
from skitter.settings.tables import ArchiveOptions, LogOptions, OutputOptions, Workers
from skitter.settings.visits import Visits

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
