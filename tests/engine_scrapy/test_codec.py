"""Requests travel as plain data and come back as they were."""

from __future__ import annotations

import sys
from collections import ChainMap, Counter, OrderedDict, defaultdict, deque
from contextlib import suppress
from dataclasses import dataclass, make_dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Flag, StrEnum, auto
from fractions import Fraction
from http import HTTPStatus
from ipaddress import ip_address, ip_network
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import NamedTuple
from urllib.parse import urlsplit
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pytest
from itemadapter import ItemAdapter
from scrapy import Item, Request, Spider
from scrapy.http import Headers, HtmlResponse, JsonRequest
from scrapy.item import Field
from scrapy.settings import Settings
from scrapy.utils import datatypes

from skitter.errors import UsageError
from skitter.frontier.requests import offer
from skitter.frontier.transport.messages import decode_request, encode
from skitter.model import Request as FrontierRequest
from skitter.scrapy.requests.codec import Codec, clamp, own_types
from skitter.scrapy.requests.values import MAX_BODY_BYTES, NotPlain, find_class, pack
from skitter.settings import Layout


class Book(Item):
    title = Field()
    tags = Field()


@dataclass
class Author:
    name: str
    born: date | None = None


class Color(StrEnum):
    RED = "red"


class Shelf(dict[str, int]):
    """A dict, and more."""


class Access(Flag):
    READ, WRITE = auto(), auto()


class Place(NamedTuple):
    row: int
    rest: tuple[int, ...]


class Point:
    def __init__(self, x: int, y: int) -> None:
        self.x, self.y = x, y

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Point) and (self.x, self.y) == (other.x, other.y)

    __hash__ = None  # type: ignore[assignment]


class Books(Spider):
    name = "books"

    def parse_book(self, response):
        """A callback."""

    parse_other = parse_book

    def on_error(self, failure):
        """An errback."""


def host_of(request: Request) -> str:
    return str(request.meta.get("download_slot", "shop.test"))


@pytest.fixture
def spider():
    return Books()


@pytest.fixture
def travel(spider):
    """There and back again, as through the frontier."""
    codec = Codec(spider, host_of, ranked=True)

    def travel(request: Request) -> Request:
        sent = codec.pack(request, "identity", unique="")
        offer(sent, Layout())  # which checks it
        return codec.unpack(decode_request(encode(sent)))

    return travel


def plain(value):
    codec = Codec(Books(), host_of, ranked=True)
    sent = codec.pack(Request("https://shop.test/", meta={"it": value}), "x", unique="")
    return codec.unpack(decode_request(encode(sent))).meta["it"]


def test_a_request_comes_back_with_all_that_it_had(spider, travel):
    request = Request(
        "https://shop.test/a#part",
        callback=spider.parse_book,
        errback=spider.on_error,
        method="POST",
        headers={"X-Two": ["1", "2"], "Accept": "text/html"},
        body=b"\x00\xff",
        cookies=[{"name": "a", "value": "b", "domain": "shop.test"}],
        meta={"depth": 3, "item": Book(title="Tides", tags=["a"]), "pair": (1, {2})},
        encoding="cp1252",
        priority=-5,
        dont_filter=True,
        flags=["seen"],
        cb_kwargs={"author": Author("Ada", date(1815, 12, 10))},
    )

    back = travel(request)

    assert back.to_dict(spider=spider) == request.to_dict(spider=spider)
    assert type(back) is Request


def test_a_request_inside_another_comes_back_as_a_request(spider, travel):
    inner = JsonRequest(
        "https://shop.test/inner",
        data={"a": 1},
        callback=spider.parse_book,
        errback=spider.on_error,
        meta={"author": Author("Ada"), "innermost": Request("https://shop.test/innermost")},
        priority=3,
    )

    back = travel(Request("https://shop.test/", meta={"next": [inner]})).meta["next"][0]

    assert isinstance(back, JsonRequest)
    innermost = back.meta.pop("innermost")
    assert innermost.url == inner.meta.pop("innermost").url
    assert back.to_dict(spider=spider) == inner.to_dict(spider=spider)


