"""Taking over from scrapy-redis: keys as it writes them, counts verified."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.http import HtmlResponse
from scrapy.linkextractors import LinkExtractor

from skitter.errors import UsageError
from skitter.frontier.audit.auditor import audit
from skitter.frontier.dead import dead_letters
from skitter.frontier.identities import scrapy_redis_identity
from skitter.frontier.jobs import list_jobs, open_job
from skitter.frontier.records.drivers import is_adopted
from skitter.model import Added
from skitter.model import Request as FrontierRequest
from skitter.scrapy.requests.adopt import Adopted, Adoption, adopt
from skitter.scrapy.requests.codec import Codec


class Books(Spider):
    name = "books"

    def parse_book(self, response):
        """A callback."""


SPIDER = Books()


def entry(path: str, **about) -> bytes:
    """As scrapy_redis.queue.Base writes it."""
    request = Request(f"https://shop.test/{path}", SPIDER.parse_book, **about)
    return pickle.dumps(request.to_dict(spider=SPIDER), protocol=-1)


def theirs(path: str) -> str:
    """As scrapy_redis.dupefilter.RFPDupeFilter computes it."""
    about = {"method": "GET", "url": f"https://shop.test/{path}", "body": ""}
    return hashlib.sha1(json.dumps(about, sort_keys=True).encode()).hexdigest()


@pytest.fixture
def adoption(job):
    def adoption(**about) -> Adoption:
        return Adoption(
            spider="books",
            job=job,
            requests_key=f"{job}:requests",
            dupefilter_key=f"{job}:dupefilter",
            **about,
        )

    return adoption


@pytest.fixture
async def queue(server, job):
    """Three in the queue, which the dupefilter knows, and two that were done."""
    entries = {entry("b"): 0, entry("a", priority=5, meta={"depth": 2}): -5, entry("c"): 0}
    for data, score in entries.items():
        await server.command("ZADD", f"{job}:requests", score, data)
    await server.command("SADD", f"{job}:dupefilter", *map(theirs, "abcde"))


def test_the_fingerprint_is_that_of_scrapy_redis():
    assert scrapy_redis_identity("https://shop.test/a", "GET", b"") == theirs("a")


async def test_queue_and_dupefilter_are_taken_over_and_the_counts_agree(server, queue, adoption):
    result = await adopt(server, adoption(trust_pickle=True))

    assert result == Adopted(
        job=adoption().job,
        entries=3,
        queued=3,
        fingerprints=5,
        remembered=2,
        remembered_before=3,
    )
    frontier = await open_job(server, adoption().job)
    stats = await frontier.stats()
    assert (stats.pending, stats.done, stats.seen) == (3, 2, 5)
    assert (await audit(frontier)).problems == set()
    assert await is_adopted(frontier)
    [first] = (await frontier.lease(1)).leases
    request = Codec(SPIDER, lambda _: "", ranked=True).unpack(first.request)
    assert (request.url, request.priority) == ("https://shop.test/a", 5)
    assert request.callback == SPIDER.parse_book
    assert (request.meta, first.host) == ({"depth": 2}, "shop.test")


async def test_the_old_keys_are_out_of_reach_and_doing_it_again_changes_nothing(
    server, queue, adoption
):
    await adopt(server, adoption(trust_pickle=True))
    assert not await server.command("EXISTS", adoption().requests_key)

    again = await adopt(server, adoption(trust_pickle=True))

    assert (again.entries, again.known, again.queued) == (3, 3, 0)
    assert (again.fingerprints, again.remembered) == (5, 0)


async def test_two_that_adopt_at_once_both_succeed_and_nothing_is_lost(server, queue, adoption):
    results = await asyncio.gather(*(adopt(server, adoption(trust_pickle=True)) for _ in range(4)))

    assert {one.entries for one in results} == {3}
    stats = await (await open_job(server, adoption().job)).stats()
    assert (stats.pending, stats.done, stats.seen) == (3, 2, 5)


async def test_pickles_are_not_read_unless_they_are_trusted_and_nothing_is_changed(
    server, queue, adoption
):
    with pytest.raises(UsageError, match=r"3 requests .* are pickled.*--trust-pickle"):
        await adopt(server, adoption())

    assert adoption().job not in await list_jobs(server)
    assert await server.command("ZCARD", adoption().requests_key) == 3


class Harmful:
    MARK = Path(tempfile.gettempdir()) / f"skitter-harm-{os.getpid()}"

    def __reduce__(self):
        return os.mkdir, (str(self.MARK),)

    @classmethod
    def has_run(cls) -> bool:
        return cls.MARK.exists()


async def test_a_trusted_pickle_that_is_more_than_data_is_a_dead_letter_and_never_runs(
    server, adoption
):
    harmful = pickle.dumps({"url": "https://shop.test/", "meta": {"x": Harmful()}})
    await server.command("ZADD", adoption().requests_key, 0, harmful)
    await server.command("ZADD", adoption().requests_key, 0, b"\x80nonsense")

    result = await adopt(server, adoption(trust_pickle=True))

    assert (result.entries, result.dead, result.queued) == (2, 2, 0)
    assert not Harmful.has_run()
    frontier = await open_job(server, adoption().job)
    reasons = {letter.reason async for letter in dead_letters(frontier)}
    assert any("meta['x'] is a posix.mkdir" in reason for reason in reasons)
    assert all([letter.url.isprintable() async for letter in dead_letters(frontier)])


async def test_what_a_crawl_spider_queued_is_adopted_with_the_text_of_its_links(server, adoption):
    page = HtmlResponse(
        "https://shop.test/", body=b"<a href=/a>The <b>Tides</b></a>", encoding="ascii"
    )
    [link] = LinkExtractor().extract_links(page)
    assert type(link.text) is not str, "lxml has a class of its own for text"
    meta = {"rule": 0, "link_text": link.text, "counts": Counter("aab")}
    await server.command("ZADD", adoption().requests_key, 0, entry("a", meta=meta))

    result = await adopt(server, adoption(trust_pickle=True))

    assert (result.queued, result.dead) == (1, 0)
    frontier = await open_job(server, adoption().job)
    [lease] = (await frontier.lease(1)).leases
    request = Codec(SPIDER, lambda _: "", ranked=True).unpack(lease.request)
    assert request.meta == {"rule": 0, "link_text": "The Tides", "counts": Counter("aab")}
    assert type(request.meta["link_text"]) is str


async def test_what_died_at_adoption_does_not_count_as_seen(server, queue, adoption):
    """`queue` has five fingerprints; the page of one of them cannot be read."""
    bad = pickle.dumps({"url": "https://shop.test/d", "meta": {"x": Harmful()}})
    await server.command("ZADD", adoption().requests_key, 0, bad)

    result = await adopt(server, adoption(trust_pickle=True))

    assert (result.entries, result.queued, result.dead) == (4, 3, 1)
    assert (result.fingerprints, result.remembered, result.forgotten) == (5, 1, 1)
    [reason] = result.reasons
    assert reason.startswith("meta['x'] is a posix.mkdir, which cannot be sent")
    frontier = await open_job(server, adoption().job)
    [letter] = [one async for one in dead_letters(frontier)]
    assert letter.url.startswith("adopted:GET https://shop.test/d (entry ")
    found = Request("https://shop.test/d")
    again = FrontierRequest(
        url=found.url, identity=scrapy_redis_identity(found.url, "GET", b""), slot="shop.test"
    )
    assert await frontier.add([again]) == [Added.NEW], "whoever finds it may do it"
    assert (await audit(frontier)).problems == set()


async def test_the_command_exits_with_1_and_the_reason_if_requests_died(
    server, server_url, adoption
):
    await server.command("ZADD", adoption().requests_key, 0, b"\x80nonsense")

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "skitter", "adopt", "scrapy-redis", "--redis", server_url]
        command += ["--spider", adoption().job, "--trust-pickle", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)

    shown, data = await asyncio.gather(asyncio.to_thread(run), asyncio.to_thread(run, "--json"))

    assert (shown.returncode, data.returncode) == (1, 1)
    assert "1 not adopted: the entry cannot be read" in shown.stdout
    assert f"skitter dead list {adoption().job}" in shown.stdout
    assert json.loads(data.stdout)["dead"] == 1


def bombs() -> dict[str, bytes]:
    """Small pickles that C's unpickler, or whoever writes out what they hold, makes large."""
    head = b"\x80\x04}\x8c\x03url\x8c\x12https://shop.test/x"
    deep: list[object] = ["x"]
    for _ in range(60):
        deep = [deep, deep]
    many = list(range(1000))
    twice = b")" + b"2\x86" * 60  # a tuple of a tuple twice, 60 times: hashed for ever
    return {
        "bytearray": b"\x80\x02cbuiltins\nbytearray\nJ\xff\xff\xff\x70\x85R.",
        "bytes": b"\x80\x04\x8e" + (1_900_000_000).to_bytes(8, "little") + b"x.",
        "bytearray8": b"\x80\x05\x96" + (4 * 2**30).to_bytes(8, "little") + b".",
        "memo": head + b"r\xff\xff\xff\x0fs.",
        "folded": pickle.dumps({"url": "https://shop.test/x", "meta": {"x": deep}}),
        "sets": pickle.dumps({"url": "x", "meta": {"x": [Fresh(many) for _ in range(5000)]}}),
        "digits": pickle.dumps({"url": "x", "meta": {"x": Digits()}}),
        "key": b"\x80\x04}" + twice + b"K\x01s.",
        "keys": b"\x80\x04}(" + twice + b"K\x01u.",
        "dict": b"\x80\x04(" + twice + b"K\x01d.",
        "element": b"\x80\x04\x8f(" + twice + b"\x90.",
        "frozen": b"\x80\x04(" + twice + b"\x91.",
        "counter": b"\x80\x04ccollections\nCounter\n(](" + twice + b"etR.",
        # not too much by itself, but a key a hundred thousand times
        "often": b"\x80\x04}(" + b")" + b"2\x86" * 18 + b"q\x00" + b"Nh\x00" * 100_000 + b"Nu.",
    }


