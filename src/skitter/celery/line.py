"""What callers keep open: a blocking connection to the frontier's server, and connections to
Celery's servers that give up soon.

They need no event loop and no thread, so a process of greenlets has them too. They connect to
servers that run already, and never start one.

A Redis that is suspended, or behind a firewall that drops packets, refuses nothing: Celery would
wait minutes for one with its results, and for ever for one that is its broker.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from celery.backends.redis import RedisBackend, SentinelBackend
from kombu import pools

from skitter.embedded import address_of
from skitter.errors import ServerUnreachable
from skitter.frontier.control import read_birth
from skitter.frontier.frontier import OPTIONS_FRESH_S
from skitter.frontier.jobs import open_job
from skitter.frontier.transport.connection import connect
from skitter.frontier.transport.sync import run_sync

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.transport.connection import Server
    from skitter.settings import Settings

T = TypeVar("T")
MAX_JOBS = 64
PATIENCE_S = 10.0
#: How long a caller waits for one answer of a Redis. A message is tried a few times.
REPLY_S = 5.0
BOUNDS = ("socket_timeout", "socket_connect_timeout")


class KnownJob(NamedTuple):
    """A job as it was when it was last opened."""

    born: str
    frontier: Frontier
    at: float


@dataclass(slots=True)
class KnownJobs:
    """The jobs of one connection."""

    jobs: dict[str, KnownJob] = field(default_factory=dict)

    async def find(self, server: Server, job: str, *, fresh_s: float = OPTIONS_FRESH_S) -> KnownJob:
        """Looks at it again now and then: it may have new options, or be a new one of its name. The
        frontier stays the same object: each one is a client on the server. Raises JobMissing."""
        now, known = time.monotonic(), self.jobs.pop(job, None)
        if known is None or now - known.at >= fresh_s:
            found = await open_job(server, job)
            if known and known.frontier.layout == found.layout:
                known.frontier.options = found.options
                found = known.frontier
            known = KnownJob(await read_birth(found), found, now)
        self.jobs[job] = known
        while len(self.jobs) > MAX_JOBS:
            self.jobs.pop(next(iter(self.jobs)))
        return known


@dataclass(slots=True)
class Line:
    """One per process. Threads take turns."""

    server: Server
    stack: AsyncExitStack
    pid: int = field(default_factory=os.getpid)
    known: KnownJobs = field(default_factory=KnownJobs)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def open(cls, where: Settings) -> Self:
        """Raises ServerUnreachable."""
        url, password = where.redis_url, None
        if url is None:
            embedded = address_of(where.directory)
            url, password = embedded.url, embedded.password

        async def opened() -> Self:
            async with AsyncExitStack() as stack:
                link = connect(url, password=password, reply_s=REPLY_S)
                server = await stack.enter_async_context(link)
                return cls(server, stack.pop_all())

        return run_sync(opened())

    @property
    def is_ours(self) -> bool:
        """False in a child that was forked: its parent uses it."""
        return self.pid == os.getpid()

    def run(self, work: Callable[[Server], Coroutine[Any, Any, T]], *, patience_s: float) -> T:
        with self._lock:
            self.server.patience_s = patience_s
            return run_sync(work(self.server))

    def close(self) -> None:
        run_sync(self.stack.aclose())


# --- Celery's own servers -------------------------------------------------------------------------


def stores_in_redis(backend: Any) -> bool:
    """Then we store as Celery does, in fewer calls."""
    return type(backend) in (RedisBackend, SentinelBackend)


@dataclass
class Brief:
    """Connections of one process to Celery's servers that give up soon."""

    app: Any
    pid: int = field(default_factory=os.getpid)

    @cached_property
    def results(self) -> Any:
        """A Redis client."""
        backend = self.app.backend
        given = {
            bound: backend.connparams[bound] for bound in BOUNDS if bound in backend.connparams
        }
        bounds = {one: min(seconds or REPLY_S, REPLY_S) for one, seconds in given.items()}
        return backend._create_client(**backend.connparams | bounds)

    @cached_property
    def producers(self) -> Any:
        """A pool of kombu's; None: another broker than Redis, of which time-outs are Celery's."""
        if self.app.connection_for_write().transport.driver_type != "redis":
            return None
        given = self.app.conf.broker_transport_options or {}
        bounds = {bound: min(given.get(bound) or REPLY_S, REPLY_S) for bound in BOUNDS}
        pool = pools.producers[self.app.connection_for_write(transport_options=bounds)]
        pool.limit = self.app.pool.limit
        return pool

    @contextmanager
    def producer(self) -> Iterator[Any]:
        if self.producers is None:
            yield None
            return
        with self.producers.acquire(block=True) as producer:
            yield producer

    def check(self) -> None:
        """Raises ServerUnreachable."""
        self.check_results()
        with self.producer() as producer:
            if producer is None:
                return
            try:
                producer.channel.client.ping()
            except producer.connection.recoverable_connection_errors as error:
                raise no_broker(error) from error

    def check_results(self) -> None:
        """Raises ServerUnreachable."""
        if not stores_in_redis(self.app.backend):
            return
        try:
            self.results.ping()
        except self.app.backend.connection_errors as error:
            raise ServerUnreachable(
                f"Celery's result backend does not answer ({error}): check that it runs and that "
                "this machine may reach it."
            ) from error


def no_broker(error: Exception) -> ServerUnreachable:
    return ServerUnreachable(
        f"Celery's broker does not answer ({error}): start a worker, e.g. with "
        "`skitter celery worker`, or check SKITTER_REDIS_URL and SKITTER_BROKER_URL."
    )
