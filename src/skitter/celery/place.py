"""Where the frontier is, when nobody said so: on the broker, if that is a Redis. The embedded
server is for workers whose broker it is; others would have a frontier of their own each, and wait
for ever.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from skitter.errors import UsageError
from skitter.valkey import EmbeddedServer

if TYPE_CHECKING:
    from urllib.parse import SplitResult

    from skitter.celery.config import CelerySettings
    from skitter.settings import Settings

#: As kombu spells them, and as the Redis client does.
CHECKS = {"CERT_REQUIRED": "required", "CERT_OPTIONAL": "optional", "CERT_NONE": "none"}


def place_of(settings: CelerySettings, conf: Any) -> Settings:
    """What the settings name; else the broker's server. Raises UsageError if that is none."""
    where = settings.where
    broker = _broker(conf)
    if where.redis_url is not None or _is_embedded(broker, where):
        return where
    found = None if conf.broker_use_ssl else frontier_on(broker, conf.broker_transport_options)
    if found is None:
        raise UsageError(
            f"Celery's broker is {broker.partition('://')[0]}://..., where the frontier cannot be: "
            "set SKITTER_REDIS_URL to a Redis or Valkey server that all workers and callers reach."
        )
    return replace(where, redis_url=found)


def _broker(conf: Any) -> str:
    url = conf.broker_write_url or conf.broker_url or "amqp://"  # Celery's own default
    return url if isinstance(url, str) else ";".join(url)


def _is_embedded(broker: str, where: Settings) -> bool:
    parts = urlsplit(broker)
    socket = str(EmbeddedServer(directory=where.directory).socket)
    return parts.scheme == "redis+socket" and unquote(parts.path) == socket


def frontier_on(broker: str, options: dict[str, Any] | None) -> str | None:
    """The server of a broker's URL, as we spell it; None if it is none of Redis."""
    if broker.startswith("sentinel://"):
        return _on_sentinels(broker, options or {})
    if ";" in broker:  # one server, and others in case of need: which one has the frontier?
        return None
    parts = urlsplit(broker)
    if parts.scheme in ("redis", "rediss") and (parts.path.strip("/") or "0").isdigit():
        return parts._replace(query=_query(parts)).geturl()
    if parts.scheme == "redis+socket":
        database = dict(parse_qsl(parts.query)).get("virtual_host", "0").strip("/")
        return f"unix://{parts.netloc}{parts.path}?db={database}"  # a password, and no host
    return None


def _query(parts: SplitResult) -> str:
    return urlencode([(name, CHECKS.get(value, value)) for name, value in parse_qsl(parts.query)])


def _on_sentinels(broker: str, options: dict[str, Any]) -> str | None:
    """sentinel://[user:password@]host:port;sentinel://host:port/DB, with `master_name`."""
    master = options.get("master_name")
    if not master or options.get("sentinel_kwargs"):  # sentinels that want a password
        return None
    nodes = [urlsplit(one) for one in broker.split(";") if one]
    if any(one.scheme != "sentinel" for one in nodes):
        return None
    user = next((one.netloc.rpartition("@")[0] for one in nodes if "@" in one.netloc), "")
    hosts = ",".join(one.netloc.rpartition("@")[2] for one in nodes)
    database = next((one.path.strip("/") for one in reversed(nodes) if one.path.strip("/")), "0")
    return f"redis+sentinel://{user}{'@' * bool(user)}{hosts}/{quote(master)}/{database}"
