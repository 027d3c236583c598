"""Skitter: a distributed web-scraping system in which every URL is accounted for."""

from skitter.errors import LeaseLost, QueueFull, SkitterError
from skitter.frontier.frontier import Frontier
from skitter.model import Completion, Failure, Lease, Request, Response, Stats
from skitter.page import Page
from skitter.queue import URLQueue
from skitter.settings import Bloom, JobOptions, Layout, Limits, Politeness, Retries
from skitter.spider import Drop, Scope, Spider, load_spider, run_handler
from skitter.urls import Canonical

__all__ = [
    "Bloom",
    "Canonical",
    "Completion",
    "Drop",
    "Failure",
    "Frontier",
    "JobOptions",
    "Layout",
    "Lease",
    "LeaseLost",
    "Limits",
    "Page",
    "Politeness",
    "QueueFull",
    "Request",
    "Response",
    "Retries",
    "Scope",
    "SkitterError",
    "Spider",
    "Stats",
    "URLQueue",
    "load_spider",
    "run_handler",
]
