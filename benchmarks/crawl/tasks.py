"""What processes of the benchmark are told, and what they say at the end."""

from __future__ import annotations

import msgspec


class WorkerTask(msgspec.Struct, frozen=True, kw_only=True):
    """One worker on a job that exists."""

    redis_url: str
    job: str
    seed: str
    concurrency: int


class Worked(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker did, and what that took."""

    pages: int
    errors: int
    seconds: float  # from the first request to the last page handed in
    cpu_s: float
    main_thread_cpu_s: float  # the rest is wreq's threads
    rss_mb: float
    peak_mb: float


class BareTask(msgspec.Struct, frozen=True, kw_only=True):
    """A crawl without a frontier."""

    seed: str
    concurrency: int


class BareFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What it took."""

    pages: int
    seconds: float
    cpu_s: float


class SyntheticTask(msgspec.Struct, frozen=True, kw_only=True):
    """A site without files."""

    pages: int
    latency_s: float = 0.0