def test_a_request_inside_another_that_cannot_travel_is_named_with_its_place(travel):
    inner = Request("https://shop.test/inner", callback=print)

    with pytest.raises(UsageError, match=r"its meta\['next'\]: callback 'print' is not a method"):
        travel(Request("https://shop.test/", meta={"next": inner}))


def test_a_plain_request_is_small_and_a_subclass_stays_one(spider, travel):
    codec = Codec(spider, host_of, ranked=True)

    assert codec.pack(Request("https://shop.test/"), "x", unique="").meta == {}
    back = travel(JsonRequest("https://shop.test/", data={"a": 1}))

    assert isinstance(back, JsonRequest)
    assert back.body == b'{"a": 1}'


def test_what_the_frontier_needs_to_know_stands_in_fields_of_its_own(spider):
    codec = Codec(spider, host_of, ranked=True)
    headers = {"Referer": "https://shop.test/from"}
    meta = {"depth": 2, "download_slot": "my slot"}

    sent = codec.pack(
        Request("https://shop.test/", headers=headers, meta=meta, priority=5000), "f00", unique="u"
    )

    assert (sent.depth, sent.parent, sent.priority) == (2, "https://shop.test/from", 1000)
    assert (sent.identity, sent.unique, sent.slot) == ("f00", "u", "my%20slot")
    assert codec.unpack(sent).priority == 5000


def test_a_shorter_way_that_was_found_since_is_what_the_spider_sees(spider):
    codec = Codec(spider, lambda request: "s", ranked=True)
    stored = codec.pack(Request("https://a.test/", meta={"depth": 4}), "1", unique="")

    again = codec.unpack(msgspec.structs.replace(stored, depth=2))

    assert again.meta["depth"] == 2


@pytest.mark.parametrize("moment", ["tomorrow", True, float("nan"), date(2026, 1, 1)])
def test_a_moment_that_is_none_is_refused(travel, moment):
    with pytest.raises(UsageError, match=r"^meta\['not_before'\] = .* must be a datetime, or"):
        travel(Request("https://shop.test/", meta={"not_before": moment}))


def test_a_queue_without_priorities_has_none(spider):
    codec = Codec(spider, host_of, ranked=False)

    assert codec.pack(Request("https://shop.test/", priority=7), "x", unique="").priority == 0


def test_priorities_without_end_are_clamped():
    assert [clamp(n) for n in (-(10**9), -3, 10**9)] == [-1000, -3, 1000]


@pytest.mark.parametrize("callback", [lambda response: None, print, Books.parse_book])
def test_a_callback_that_is_no_method_of_the_spider_is_refused(travel, callback):
    with pytest.raises(UsageError, match="not a method of the spider 'books'"):
        travel(Request("https://shop.test/", callback=callback))


def test_a_method_under_another_name_is_found(spider, travel):
    assert travel(Request("https://shop.test/", callback=spider.parse_other)).callback in (
        spider.parse_other,
        spider.parse_book,
    )


def test_a_callback_that_is_gone_is_named(spider):
    codec = Codec(spider, host_of, ranked=True)
    sent = codec.pack(Request("https://shop.test/", spider.parse_book), "x", unique="")
    sent = msgspec.structs.replace(sent, handler="parse_old")

    with pytest.raises(UsageError, match="has no method 'parse_old': was it renamed"):
        codec.unpack(sent)


