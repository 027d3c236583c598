"""Skitter: a distributed web-scraping system in which every URL is accounted for."""

from skitter.errors import LeaseLost, QueueFull, SkitterError
from skitter.frontier.frontier import Frontier
from skitter.model import Completion, Failure, Lease, Request, Stats
from skitter.queue import URLQueue
from skitter.settings import Bloom, JobOptions, Layout, Limits, Politeness, Retries
from skitter.urls import Canonical

__all__ = [
    "Bloom",
    "Canonical",
    "Completion",
    "Failure",
    "Frontier",
    "JobOptions",
    "Layout",
    "Lease",
    "LeaseLost",
    "Limits",
    "Politeness",
    "QueueFull",
    "Request",
    "Retries",
    "SkitterError",
    "Stats",
    "URLQueue",
]
