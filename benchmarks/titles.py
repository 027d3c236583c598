"""The spider of the measurements, for workers that load it by module name."""

from __future__ import annotations

from benchmarks.worker import titles
from skitter.spider import Spider

spider = Spider("titles")
spider.page(titles)