@pytest.mark.parametrize(
    "value",
    [
        None, True, 1.5, "text", b"bytes", 2**80, -(2**63), [1, [2]], {"a": {"b": 1}},
        (1, "two"), {1, 2}, frozenset({"a"}), {1: "one", "two": 2}, {"$set": [1]}, {("a", 1): None},
        datetime(2026, 11, 15, 12, 30), datetime(2026, 11, 15, tzinfo=UTC), date(2026, 1, 2),
        Decimal("1.10"), Author("Ada"), [Book(title="x")], {}, [],
        Book(title="x", tags=[Author("Ada")]), OrderedDict(a=1), time(12, 30), timedelta(1, 2, 3),
        Counter("abca"), defaultdict(list, a=[1]), defaultdict(None, {1: 2}), defaultdict(int),
        Color.RED, Access.READ | Access.WRITE, HTTPStatus.GONE, Place(1, (2,)), Shelf(a=1), 2 + 1j,
        UUID(int=7), Path("/a/b"), PurePosixPath("c"), deque([1, (2,)], maxlen=3), Fraction(1, 3),
        bytearray(b"x"), range(1, 9, 2), ZoneInfo("Europe/Paris"), timezone(timedelta(hours=1)),
        ip_address("::1"), ip_network("10.0.0.0/8"), Headers({"A": ["1", "2"]}),
    ],
)  # fmt: skip
def test_values_keep_their_type(value):
    back = plain(value)

    assert back == value
    assert type(back) is type(value)
    assert getattr(back, "default_factory", 0) == getattr(value, "default_factory", 0)


@pytest.mark.parametrize("value", [object(), lambda: None, [{"deep": object()}], memoryview(b"")])
def test_what_cannot_travel_is_refused_with_its_place(value):
    with pytest.raises(NotPlain, match=r"^meta.* is a builtins\.(object|function|memoryview)"):
        pack(value, "meta")


@pytest.mark.parametrize("value", [defaultdict(lambda: 5), ChainMap({})])
def test_a_dict_that_does_more_than_a_dict_is_refused(value):
    with pytest.raises(NotPlain, match=r"^meta is a collections"):
        pack(value, "meta")


@pytest.mark.parametrize("value", [defaultdict(list, a=[1]), OrderedDict(b=1, a=2)])
def test_dicts_of_the_standard_library_need_no_import_by_name(value, monkeypatch):
    monkeypatch.setattr(Books, "__module__", "a_project_that_says_import_collections")

    back = plain(value)

    assert (type(back), list(back.items())) == (type(value), list(value.items()))


def test_a_dict_or_a_named_tuple_of_a_library_is_refused(travel):
    values: list[object] = [urlsplit("https://a.test/"), datatypes.LocalCache()]
    for value in values:
        with pytest.raises(NotPlain, match=r"^meta\['it'\] is a .*, or say in SKITTER_META_TYPES"):
            travel(Request("https://shop.test/", meta={"it": value}))


def test_a_response_travels_without_its_request_unless_it_is_large(travel):
    page = HtmlResponse(
        "https://shop.test/b",
        203,
        headers={"X-Two": ["1", "2"]},
        body="é".encode("cp1252"),
        encoding="cp1252",
        request=Request("https://shop.test/b"),
    )

    back = travel(Request("https://shop.test/", meta={"page": page})).meta["page"]

    assert (type(back), back.url, back.status, back.text) == (HtmlResponse, page.url, 203, "é")
    assert back.headers == page.headers
    large = page.replace(body=b"x" * (MAX_BODY_BYTES + 1))
    with pytest.raises(UsageError, match=r"^meta\['page'\] is a response of 1,048,577 bytes"):
        travel(Request("https://shop.test/", meta={"page": large}))


def to_text(point: Point) -> str:
    return f"{point.x},{point.y}"


def from_text(text: str) -> Point:
    return Point(*map(int, text.split(",")))


def test_types_of_ones_own_travel_as_the_settings_say(spider):
    settings = Settings({"SKITTER_META_TYPES": {Point: (to_text, from_text)}})
    codec = Codec(spider, host_of, ranked=True, types=own_types(settings))
    request = Request("https://shop.test/", meta={"at": [Point(3, 4)]})

    sent = codec.pack(request, "x", unique="")

    assert codec.unpack(decode_request(encode(sent))).meta["at"] == [Point(3, 4)]
    with pytest.raises(UsageError, match=r"SKITTER_META_TYPES does not have .*\.Point here"):
        Codec(spider, host_of, ranked=True).unpack(sent)


