"""Skitter: a distributed web-scraping system in which every URL is accounted for."""

from skitter.app import open_frontier
from skitter.crawl.script import run_spider as _run_spider
from skitter.errors import LeaseLost, QueueFull, SkitterError
from skitter.frontier.frontier import Frontier
from skitter.model import Added, Completion, Ended, Failure, Lease, Request, Response, State, Stats
from skitter.page import Page
from skitter.queue import URLQueue
from skitter.report import Report
from skitter.settings import Bloom, FetchOptions, JobOptions, Layout, Limits, Politeness, Retries
from skitter.spider import Drop, Scope, Spider, load_spider, run_handler
from skitter.urls import Canonical

__all__ = [
    "Added",
    "Bloom",
    "Canonical",
    "Completion",
    "Drop",
    "Ended",
    "Failure",
    "FetchOptions",
    "Frontier",
    "JobOptions",
    "Layout",
    "Lease",
    "LeaseLost",
    "Limits",
    "Page",
    "Politeness",
    "QueueFull",
    "Report",
    "Request",
    "Response",
    "Retries",
    "Scope",
    "SkitterError",
    "Spider",
    "State",
    "Stats",
    "URLQueue",
    "load_spider",
    "open_frontier",
    "run_handler",
]

Spider.runner = staticmethod(_run_spider)  # spiders are below what runs them
