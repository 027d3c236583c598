"""A blocking client for the same server, for users' own code: pipelines, scripts, consumers."""

from __future__ import annotations

from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode
from redis.retry import Retry
from redis.sentinel import Sentinel

from skitter.frontier.transport.endpoints import (
    SCHEMES,
    bad_address,
    check_database,
    cluster_nodes,
    is_cluster_url,
    is_sentinel,
    sentinel_client,
)

#: The base of all errors of such a client.
RedisProblem = redis.RedisError
#: The same as scrapy-redis.
PATIENCE = {"socket_timeout": 30, "socket_connect_timeout": 30}


def blocking_client(
    url: str | None = None, *, named: str = "url", retries: bool = True, **options: Any
) -> Any:
    """redis-py's client for any of our URLs; without one, with its own defaults. Connects on first
    use, except to a cluster, which is asked for its nodes."""
    options = {**PATIENCE, **options}
    if url is None:
        return redis.Redis(**options)
    scheme = url.partition("://")[0]
    if not retries and not is_cluster_url(url):  # which retries what went to the wrong node
        options["retry"] = Retry(NoBackoff(), 0)
    try:
        if is_sentinel(url):
            return sentinel_client(url, make=Sentinel, **options)
        if is_cluster_url(url):
            first, others = cluster_nodes(url)
            make: Any = ClusterNode  # which has no types
            nodes = [make(host, port) for host, port in others]
            return redis.RedisCluster.from_url(first, startup_nodes=nodes or None, **options)
        if scheme in SCHEMES:
            check_database(url)
            return redis.Redis.from_url(url, **options)
    except ValueError as error:
        raise bad_address(named, url, error) from None
    raise bad_address(named, url)
