"""Fetching pages: one exchange per call, with limits on all outside input."""

from skitter.fetch.client import Fetcher, HttpFetcher
from skitter.fetch.encoding import decode
from skitter.fetch.guard import Guard
from skitter.fetch.render import Render, Renderer
from skitter.fetch.retry_after import retry_after_s
from skitter.fetch.robots import RobotsRules, fetch_robots
from skitter.fetch.static import StaticFetcher
from skitter.settings.fetch import FetchOptions, honest_user_agent

__all__ = [
    "FetchOptions",
    "Fetcher",
    "Guard",
    "HttpFetcher",
    "Render",
    "Renderer",
    "RobotsRules",
    "StaticFetcher",
    "decode",
    "fetch_robots",
    "honest_user_agent",
    "retry_after_s",
]
