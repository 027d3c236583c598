"""Options: small frozen values, units in their names, declared and checked once.

option   how an option is declared, and what is derived from that
proxy    routes for requests, and how one is chosen
job      the options of a job: politeness, retries, limits; its layout
fetch    how pages are fetched
browser  how pages are rendered
quality  when scraped items count as bad
safety   when a result counts as stored
sessions cookies and sessions
tables   workers, output, log, server
config   all of them, and what a worker gets
sources  flags, environment, file, spider, defaults: which one wins
"""

from skitter.settings.browser import BrowserOptions
from skitter.settings.config import Config, WorkerConfig
from skitter.settings.fetch import FetchOptions, honest_user_agent
from skitter.settings.job import (
    JOB_OPTIONS,
    MAX_PER_PAGE,
    MAX_PRIORITY,
    Bloom,
    JobOptions,
    Layout,
    Limits,
    Politeness,
    Retries,
    check_job_name,
    check_priority,
)
from skitter.settings.option import Option, Table, check_number, options_of
from skitter.settings.proxy import Route, RouteOptions
from skitter.settings.quality import QualityOptions
from skitter.settings.safety import Safety
from skitter.settings.sessions import SessionPool
from skitter.settings.sources import find_server, resolve
from skitter.settings.tables import TABLES, LogOptions, OutputOptions, Settings, Workers
from skitter.settings.visits import Visits

__all__ = [
    "JOB_OPTIONS",
    "MAX_PER_PAGE",
    "MAX_PRIORITY",
    "TABLES",
    "Bloom",
    "BrowserOptions",
    "Config",
    "FetchOptions",
    "JobOptions",
    "Layout",
    "Limits",
    "LogOptions",
    "Option",
    "OutputOptions",
    "Politeness",
    "QualityOptions",
    "Retries",
    "Route",
    "RouteOptions",
    "Safety",
    "SessionPool",
    "Settings",
    "Table",
    "Visits",
    "WorkerConfig",
    "Workers",
    "check_job_name",
    "check_number",
    "check_priority",
    "find_server",
    "honest_user_agent",
    "options_of",
    "resolve",
]
