"""The HTTP server alongside a running crawl, on the same machine."""

from benchmarks.http.dashboards import Dashboards
from benchmarks.http.push import Push
from benchmarks.suite import Suite

HTTP = Suite(
    about=__doc__,
    full=(Push(), Dashboards()),
    quick=(Push(seconds=2.0, rounds=1), Dashboards(seconds=3.0)),
)
