"""The user API: spiders, their handlers and their limits."""

from skitter.spider.default import default_spider
from skitter.spider.items import Rejected
from skitter.spider.load import load_spider
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