class Fresh:
    """Makes a set of one and the same list."""

    def __init__(self, parts: list[int]) -> None:
        self.parts = parts

    def __reduce__(self):
        return set, (self.parts,)


class Digits:
    def __reduce__(self):
        return Decimal, ("9" * 3_000_000,)


@pytest.mark.parametrize("name", bombs())
def test_a_small_pickle_does_not_become_large(name):
    """In a process that may have 300 MB more than it has: what takes more dies of it."""
    script = (
        "import resource, sys\n"
        "from skitter.scrapy.requests.adopt import read_entry, read_request\n"
        "from skitter.errors import UsageError\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 300_000_000,) * 2)\n"
        "try:\n"
        "    read_request(read_entry(sys.stdin.buffer.read()), 0, unique='')\n"
        "except UsageError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=bombs()[name],
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert b"MemoryError" not in done.stdout
    assert done.stdout or name == "memo", "refused"


async def test_an_entry_that_makes_no_sense_is_a_dead_letter_and_stops_nothing(server, adoption):
    page = "https://shop.test/"
    strange: list[dict[str, Any]] = [
        {"headers": 5}, {"meta": [1]}, {"callback": 7}, {"meta": {"depth": "deep"}}
    ]  # fmt: skip
    for number, about in enumerate(strange):
        data = json.dumps({"url": f"{page}{number}", **about})
        await server.command("ZADD", adoption().requests_key, 0, data)
    good = json.dumps({"url": page, "headers": {"X": "whole"}})
    await server.command("ZADD", adoption().requests_key, "-inf", good)
    await server.command("ZADD", adoption().requests_key, 0, b"\xff\xfe")
    await server.command("SADD", adoption().dupefilter_key, b"\xff\xfe", theirs("a"))

    result = await adopt(server, adoption())

    assert (result.entries, result.dead, result.queued) == (6, 5, 1)
    assert (result.fingerprints, result.remembered, result.unreadable) == (1, 1, 1)
    frontier = await open_job(server, adoption().job)
    [lease] = (await frontier.lease(9)).leases
    request = Codec(SPIDER, lambda _: "", ranked=True).unpack(lease.request)
    assert request.headers.getlist("X") == [b"whole"]
    assert (await audit(frontier)).problems == set()


async def test_where_there_is_nothing_to_adopt_nothing_is_made(server, adoption):
    with pytest.raises(UsageError, match=r"neither .*:requests nor .*:dupefilter"):
        await adopt(server, adoption())
    await server.command("HSET", adoption().requests_key, "a", "b")
    with pytest.raises(UsageError, match="is a hash"):
        await adopt(server, adoption())

    assert adoption().job not in await list_jobs(server)


async def test_lists_keep_their_order_and_json_needs_no_trust(server, adoption):
    for path in "abc":  # FifoQueue: LPUSH and RPOP
        data = json.dumps({"url": f"https://shop.test/{path}", "callback": "parse_book"})
        await server.command("LPUSH", adoption().requests_key, data)

    await adopt(server, adoption())

    frontier = await open_job(server, adoption().job)
    taken = []
    for _ in range(3):
        [lease] = (await frontier.lease(1)).leases
        taken.append(lease.url[-1])
        await frontier.bury([])
        await _done(frontier, lease)
    assert taken == ["a", "b", "c"]


async def _done(frontier, lease):
    from skitter.frontier.control import configure
    from skitter.model import Completion
    from skitter.settings import JobOptions, Politeness

    await frontier.complete([Completion(lease=lease)])
    await configure(frontier, JobOptions(politeness=Politeness(delay_s=0)))
