"""Settings: where broker, results and frontier are, and Celery's own, each with its reason."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from kombu import Exchange, Queue

from skitter.embedded import EmbeddedServer, address_of
from skitter.errors import BadOption, UsageError
from skitter.redact import parse_problem, redact
from skitter.settings import FetchOptions, Politeness, Settings, find_server, resolve

if TYPE_CHECKING:
    from collections.abc import Mapping

PUMP_S = 20.0  # how long a pump leases
GRACE_S = 120.0  # how long it then waits for pages in flight; slower ones return to the queue
SOFT_LIMIT_S, HARD_LIMIT_S = PUMP_S + GRACE_S + 60, PUMP_S + GRACE_S + 120
#: Databases after the frontier's own.
BROKER_DB, RESULTS_DB = 1, 2
BROKER, RESULTS = "SKITTER_BROKER_URL", "SKITTER_RESULT_BACKEND"
PREFIX = "skitter.celery."
SECRET, MIN_SECRET_CHARS = "SKITTER_SECRET", 16
SHARE, TEAM_SHARE = "SKITTER_CELERY_SHARE", 0.5
SPIDERS, OUTPUT = "SKITTER_SPIDERS", "SKITTER_OUTPUT_"
EAGER = (
    "{} cannot run tasks eagerly, because workers fetch the pages: remove task_always_eager, and "
    "start a worker."
)
#: kombu's names -> the Redis client's.
CERT_CHECKS = {"CERT_REQUIRED": "required", "CERT_OPTIONAL": "optional", "CERT_NONE": "none"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Queues:
    """The queue for plain pages, and the one for pages that need a browser."""

    http: str = "http"  # for plain pages
    browser: str = "browser"  # for pages that a browser renders


def secret_in_environment() -> str | None:
    """Raises BadOption for one that is too short."""
    text = os.environ.get(SECRET)
    if text and len(text) < MIN_SECRET_CHARS:
        expected = f"at least {MIN_SECRET_CHARS} characters, e.g. from `openssl rand -hex 32`"
        raise BadOption(SECRET, "(hidden)", expected)
    return text or None


def output_name(name: str) -> str:
    """The name as an environment variable can spell it."""
    return name.lower().replace("-", "_")


def _outputs_in_environment() -> dict[str, str]:
    found = {name: dsn for name, dsn in os.environ.items() if name.startswith(OUTPUT) and dsn}
    return {output_name(name.removeprefix(OUTPUT)): dsn for name, dsn in found.items()}


def _spiders_in_environment() -> tuple[str, ...]:
    words = (word.strip() for word in os.environ.get(SPIDERS, "").split(","))
    return tuple(word for word in words if word)


def _share_in_environment() -> float | None:
    text = os.environ.get(SHARE)
    if not text:
        return None
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise BadOption(SHARE, text, "a number above 0 and up to 1")
    return share


@dataclass(frozen=True, slots=True, kw_only=True)
class CelerySettings:
    """Settings of our app. Defaults come from the environment: SKITTER_REDIS_URL and SKITTER_DIR as
    everywhere; SKITTER_BROKER_URL and SKITTER_RESULT_BACKEND if they are on another server;
    SKITTER_ALLOW_HOSTS and SKITTER_SPIDERS, comma-separated; SKITTER_OUTPUT_NAME for each output;
    SKITTER_SECRET, SKITTER_STUCK_S, SKITTER_CELERY_SHARE."""

    where: Settings = field(default_factory=find_server)  # the frontier's server
    #: None: on the frontier's server.
    broker_url: str | None = field(default_factory=lambda: os.environ.get(BROKER), repr=False)
    #: None: on the frontier's server.
    result_backend: str | None = field(default_factory=lambda: os.environ.get(RESULTS), repr=False)
    queues: Queues = field(default_factory=Queues)  # the names of Celery's queues
    politeness: Politeness = field(default_factory=Politeness)  # for scrape and scrape_many
    #: Private addresses that may be fetched.
    allow_hosts: frozenset[str] = field(
        default_factory=lambda: frozenset(resolve().fetch.allow_hosts)
    )
    obey_robots: bool = True  # whether robots.txt is obeyed
    #: How workers fetch, where it differs from the environment, skitter.toml and the spider.
    fetch: FetchOptions | None = None
    #: Callers and workers that share it may name any spider; None: see security.py.
    secret: str | None = field(default_factory=secret_in_environment, repr=False)
    #: The spiders a worker runs for callers without the secret: files, modules, or patterns.
    spiders: tuple[str, ...] = field(default_factory=_spiders_in_environment)
    #: Name -> DSN of the outputs that items may go to.
    outputs: Mapping[str, str] = field(default_factory=_outputs_in_environment, repr=False)
    #: The part of the workers' slots that pumps may take, less one. None: half of those of your app
    #: (`register`), all of ours.
    share: float | None = field(default_factory=_share_in_environment)
    #: A page that blocks a process for this long ends it; None: never.
    stuck_s: float | None = field(default_factory=lambda: resolve().workers.stuck_s)

    def __post_init__(self) -> None:
        named = {output_name(name): dsn for name, dsn in self.outputs.items()}
        object.__setattr__(self, "outputs", named)

    @property
    def broker(self) -> str:
        """The URL of the broker."""
        return self.broker_url or beside(self.where, BROKER_DB, BROKER)

    @property
    def results(self) -> str:
        """The URL of the result backend."""
        return self.result_backend or beside(self.where, RESULTS_DB, RESULTS)


# --- Celery's settings ----------------------------------------------------------------------------


def shipped(settings: CelerySettings) -> dict[str, Any]:
    """All settings of our app. Those that a task needs on any app are in tasks.py."""
    queues = settings.queues
    return {
        "broker_url": settings.broker,
        "result_backend": settings.results,
        # No format that can run code when decoded.
        "accept_content": ["json"],
        "task_serializer": "json",
        "result_serializer": "json",
        # Results are for waiting callers; items to keep go to an output.
        "result_expires": 3600,
        "result_extended": True,  # name and arguments, for status() and Flower
        "task_track_started": True,
        # A busy worker must not hold messages that an idle one could run.
        "worker_prefetch_multiplier": 1,
        # A message is acknowledged when its work is done, and redelivered if its process is killed.
        # All our tasks may run twice: the frontier knows what was submitted and leased.
        "task_acks_late": True,
        "task_reject_on_worker_lost": True,
        # A pump that loses its broker keeps working: its URLs are leased from the frontier.
        "worker_cancel_long_running_tasks_on_connection_loss": False,
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,  # it may be down for longer than 100 tries
        # A second Ctrl-C, or SIGQUIT, still gives pages in flight a moment.
        "worker_soft_shutdown_timeout": 30.0,
        "worker_enable_soft_shutdown_on_idle": True,  # messages with a countdown go back
        "broker_transport_options": {
            # Above the longest task, or Redis redelivers it while it runs.
            "visibility_timeout": 2 * HARD_LIMIT_S,
            "global_keyprefix": PREFIX,
            "socket_keepalive": True,
            "health_check_interval": 25,
        }
        if settings.broker.startswith("redis")
        else {},
        "result_backend_transport_options": {"global_keyprefix": PREFIX},
        "result_backend_always_retry": True,  # a chord hangs if one part is not stored
        "task_default_queue": queues.http,
        "task_queues": [
            Queue(name, Exchange(name), routing_key=name) for name in (queues.http, queues.browser)
        ],
        # Flower and `celery events` see what happens.
        "worker_send_task_events": True,
        "task_send_sent_event": True,
        "worker_hijack_root_logger": False,
    }


def check_url(option: str, url: str) -> None:
    """Raises BadOption, as Celery's own error quotes half of the password."""
    try:
        for one in url.split(";"):  # kombu: what to try if the first one is down
            _ = urlsplit(one).port
    except ValueError as error:
        raise BadOption(option, redact(url), f"a URL ({parse_problem(error, url)})") from None


