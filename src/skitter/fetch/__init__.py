"""Fetching pages: one exchange per call, with limits on all outside input.

browser/    Pages rendered by a browser
filebucket  Downloaded files in an object store: s3://, gs://, az:// and file:///
filestore   A folder of downloaded files, each content once, under its SHA-256
html/       Bytes become text and trees, within limits
http/       One HTTP exchange: clients, and whom they may connect to
pdf         Text of PDF files, by a program of its own: the library reads what strangers wrote
robots      robots.txt by RFC 9309: what it says, what its absence means, and how long to rely on it
session     Session: who we are to a site: the cookies it gave us, headers from a log-in, a route
"""

from skitter.fetch.browser.render import Render, Renderer
from skitter.fetch.html.encoding import decode
from skitter.fetch.http.exchange import retry_after_s
from skitter.fetch.http.fetcher import Fetcher, HttpFetcher, StaticFetcher
from skitter.fetch.http.guard import Guard
from skitter.fetch.robots import RobotsRules, fetch_robots
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
