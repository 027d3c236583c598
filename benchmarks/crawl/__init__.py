"""A whole crawl: fetch, parse, follow, store."""

from benchmarks.crawl.celery import Celery
from benchmarks.crawl.memory import Memory
from benchmarks.crawl.profile import Profile
from benchmarks.crawl.scale import Scale
from benchmarks.crawl.speed import Speed
from benchmarks.site import find_nginx
from benchmarks.suite import Suite

CRAWL = Suite(
    full=(Speed(), Celery(), Scale(), Memory(), Profile()),
    quick=(
        Speed(pages=2000, rounds=2, peer_pages=100, peer_rounds=1),
        Celery(pages=2000, rounds=2, peer_pages=100, peer_rounds=1),
        Scale(seconds=2.0, rounds=1),
        Memory(pages=5000),
        Profile(pages=2000),
    ),
    with_site=True,
    check=find_nginx,
)
