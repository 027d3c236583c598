"""Attempts for tests, without a job."""

from __future__ import annotations

from typing import Any

from skitter.engine.attempt import Attempts
from skitter.engine.parts import Parts
from skitter.fetch import Fetcher, FetchOptions
from skitter.settings import WorkerConfig
from skitter.spider import Spider


def attempts_of(
    spider: Spider, fetcher: Fetcher, *, obey_robots: bool = False, **parts: Any
) -> Attempts:
    config = WorkerConfig(fetch=FetchOptions(obey_robots=obey_robots))
    return Attempts(Parts(spider, fetcher, config, **parts))
