"""Celery as the engine: the frontier stays the queue; a Celery message only permits work on it.

celery -A skitter.celery worker -c 4        # with SKITTER_REDIS_URL, or on the embedded server

from skitter.celery import scrape
scrape.delay("https://example.com/").get()

broker      Publishing to Celery's broker, which may go down meanwhile: messages
callers     What callers use besides tasks: map_reduce and status
config      Settings: where broker, results and frontier are, and Celery's own, each with its reason
factory     Apps: ours, or your own; what happens when their workers start and stop
jobs        The jobs that Celery works on, what pumps need to know about each, and their spiders
line        What callers keep open: a blocking connection to the frontier's server
pump        One message: lease and fetch for a while, load the items, report the counts
reduce      What runs once at the end of a job: the reducer of map_reduce
results     The result of a page goes into Celery's result backend, as if the task had returned it
revoke      `revoke`, `expires` and `time_limit` of a task whose page waits in the frontier
runtime     What one process keeps open: an event loop in a thread, the server, warm workers
scheduling  Keeps as many pumps as each job needs, and triggers what is due at its end
security    What a worker may do
submit      What callers may ask for, and how it gets into the frontier
tasks       All tasks, each with the Celery options it needs, regardless of the app's defaults
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skitter.errors import UsageError

try:
    import celery as _celery  # noqa: F401
except ModuleNotFoundError:
    from skitter.extras import install

    raise UsageError(f"Celery is not installed: {install('celery')}") from None

from celery.local import Proxy

from skitter.celery.callers import Status, map_reduce, status
from skitter.celery.config import CelerySettings, Queues
from skitter.celery.factory import default_app, make_app, register

if TYPE_CHECKING:
    app: Any


def _task(name: str) -> Any:
    """Looked up at each use: an import before `register(app)` still gets that app's task."""
    return Proxy(lambda: default_app().tasks[f"skitter.{name}"])


crawl = _task("crawl")
scrape = _task("scrape")
scrape_many = _task("scrape_many")
summarize = _task("summarize")


def __getattr__(name: str) -> Any:
    """`app` is created on first use: an import connects to nothing."""
    if name == "app":
        return default_app()
    raise AttributeError(f"module 'skitter.celery' has no attribute {name!r}")


__all__ = [
    "CelerySettings",
    "Queues",
    "Status",
    "app",
    "crawl",
    "make_app",
    "map_reduce",
    "register",
    "scrape",
    "scrape_many",
    "status",
    "summarize",
]
