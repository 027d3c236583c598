"""Options: small frozen values, units in their names, declared and checked once.

option   how an option is declared, and what is derived from that
proxy    routes for requests, and how one is chosen
job      the options of a job: politeness, retries, limits; its layout
fetch    how pages are fetched
browser  how pages are rendered
quality  when scraped items count as bad
safety   when a result counts as stored
sessions cookies and sessions
server   the server that has the state
tables   workers, output, log; all tables
config   all of them, and what a worker gets
find     which server that is, by all sources
sources  flags, environment, file, spider, defaults: which one wins

Each name is imported on first use: a short command needs few of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skitter.settings.browser import BrowserOptions as BrowserOptions
    from skitter.settings.config import Config as Config
    from skitter.settings.config import WorkerConfig as WorkerConfig
    from skitter.settings.fetch import FetchOptions as FetchOptions
    from skitter.settings.fetch import honest_user_agent as honest_user_agent
    from skitter.settings.find import find_server as find_server
    from skitter.settings.job import JOB_OPTIONS as JOB_OPTIONS
    from skitter.settings.job import MAX_PER_PAGE as MAX_PER_PAGE
    from skitter.settings.job import MAX_PRIORITY as MAX_PRIORITY
    from skitter.settings.job import Bloom as Bloom
    from skitter.settings.job import JobOptions as JobOptions
    from skitter.settings.job import Layout as Layout
    from skitter.settings.job import Limits as Limits
    from skitter.settings.job import Politeness as Politeness
    from skitter.settings.job import Retries as Retries
    from skitter.settings.job import check_job_name as check_job_name
    from skitter.settings.job import check_priority as check_priority
    from skitter.settings.option import Option as Option
    from skitter.settings.option import Table as Table
    from skitter.settings.option import check_number as check_number
    from skitter.settings.option import options_of as options_of
    from skitter.settings.proxy import Route as Route
    from skitter.settings.proxy import RouteOptions as RouteOptions
    from skitter.settings.quality import QualityOptions as QualityOptions
    from skitter.settings.safety import Safety as Safety
    from skitter.settings.server import Settings as Settings
    from skitter.settings.sessions import SessionPool as SessionPool
    from skitter.settings.sources import resolve as resolve
    from skitter.settings.tables import TABLES as TABLES
    from skitter.settings.tables import ArchiveOptions as ArchiveOptions
    from skitter.settings.tables import LogOptions as LogOptions
    from skitter.settings.tables import OutputOptions as OutputOptions
    from skitter.settings.tables import Workers as Workers
    from skitter.settings.visits import Visits as Visits

#: Where each name lives.
_HOMES = {
    name: f"skitter.settings.{module}"
    for module, names in {
        "browser": "BrowserOptions",
        "config": "Config WorkerConfig",
        "fetch": "FetchOptions honest_user_agent",
        "find": "find_server",
        "job": "JOB_OPTIONS MAX_PER_PAGE MAX_PRIORITY Bloom JobOptions Layout Limits Politeness "
        "Retries check_job_name check_priority",
        "option": "Option Table check_number options_of",
        "proxy": "Route RouteOptions",
        "quality": "QualityOptions",
        "safety": "Safety",
        "server": "Settings",
        "sessions": "SessionPool",
        "sources": "resolve",
        "tables": "TABLES ArchiveOptions LogOptions OutputOptions Workers",
        "visits": "Visits",
    }.items()
    for name in names.split()
}
__all__ = sorted(_HOMES)


if not TYPE_CHECKING:  # or a type checker would believe that every name exists

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value
