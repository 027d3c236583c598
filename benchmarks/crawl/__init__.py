"""A whole crawl: fetch, parse, follow, store."""

from benchmarks.crawl.archive import Archive
from benchmarks.crawl.catalogue import Catalogue
from benchmarks.crawl.celery import Celery
from benchmarks.crawl.docs import Docs
from benchmarks.crawl.load import Load
from benchmarks.crawl.memory import Memory
from benchmarks.crawl.pending import Pending
from benchmarks.crawl.profile import Profile
from benchmarks.crawl.scale import Scale
from benchmarks.crawl.shop import Shop
from benchmarks.crawl.speed import Speed
from benchmarks.crawl.start import Start
from benchmarks.crawl.tasks import Tasks
from benchmarks.crawl.tls import Tls
from benchmarks.site import find_nginx
from benchmarks.suite import Suite

CRAWL = Suite(
    about=__doc__,
    full=(
        Speed(),
        Catalogue(),
        Docs(),
        Archive(),
        Tls(),
        Celery(),
        Tasks(),
        Scale(),
        Load(),
        Memory(),
        Pending(),
        Start(),
        Shop(),
        Profile(),
    ),
    quick=(
        Speed(pages=2000, rounds=2, peer_pages=100, peer_rounds=1),
        Catalogue(products=400, rounds=2, peer_rounds=1),
        Docs(rounds=2),
        Archive(pages=1000, rounds=1),
        Celery(pages=2000, rounds=2, peer_pages=100, peer_rounds=1),
        Tasks(pages=500, many=2000, rounds=1),
        Tls(pages=100, rounds=2),
        Scale(seconds=2.0, rounds=1),
        Load(items=2000, rounds=1),
        Memory(pages=5000),
        Pending(urls=20_000),
        Start(rounds=3),
        Shop(rounds=2),
        Profile(pages=2000),
    ),
    with_site=True,
    check=find_nginx,
)