@pytest.mark.parametrize("functions", [("no.such", "thing"), ["builtins.str"], 5])
def test_a_type_without_its_functions_is_refused(functions):
    with pytest.raises(UsageError, match=r"^SKITTER_META_TYPES\['uuid.UUID'\] = .* cannot be used"):
        own_types(Settings({"SKITTER_META_TYPES": {"uuid.UUID": functions}}))


@pytest.mark.parametrize("name", ["os:system", "not_there:Thing", "subprocess:Popen.x", "x"])
def test_a_name_from_the_server_never_imports_anything_of_others(name):
    with pytest.raises(UsageError, match="there is no item or request class"):
        find_class(name, home="bookshop", is_fit=lambda found: True)


@pytest.mark.parametrize(
    "meta",
    [
        {"fields": {"meta": {"x": {"$item": ["subprocess:Popen", {"args": ["true"]}]}}}},
        {"class": "subprocess:Popen"},
    ],
)
def test_nothing_but_items_and_requests_is_made_of_what_the_server_says(spider, meta):
    """Whoever can write to the server must not run code on the nodes."""
    assert "subprocess" in sys.modules
    sent = FrontierRequest(url="https://shop.test/", meta=meta)

    with pytest.raises(UsageError, match="there is no item or request class subprocess:Popen"):
        Codec(spider, host_of, ranked=True).unpack(sent)


def loaded_items() -> set[type]:
    """Item classes of all that is loaded: 300 and more, none of them ours."""
    found = [one for module in [*sys.modules.values()] for one in vars(module).values()]
    return {one for one in found if isinstance(one, type) and ItemAdapter.is_item_class(one)}


def test_no_item_class_of_a_library_is_made_of_what_the_server_says(monkeypatch):
    project = ModuleType("project")
    project.Item = Item  # type: ignore[attr-defined] # all that it imports
    monkeypatch.setitem(sys.modules, "project", project)
    codec = Codec(type("Own", (Books,), {"__module__": "project"})(), host_of, ranked=True)
    made, items = [], loaded_items()
    for kind in items:
        packed = {"$item": [f"{kind.__module__}:{kind.__qualname__}", {}]}
        meta = {"fields": {"meta": {"x": packed}}}
        with suppress(UsageError):
            codec.unpack(FrontierRequest(url="https://shop.test/", meta=meta))
            made.append(kind)

    assert (made, len(items) > 200) == ([Item], True)


def test_an_item_class_that_the_project_imports_is_its_own(spider, travel, monkeypatch):
    """From a package that several projects share."""
    shared = ModuleType("shared_items")
    monkeypatch.setitem(sys.modules, "shared_items", shared)
    shop = shared.Shop = make_dataclass("Shop", ["name"])  # type: ignore[attr-defined]
    shop.__module__ = "shared_items"
    request = Request("https://shop.test/", meta={"shop": shop("Tides")})
    with pytest.raises(UsageError, match="has to define it, or import it by name"):
        travel(request)

    monkeypatch.setattr(sys.modules[__name__], "Shop", shop, raising=False)

    assert travel(request).meta["shop"] == shop("Tides")


def test_a_name_from_the_server_runs_no_program_of_the_project(tmp_path, monkeypatch):
    """Its modules are imported for the items in them. `python -m shop` does more."""
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours/__init__.py").touch()
    (tmp_path / "ours/__main__.py").write_text("raise SystemExit('it ran')")
    (tmp_path / "ours/items.py").write_text("class Book(dict): pass")
    monkeypatch.syspath_prepend(tmp_path)

    assert find_class("ours.items:Book", home="ours", is_fit=lambda _: True).__name__ == "Book"
    with pytest.raises(UsageError, match="there is no item or request class"):
        find_class("ours.__main__:Book", home="ours", is_fit=lambda _: True)
