"""Server URLs: the schemes we support; and the names of our processes on the server."""

from __future__ import annotations

import os
import re
import socket
from functools import cache
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import msgspec

from skitter.errors import BadOption
from skitter.redact import parse_problem, redact

#: With an s, over TLS.
SCHEMES = (
    *("redis", "rediss", "unix"),
    *("redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"),
)
GIVEN = "--redis (or SKITTER_REDIS_URL, or redis_url in skitter.toml)"


def check_database(url: str) -> None:
    """redis-py silently uses database 0 for any other text. Raises ValueError."""
    parts = urlsplit(url)
    if parts.scheme in ("redis", "rediss") and not re.fullmatch(r"/?\d*", parts.path):
        raise ValueError("the part after the host must be a database number")


def bad_address(option: str, url: str, error: ValueError | None = None) -> BadOption:
    """The error for a bad server URL, without its password."""
    expected = "a URL such as redis://host:6379, with one of " + ", ".join(SCHEMES)
    if error:
        expected = f"a server's URL ({parse_problem(error, url)})"
    return BadOption(option, redact(url), expected)


def is_sentinel(url: str) -> bool:
    return url.partition("://")[0].endswith("+sentinel")


def is_cluster_url(url: str) -> bool:
    return url.partition("://")[0].endswith("+cluster")


def sentinel_client(url: str, *, make: Any, **options: Any) -> Any:
    """redis+sentinel://[user:password@]host:port[,host:port...]/service[/db][?sentinel_password=]
    The user and the password are those of the server; sentinels may have their own."""
    parts = urlsplit(url)
    own, tls = _sentinel_query(parts)
    options |= tls
    service, _, db = parts.path.strip("/").partition("/")
    if not service:
        raise ValueError("name the service: redis+sentinel://host:26379/mymaster")
    nodes = []
    for node in parts.netloc.rpartition("@")[2].split(","):
        host, _, port = node.partition(":")
        nodes.append((host, int(port or 26379)))
    return make(nodes, sentinel_kwargs=options | own).master_for(
        service,
        db=int(db or 0),
        username=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else None,
        **options,
    )


def _sentinel_query(parts: SplitResult) -> tuple[dict[str, Any], dict[str, Any]]:
    """The login of the sentinels, and TLS options for all. Raises ValueError."""
    own: dict[str, Any] = {}
    tls: dict[str, Any] = {"ssl": True} if parts.scheme.startswith("rediss") else {}
    for name, value in parse_qsl(parts.query):
        if name in ("sentinel_username", "sentinel_password"):
            own[name.removeprefix("sentinel_")] = value
        elif tls and name.startswith("ssl_"):
            is_flag = name == "ssl_check_hostname"
            tls[name] = value.lower() not in ("0", "false", "no", "n", "f") if is_flag else value
        else:
            hint = ": write rediss+sentinel://" if name.startswith("ssl_") else ""
            raise ValueError(f"{name} means nothing here{hint}")
    return own, tls


def cluster_nodes(url: str) -> tuple[str, list[tuple[str, int]]]:
    """redis+cluster://[user:password@]host:port[,host:port...]: the URL of the first node for
    redis-py, and the other nodes, which are asked if that one does not answer."""
    scheme, _, rest = url.partition("://")
    end = re.search("[/?#]|$", rest)  # not by urlsplit, which takes one host only
    netloc, path = rest[: end.start()], rest[end.start() :]  # type: ignore[union-attr]
    login, at, hosts = netloc.rpartition("@")
    first, *others = hosts.split(",")
    nodes = []
    for node in others:
        host, _, port = node.rpartition(":") if re.search(r":\d+$", node) else (node, "", "")
        nodes.append((host.strip("[]"), int(port or 6379)))
    return f"{scheme.removesuffix('+cluster')}://{login}{at}{first}{path}", nodes


#: Passes the mark of its name to a child, so that the supervisor knows what a dead one held.
MARK = "SKITTER_MARK"
#: What its workers are called, in place of the host.
NAME = "SKITTER_WORKER_NAME"


@cache
def process_id() -> int:
    """As os.getpid, which asks the system every time: that takes as long as checking a URL."""
    return os.getpid()


os.register_at_fork(after_in_child=process_id.cache_clear)


def client_name(*, pid: int | None = None, mark: str | None = None) -> str:
    """A name that is readable for people (host and process) and never used again (mark)."""
    host = os.environ.get(NAME) or socket.gethostname()
    name = "".join(c for c in host if c.isalnum() or c == "-")[:30]
    return f"{name}-{pid or os.getpid()}-{mark or new_mark()}"


def new_mark() -> str:
    return os.urandom(4).hex()


class ConnectionCount(msgspec.Struct):
    """Counts the connections made. redis-py reconnects silently, and a new connection may lead to a
    server that has restarted and lost data."""

    made: int = 0
