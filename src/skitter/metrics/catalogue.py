"""Every metric of a crawl, declared once for storage, Prometheus and the reference."""

from __future__ import annotations

from typing import Final

OUTCOMES: Final = ("ok", "http_error", "blocked", "timeout", "proxy_error", "robots", "error")
CLASSES: Final = ("2xx", "3xx", "4xx", "5xx", "none")

COUNTERS: Final = {
    "pages": "pages that are done",
    "items": "items that handlers found",
    "retries": "attempts that will be retried",
    "dead": "requests that were given up",
    "blocked": "responses that were block pages",
    "lost": "leases that expired because their worker vanished",
    "bytes": "bytes of bodies, and all browser traffic",
    **{f"fetch.{one}": f"requests that ended as {one}" for one in OUTCOMES},
    **{f"status.{one}": f"responses with status {one}" for one in CLASSES if one != "none"},
    "status.none": "requests without a response",
    "stored": "items that were stored",
    "browser_ms": "milliseconds of browser work",
    "proxy_money_micro": "cost of proxies, in millionths",
    #: Where it is 0, nothing was recorded at that time.
    "reports": "reports that processes sent",
}
TIMINGS: Final = {
    "queue_wait": "from the moment a request could be fetched until it was leased",
    "dns": "looking up the address of a host",
    "connect": "connecting to a host, including TLS; only with aiohttp as the client",
    "first_byte": "from sending a request to the head of its response",
    "fetch": "a whole exchange, including the body",
    "handler": "running a handler",
    "load": "storing a batch of items",
    "browser": "rendering a page in a browser",
}
#: Counted by the shards, as no process knows; all others are in the first shard.
BY_SHARD: Final = frozenset({"lost", "queue_wait"})
#: Rows of {ok, failed, bytes, ms} by hour.
TABLES: Final = {
    "host": "by the host that was asked",
    "worker": "by the worker that asked",
    "route": "by the proxy it left through",
    "session": "by the class of its session",
    "outcome": "by outcome",
    "status": "by status class",
}
