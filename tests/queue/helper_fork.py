# ruff: noqa: T201
"""A program that forks while a queue is open. Run by test_fork.py, alone in its process."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from skitter import JobOptions, Politeness, URLQueue
from skitter.errors import UsageError

OPTIONS = JobOptions(politeness=Politeness(delay_s=0, max_in_flight=100))


def refused(call: Callable[[], object]) -> None:
    try:
        print("answered", call(), flush=True)
    except UsageError as error:
        print(error, flush=True)


def child(queue: URLQueue, job: str, redis: str) -> None:
    refused(lambda: queue.push("https://lost.test/"))
    refused(queue.pop)
    refused(queue.stats)
    refused(lambda: list(queue.results()))
    refused(queue.__enter__)
    with URLQueue(job, redis=redis) as own:
        print("child pushed", own.push("https://child.test/"), flush=True)


def main(job: str, redis: str, end: str) -> None:
    with URLQueue(job, redis=redis, options=OPTIONS) as queue:
        queue.push_many(["https://a.test/", "https://b.test/"])
        if pid := os.fork():
            os.waitpid(pid, 0)
            print("parent pushed", queue.push("https://parent.test/"), flush=True)
            print("seen", queue.stats().seen, flush=True)
            return
        child(queue, job, redis)
        if end == "vanish":
            os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
