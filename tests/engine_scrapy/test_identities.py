"""Whoever adds URLs to a job of Scrapy nodes identifies them as the nodes do."""

from __future__ import annotations

import sys

import pytest
from scrapy import Request as ScrapyRequest
from scrapy.http import FormRequest
from scrapy.utils.request import fingerprint as scrapy_fingerprint
from scrapy.utils.test import get_crawler

from skitter.errors import UsageError
from skitter.frontier.control import read_birth
from skitter.frontier.feed import take_feed
from skitter.frontier.identities import SCRAPY, our_identity, scrapy_identity
from skitter.frontier.jobs import note_fingerprinter
from skitter.frontier.transport.keys import feed_key
from skitter.model import Added, Completion, Request
from skitter.scrapy.dupefilter import RequestFingerprinter, RFPDupeFilter, make_dupefilter

URLS = [
    "https://shop.test/",
    "HTTPS://Shop.test:443/a/../b?y=2&x=1#part",
    "https://shop.test/ä ö?q=%c3%a4&empty=&utm_source=x",
    "https://bücher.test/a%2fb",
]


class Mine:
    """A project's own fingerprinter: the path alone."""

    def fingerprint(self, request):
        return request.url.partition("?")[0].encode()


@pytest.mark.parametrize("url", URLS)
def test_an_identity_is_what_scrapy_computes(url):
    page, form = ScrapyRequest(url), FormRequest(url, formdata={"a": "1"})

    assert scrapy_identity(url, "get", b"") == scrapy_fingerprint(page).hex()
    assert scrapy_identity(url, "POST", form.body) == scrapy_fingerprint(form).hex()
    assert our_identity(url, "GET", b"") == RequestFingerprinter().fingerprint(page).hex()


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({}, "scrapy"),
        ({"REQUEST_FINGERPRINTER_CLASS": RequestFingerprinter}, "skitter"),
        ({"REQUEST_FINGERPRINTER_CLASS": Mine}, f"{__name__}.Mine"),
        ({"DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter"}, ""),
    ],
)
def test_a_dupefilter_knows_the_name_of_its_rule(settings, name):
    assert make_dupefilter(get_crawler(settings_dict=settings)).name == name


async def seen_by_a_node(frontier, url, identify=scrapy_identity):
    """What a node has fetched."""
    await frontier.add([Request(url, identity=identify(url, "GET", b""), slot="shop.test")])
    [lease] = (await frontier.lease(1)).leases
    await frontier.complete([Completion(lease=lease)])


async def test_a_node_reads_the_feed_with_its_own_fingerprinter(server, frontier):
    """The same if Scrapy is not where URLs are pushed, but where nodes run."""
    await note_fingerprinter(frontier, f"{__name__}.Mine")
    frontier.identify = RFPDupeFilter(Mine()).identify
    await seen_by_a_node(frontier, "https://shop.test/a", frontier.identify)
    await server.command("LPUSH", feed_key(frontier.job), "https://shop.test/a?x", "http://x.test/")

    await take_feed(frontier)

    [lease] = (await frontier.lease(9)).leases
    assert lease.url == "http://x.test/"
    assert lease.request.identity == b"http://x.test/".hex()


async def test_a_site_on_a_port_of_its_own_is_one_host_for_nodes_and_for_others(frontier):
    """Scrapy's slots have no port: by another name, pushed pages would be fetched side by side."""
    await note_fingerprinter(frontier, SCRAPY)
    seen, url = "http://Shop.test:8000/a", "http://Shop.test:8000/b"
    identity = scrapy_identity(seen, "GET", b"")
    await frontier.add([Request(seen, identity=identity, slot="shop.test")])

    assert await frontier.add([Request(seen), Request(url)]) == [Added.SEEN, Added.NEW]
    assert (await frontier.stats()).hosts == 1


async def test_a_server_that_has_the_job_open_notices(frontier):
    before = await read_birth(frontier)
    await note_fingerprinter(frontier, SCRAPY)
    after = await read_birth(frontier)
    await note_fingerprinter(frontier, SCRAPY)

    assert before != after == await read_birth(frontier)  # only if it is news


async def test_without_scrapy_a_push_says_how_to_install_it(frontier, monkeypatch):
    await note_fingerprinter(frontier, SCRAPY)
    monkeypatch.setitem(sys.modules, "w3lib.url", None)

    with pytest.raises(UsageError, match="takes URLs only with Scrapy: pip install"):
        await frontier.add([Request("https://shop.test/")])
