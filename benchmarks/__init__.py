"""Measure the frontier against its goals, and against a peer on the same server.

`run_frontier` starts a private embedded server and takes three measurements on it:

    speed    add + lease + complete of many URLs, beside scrapy-redis's scheduler
    memory   bytes per pending and per seen URL, beside the same peer
    lease    the time of lease(50) while the number of hosts grows a thousandfold

The machine is busy or slow as it likes: goals are ratios and bytes, never seconds, and contenders
take turns in one run.
"""

from benchmarks.frontier import FULL, MEASUREMENTS, QUICK, Sizes, run_frontier
from benchmarks.render import progress_on_stderr, report_table
from benchmarks.report import Finding, Report

__all__ = [
    "FULL",
    "MEASUREMENTS",
    "QUICK",
    "Finding",
    "Report",
    "Sizes",
    "progress_on_stderr",
    "report_table",
    "run_frontier",
]