def warn_of(conf: Any) -> None:
    """Warn about settings that will cause trouble. Raises BadOption for addresses that are none,
    and for an app whose workers would refuse our messages."""
    accepted = conf.accept_content or ()
    if not {"json", "application/json"} & set(accepted):
        raise BadOption("accept_content", accepted, "a list with 'json', as our messages are JSON")
    broker, results = str(conf.broker_url or ""), str(conf.result_backend or "")
    for option, url in (("broker_url", broker), ("result_backend", results)):
        check_url(option, url)
    if "redis" in broker and _database(broker) == _database(results):
        warnings.warn(
            "Celery's broker and its results are in the same database, where expiring results and "
            "queues are hard to tell apart: use two, e.g. /1 and /2.",
            stacklevel=3,
        )
    visible_s = (conf.broker_transport_options or {}).get("visibility_timeout", 3600)
    if "redis" in broker and visible_s < HARD_LIMIT_S:
        warnings.warn(
            f"visibility_timeout is {visible_s:g} s, but a pump may take {HARD_LIMIT_S:g} s: Redis "
            "would deliver it twice, which loses and duplicates nothing but wastes work: raise it.",
            stacklevel=3,
        )


def _database(url: str) -> tuple[Any, ...]:
    parts = urlsplit(url)
    return parts.hostname, parts.port or 6379, parts.path.rstrip("/") or "/0", parts.query


def destination(app: Any, task: str, queue: str) -> dict[str, str]:
    """Options of apply_async: the queue, unless the app routes the task itself."""
    routed = app.amqp.router.lookup_route(task, (), {}, {}, app.tasks[task])
    return {} if routed else {"queue": queue}


def is_consumed(app: Any, task: str, queue: str) -> bool:
    """Whether this worker takes such messages: `-Q` may exclude them."""
    options = app.amqp.router.route(destination(app, task, queue), task, task_type=app.tasks[task])
    found = options.get("queue")
    return found is None or getattr(found, "name", found) in app.amqp.queues.consume_from


# --- addresses ------------------------------------------------------------------------------------


