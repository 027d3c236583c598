"""Server URLs: the schemes we support, and errors for bad ones."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote, urlsplit

from skitter.errors import BadOption
from skitter.redact import parse_problem, redact

SCHEMES = ("redis", "rediss", "unix", "redis+sentinel", "redis+cluster")
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


def sentinel_client(url: str, *, make: Any, **options: Any) -> Any:
    """redis+sentinel://[user:password@]host:port[,host:port...]/service[/db]"""
    parts = urlsplit(url)
    service, _, db = parts.path.strip("/").partition("/")
    if not service:
        raise ValueError("name the service: redis+sentinel://host:26379/mymaster")
    nodes = []
    for node in parts.netloc.rpartition("@")[2].split(","):
        host, _, port = node.partition(":")
        nodes.append((host, int(port or 26379)))
    return make(nodes, sentinel_kwargs=dict(options)).master_for(
        service,
        db=int(db or 0),
        username=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else None,
        **options,
    )


def cluster_nodes(url: str) -> tuple[str, list[tuple[str, int]]]:
    """redis+cluster://[user:password@]host:port[,host:port...]: the URL of the first node for
    redis-py, and the other nodes, which are asked if that one does not answer."""
    parts = urlsplit(url)
    login, at, hosts = parts.netloc.rpartition("@")
    first, *others = hosts.split(",")
    nodes = []
    for node in others:
        host, _, port = node.rpartition(":") if re.search(r":\d+$", node) else (node, "", "")
        nodes.append((host.strip("[]"), int(port or 6379)))
    return parts._replace(scheme="redis", netloc=f"{login}{at}{first}").geturl(), nodes
