"""The user API: spiders, their handlers and their limits.

default      The spider of `skitter crawl URL...`: title, text
fixtures     Fixtures: a saved page and what its handler finds there, as a test of a spider
hooks        Functions of a user besides handlers: hooks, and how a spider logs in
importing    Loads a spider from a file or a module, with its arguments
items        Items: what a handler yields becomes a plain dict
named_files  Files that pages name: downloaded in a lane of their own
offers       What an agent offers: the spiders of its list, and what they take
page/        A response as a handler sees it
quota        What a handler may get away with: failures that pass, and how much it yields
run          Runs a handler on a page and sorts what it yields into items, requests and refusals
scope        Scope: where a crawl may go
seeding      The seeds of a spider: added once, or again in each round
sitemap      Sitemaps as requests of the crawl, with our own handler: any worker reads them
source       Users' source code: the line that failed, and what a handler is meant to do
spider       Spider: where to start, what to do with a page, where to stop
transform    Transforms: what the loader does to each item before storing it
"""

from skitter.spider.default import default_spider
from skitter.spider.importing import load_spider
from skitter.spider.items import Rejected
from skitter.spider.run import Drop, HandlerError, HandlerOutput, run_handler
from skitter.spider.scope import Allowed, Fence, Refused, Scope
from skitter.spider.spider import Spider
from skitter.spider.transform import load_transform

__all__ = [
    "Allowed",
    "Drop",
    "Fence",
    "HandlerError",
    "HandlerOutput",
    "Refused",
    "Rejected",
    "Scope",
    "Spider",
    "default_spider",
    "load_spider",
    "load_transform",
    "run_handler",
]
