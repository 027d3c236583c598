"""A crawl without a spider of the user's: what `skitter crawl` tells its processes."""

from __future__ import annotations

import os
import re

import msgspec

from skitter.errors import BadOption
from skitter.settings import Limits, Politeness
from skitter.spider import Spider, default_spider, load_spider
from skitter.urls import fingerprint, identify

#: How the processes of `skitter crawl` learn what their parent was asked: JSON of `Plain`.
PLAIN = "SKITTER_CRAWL"


class Plain(msgspec.Struct, frozen=True, kw_only=True):
    """A crawl without a spider of the user's."""

    name: str
    seeds: list[str]
    delay_s: float
    max_in_flight: int
    max_depth: int | None
    max_pages: int | None

    def spider(self) -> Spider:
        return default_spider(
            self.name,
            self.seeds,
            politeness=Politeness(delay_s=self.delay_s, max_in_flight=self.max_in_flight),
            limits=Limits(max_depth=self.max_depth, max_pages=self.max_pages),
        )


def spider_of(target: str) -> Spider:
    """The spider of a file, or the one that `skitter crawl` described to its processes."""
    if target != PLAIN:
        return load_spider(target)
    return msgspec.json.decode(os.environ[PLAIN], type=Plain).spider()


def job_name_of(urls: list[str]) -> str:
    """The same URLs again are the same job, so that a crawl resumes."""
    targets = [identify(url) for url in urls]
    host = re.sub(r"[^A-Za-z0-9.-]", "-", targets[0].host).strip(".-")[:60] or "crawl"
    mark = int(fingerprint(" ".join(sorted(one.canonical for one in targets)))) % 36**4
    return f"{host}-{mark:06x}"


def politeness_of(asked: str) -> tuple[float, int]:
    """Seconds between requests and how many at a time."""
    if asked == "none":
        return 0.0, 64
    try:
        per_second = float(asked)
    except ValueError:
        per_second = 0.0
    if not 1 / 86_400 <= per_second <= 10_000:
        raise BadOption("--rate", asked, "requests per second, from one a day to 10,000, or none")
    return 1 / per_second, max(1, round(per_second))
