"""Every metric of a crawl, declared once for storage, Prometheus and the reference."""

from __future__ import annotations

from typing import Final

OUTCOMES: Final = ("ok", "http_error", "blocked", "timeout", "proxy_error", "robots", "error")
CLASSES: Final = ("2xx", "3xx", "4xx", "5xx", "none")

COUNTERS: Final = {
    "pages": "pages that are done",
    "items": "items that handlers found",
    "retries": "attempts that are made again later",
    "dead": "requests that were given up",
    "blocked": "answers that were a block page",
    "lost": "leases that ran out, as their worker vanished",
    "bytes": "bytes of bodies, and all that browsers moved",
    **{f"fetch.{one}": f"requests that ended as {one}" for one in OUTCOMES},
    **{f"status.{one}": f"answers of status {one}" for one in CLASSES},
    "stored": "items that a loader has stored",
    "browser_ms": "milliseconds that browsers worked",
    "proxy_money_micro": "millionths of what proxies cost",
    #: Where it is 0, nothing was recorded at that time.
    "reports": "how often a process sent its figures",
}
TIMINGS: Final = {
    "queue_wait": "from the moment a request could be fetched until it was leased",
    "dns": "looking up the address of a host",
    "connect": "connecting to a host, with TLS; only the client aiohttp knows",
    "first_byte": "from sending a request to the head of its answer",
    "fetch": "a whole exchange, until the body is there",
    "handler": "running a handler",
    "load": "storing a batch of items",
    "browser": "showing a page in a browser",
}
#: Counted by the shards, as no process knows; all others are in the first shard.
BY_SHARD: Final = frozenset({"lost", "queue_wait"})
#: Rows of {ok, failed, bytes, ms} by hour.
TABLES: Final = {
    "host": "by the host that was asked",
    "worker": "by the worker that asked",
    "route": "by the proxy it left through",
    "session": "by the class of its session",
    "outcome": "by what came of it",
    "status": "by the class of its status",
}
