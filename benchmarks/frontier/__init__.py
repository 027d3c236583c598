"""The frontier alone: add, lease and complete without fetching a page."""

from benchmarks.frontier.lease import Lease
from benchmarks.frontier.memory import Memory
from benchmarks.frontier.nodes import Nodes
from benchmarks.frontier.speed import Speed
from benchmarks.suite import Suite

FRONTIER = Suite(
    about=__doc__,
    full=(Speed(), Memory(), Lease(), Nodes()),
    quick=(
        Speed(urls=10_000, few_urls=1_000, hosts=50),
        Memory(urls=50_000, hosts=50),
        # A turn needs a thousand hosts, so only the last is a twentieth.
        Lease(hosts=(1_000, 10_000, 50_000), turns=5),
        Nodes(urls=5_000, hosts=100, rounds=1),
    ),
)