def beside(where: Settings, database: int, variable: str) -> str:
    """Another database on the frontier's server, as Celery spells its address."""
    if where.redis_url is None:
        home = address_of(where.directory)
        return _socket(str(home.socket), home.password, database)
    parts = urlsplit(where.redis_url)
    if parts.scheme == "unix":
        return _socket(unquote(parts.path), parts.password, database)
    number = parts.path.strip("/") or "0"
    if parts.scheme not in ("redis", "rediss") or not number.isdigit():
        raise BadOption(
            variable,
            redact(where.redis_url),
            "set to a Celery URL, e.g. redis://host:6379/1 or amqp://: Celery cannot use our "
            "Sentinel or Cluster URLs",
        )
    return parts._replace(path=f"/{int(number) + database}").geturl()


def _socket(path: str, password: str | None, database: int) -> str:
    secret = f":{quote(password, safe='')}@" if password else ""
    return f"redis+socket://{secret}{quote(path)}?virtual_host={database}"


def frontier_server(settings: CelerySettings, conf: Any) -> Settings:
    """The frontier's server: as configured, or the broker's if that is a Redis. The embedded server
    only serves workers that use it as their broker: others would each have their own frontier, and
    wait forever. Raises UsageError."""
    where = settings.where
    broker = _broker(conf)
    if where.redis_url is not None or _is_embedded(broker, where):
        return where
    found = None if conf.broker_use_ssl else frontier_on(broker, conf.broker_transport_options)
    if found is None:
        raise UsageError(
            f"the frontier cannot be on Celery's broker, {broker.partition('://')[0]}://...: set "
            "SKITTER_REDIS_URL to a Redis or Valkey server that all workers and callers reach."
        )
    return replace(where, redis_url=found)


def is_on_broker(where: Settings, conf: Any) -> bool:
    """Whether whoever can write to the frontier can also send any task: it is on the server that
    workers take tasks from, and its user is the broker's user. The database does not matter: a
    client can select any. If in doubt, no."""
    options, frontier = conf.broker_transport_options, place_of(where.redis_url or "")
    reads = conf.broker_read_url or conf.broker_url or ""
    brokers = {_broker(conf), reads if isinstance(reads, str) else ";".join(reads)}
    return frontier is not None and all(
        place_of(frontier_on(broker, options) or "") == frontier for broker in brokers
    )


def place_of(url: str) -> tuple[str, ...] | None:
    """A server, in whichever way we spell its address, and its user. None: unknown."""
    parts = urlsplit(url)
    user = unquote(parts.username or "") or "default"
    if {name for name, _ in parse_qsl(parts.query)} & {"host", "port", "path", "username"}:
        return None  # which of two the client takes depends on the client
    if parts.scheme == "unix":
        return ("socket", user, str(Path(unquote(parts.path)).resolve()))
    if parts.scheme in ("redis", "rediss"):
        host = unquote(parts.hostname or "localhost").lower()
        return ("host", user, host, str(parts.port or 6379))
    if parts.scheme == "redis+sentinel":
        nodes, master = parts.netloc.rpartition("@")[2], parts.path.split("/")[1:2]
        return ("sentinel", user, *sorted(nodes.lower().split(",")), *master)
    return None


def _broker(conf: Any) -> str:
    url = conf.broker_write_url or conf.broker_url or "amqp://"  # Celery's own default
    return url if isinstance(url, str) else ";".join(url)


def _is_embedded(broker: str, where: Settings) -> bool:
    parts = urlsplit(broker)
    socket = str(EmbeddedServer(directory=where.directory).socket)
    return parts.scheme == "redis+socket" and unquote(parts.path) == socket


def frontier_on(broker: str, options: dict[str, Any] | None) -> str | None:
    """A broker's server as we spell its address; None if it is not a Redis."""
    if broker.startswith("sentinel://"):
        return _on_sentinels(broker, options or {})
    if ";" in broker:  # failover: unclear which one has the frontier
        return None
    parts = urlsplit(broker)
    if parts.scheme in ("redis", "rediss") and (parts.path.strip("/") or "0").isdigit():
        query = [(name, CERT_CHECKS.get(value, value)) for name, value in parse_qsl(parts.query)]
        return parts._replace(query=urlencode(query)).geturl()
    if parts.scheme == "redis+socket":
        database = dict(parse_qsl(parts.query)).get("virtual_host", "0").strip("/")
        return f"unix://{parts.netloc}{parts.path}?db={database}"
    return None


def _on_sentinels(broker: str, options: dict[str, Any]) -> str | None:
    """sentinel://[user:password@]host:port;sentinel://host:port/DB, with `master_name`."""
    master = options.get("master_name")
    if not master or options.get("sentinel_kwargs"):  # sentinels with a password
        return None
    nodes = [urlsplit(one) for one in broker.split(";") if one]
    if any(node.scheme != "sentinel" for node in nodes):
        return None
    user = next((node.netloc.rpartition("@")[0] for node in nodes if "@" in node.netloc), "")
    hosts = ",".join(node.netloc.rpartition("@")[2] for node in nodes)
    database = next((node.path.strip("/") for node in reversed(nodes) if node.path.strip("/")), "0")
    return f"redis+sentinel://{user}{'@' * bool(user)}{hosts}/{quote(master)}/{database}"
