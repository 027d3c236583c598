"""Metrics of a crawl: what is counted and timed, and how. Pure; frontier/metrics.py stores it."""

from skitter.metrics.batch import Batch, Row
from skitter.metrics.catalogue import BY_SHARD, COUNTERS, TABLES, TIMINGS
from skitter.metrics.histogram import Histogram

__all__ = ["BY_SHARD", "COUNTERS", "TABLES", "TIMINGS", "Batch", "Histogram", "Row"]
