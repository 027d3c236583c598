"""The access log tells who asked for what, and whether it was polite."""

from __future__ import annotations

import time
from typing import Any

import pytest

from bookshop import fetched_twice, read_log, smallest_gap_s, trespasses
from demo.raw import Wire
from skitter.demo.site import BookShop, Entry, behaviour


def entry(target: str = "/", **facts: Any) -> Entry:
    usual = Entry(
        at=0.0,
        monotonic=0.0,
        method="GET",
        target=target,
        host="localhost:1",
        status=200,
        complete=True,
        user_agent="",
        client_port=1,
    )
    return usual._replace(**facts)


async def test_the_log_has_one_entry_for_each_request(shop):
    before = time.time(), time.monotonic()
    async with Wire(shop.port) as wire:
        await wire.get("/about?b=1&a=2", user_agent="mine/1.0", host="shop:80")
        await wire.get("/none", method="HEAD")
        port = wire.writer.get_extra_info("sockname")[1]

    first, second = shop.log.entries
    assert (first.method, first.target, first.status) == ("GET", "/about?b=1&a=2", 200)
    assert (first.user_agent, first.host, first.client_port) == ("mine/1.0", "shop:80", port)
    assert before[0] <= first.at <= second.at <= time.time()
    assert before[1] <= first.monotonic <= second.monotonic <= time.monotonic()
    assert (second.method, second.status) == ("HEAD", 404)


async def test_the_file_has_what_the_memory_has_at_any_moment(tmp_path):
    file = tmp_path / "access.log"
    async with BookShop(books=60, log_file=file) as shop, Wire(shop.port) as wire:
        for target in ("/", "/robots.txt", behaviour.LOOP):
            await wire.get(target, user_agent='quo"ted')
            assert read_log(file) == shop.log.entries

    assert len(read_log(file)) == 3


async def test_a_shop_that_opens_again_adds_to_its_file(tmp_path):
    file = tmp_path / "access.log"
    for _ in range(2):
        async with BookShop(books=60, log_file=file) as shop, Wire(shop.port) as wire:
            await wire.get("/")

    assert [entry.target for entry in read_log(file)] == ["/", "/"]


def test_half_a_line_is_left_for_later(tmp_path):
    file = tmp_path / "access.log"
    file.write_text('{"at": 1.0, "mono')

    assert read_log(file) == []


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([entry("/a"), entry("/b")], []),
        ([entry("/a"), entry("/a")], ["/a"]),
        ([entry("/a?y=1&x=2"), entry("/a?x=2&y=1&utm_source=z")], ["/a?x=2&y=1"]),
        ([entry("/a", status=404), entry("/a", status=404)], ["/a"]),
        ([entry("/a", status=503), entry("/a")], []),
        ([entry("/a", complete=False), entry("/a")], []),
        ([entry("/a", method="HEAD"), entry("/a")], []),
    ],
)
def test_a_page_is_fetched_twice_if_it_had_two_final_answers(entries, expected):
    assert fetched_twice(entries) == expected


def test_a_trespass_is_a_request_for_what_robots_txt_forbids():
    entries = [entry("/private/x"), entry("/books/private"), entry("/cart/"), entry("/%63art/")]

    assert [one.target for one in trespasses(entries)] == ["/private/x", "/cart/", "/%63art/"]


def test_the_smallest_gap_is_between_two_requests_to_the_same_host():
    entries = [
        entry(monotonic=1.0, host="a:1"),
        entry(monotonic=1.1, host="b:1"),
        entry(monotonic=3.0, host="A:1"),
        entry(monotonic=2.6, host="b:1"),
    ]

    assert smallest_gap_s(entries) == pytest.approx(1.5)
    assert smallest_gap_s(entries[:2]) is None
