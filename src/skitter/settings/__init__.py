"""Options: small frozen values, units in their names, declared and checked once.

Each name is imported on first use: a short command needs few of them.

fetch     How pages are requested: time, size, who we say we are, and the plain proxy of a network
find      Which server has the state
job       The options of a job
option    How an option is declared, once: its type, default, range and help
proxy     Routes: how requests leave
server    The table that names the server, and the files that may set it and other tables
sources   Where settings come from: flags, the environment, a file, the spider, the defaults
tables    All settings of a crawl, and the tables of a worker and of what it writes
widening  How far a running crawl may go beyond its spider's scope: hosts and patterns
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skitter.settings.fetch import FetchOptions as FetchOptions
    from skitter.settings.fetch import honest_user_agent as honest_user_agent
    from skitter.settings.find import find_server as find_server
    from skitter.settings.job import FORMAT as FORMAT
    from skitter.settings.job import JOB_OPTIONS as JOB_OPTIONS
    from skitter.settings.job import MAX_PER_PAGE as MAX_PER_PAGE
    from skitter.settings.job import MAX_PRIORITY as MAX_PRIORITY
    from skitter.settings.job import Bloom as Bloom
    from skitter.settings.job import JobOptions as JobOptions
    from skitter.settings.job import Layout as Layout
    from skitter.settings.job import Limits as Limits
    from skitter.settings.job import Politeness as Politeness
    from skitter.settings.job import Retries as Retries
    from skitter.settings.job import Safety as Safety
    from skitter.settings.job import Visits as Visits
    from skitter.settings.job import check_job_name as check_job_name
    from skitter.settings.job import check_priority as check_priority
    from skitter.settings.option import Option as Option
    from skitter.settings.option import Table as Table
    from skitter.settings.option import check_number as check_number
    from skitter.settings.option import options_of as options_of
    from skitter.settings.proxy import Route as Route
    from skitter.settings.proxy import RouteOptions as RouteOptions
    from skitter.settings.server import Settings as Settings
    from skitter.settings.sources import resolve as resolve
    from skitter.settings.tables import TABLES as TABLES
    from skitter.settings.tables import ArchiveOptions as ArchiveOptions
    from skitter.settings.tables import BrowserOptions as BrowserOptions
    from skitter.settings.tables import Config as Config
    from skitter.settings.tables import FileOptions as FileOptions
    from skitter.settings.tables import LogOptions as LogOptions
    from skitter.settings.tables import OutputOptions as OutputOptions
    from skitter.settings.tables import QualityOptions as QualityOptions
    from skitter.settings.tables import SessionPool as SessionPool
    from skitter.settings.tables import WorkerConfig as WorkerConfig
    from skitter.settings.tables import Workers as Workers

#: Where each name lives.
_HOMES = {
    name: f"skitter.settings.{module}"
    for module, names in {
        "fetch": "FetchOptions honest_user_agent",
        "job": "FORMAT JOB_OPTIONS MAX_PER_PAGE MAX_PRIORITY Bloom JobOptions Layout Limits "
        "Politeness Retries Safety Visits check_job_name check_priority",
        "option": "Option Table check_number options_of",
        "proxy": "Route RouteOptions",
        "find": "find_server",
        "server": "Settings",
        "sources": "resolve",
        "tables": "ArchiveOptions BrowserOptions Config FileOptions LogOptions OutputOptions "
        "QualityOptions SessionPool TABLES WorkerConfig Workers",
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
