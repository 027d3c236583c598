"""run_handler: what handlers yield, sorted; what they do wrong, named."""

from __future__ import annotations

import asyncio
import functools
import importlib
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, TypedDict

import msgspec
import pytest

from skitter.errors import BadOption, SpiderError
from skitter.model import Request, Response
from skitter.settings import Limits
from skitter.spider import Drop, HandlerError, HandlerOutput, Rejected, Scope, Spider, run_handler
from skitter.spider.page import NoMatch, Page

URL = "https://shop.example/list"
HTML = "<h1>Shop</h1><a href=/1>1</a><a href=/2>2</a><a href=https://else.example/>3</a>"


def make_spider(**options) -> Spider:
    return Spider("shop", [URL], **options)


async def run(handler, *, spider: Spider | None = None, html: str = HTML) -> HandlerOutput:
    spider = spider or make_spider()
    spider.page(handler)
    return await run_handler(spider, Page.of(html, url=URL, handler=handler))


async def failure(handler, **options) -> HandlerError:
    with pytest.raises(HandlerError) as caught:
        await run(handler, **options)
    return caught.value


async def test_a_known_url_is_left_out_unless_the_request_is_more_than_a_get():
    def handler(page):
        yield from page.follow_all()
        yield page.follow("/1", dont_filter=True)
        yield page.follow("/1", method="POST")
        yield page.follow("/1", body=b"q=1")

    spider = make_spider()
    spider.page(handler)
    known = {"https://shop.example/1"}
    outcome = await run_handler(spider, Page.of(HTML, url=URL), known=known)

    assert [(one.url[-2:], one.method, bool(one.unique), one.body) for one in outcome.requests] == [
        ("/2", "GET", False, b""),
        ("/1", "GET", True, b""),
        ("/1", "POST", False, b""),
        ("/1", "GET", False, b"q=1"),
    ]


# --- every kind of handler ------------------------------------------------------------------------

ITEM = {"title": "Shop"}


def plain_generator(page):
    yield ITEM
    yield page.follow("/1")


async def async_generator(page):
    yield ITEM
    await asyncio.sleep(0)
    yield page.follow("/1")


def plain_function(page):
    return [ITEM, page.follow("/1")]


async def async_function(page):
    await asyncio.sleep(0)
    return [ITEM, page.follow("/1")]


async def async_function_that_returns_a_generator(page):
    return plain_generator(page)


def function_that_returns_an_async_generator(page):
    return async_generator(page)


@functools.wraps(plain_generator)
def wrapped(page):
    return plain_generator(page)


@pytest.mark.parametrize(
    "handler",
    [
        plain_generator,
        async_generator,
        plain_function,
        async_function,
        async_function_that_returns_a_generator,
        function_that_returns_an_async_generator,
        wrapped,
    ],
    ids=lambda handler: handler.__name__,
)
async def test_handlers_may_be_plain_or_async_functions_or_generators(handler):
    outcome = await run(handler)
    assert outcome.items == [ITEM]
    assert [request.url for request in outcome.requests] == ["https://shop.example/1"]


async def test_a_handler_may_return_one_item_or_nothing():
    assert (await run(lambda_named("one", lambda page: ITEM))).items == [ITEM]
    assert await run(lambda_named("none", lambda page: None)) == HandlerOutput()


def lambda_named(name: str, function):
    function.__name__ = name
    return function


async def test_none_is_ignored_among_the_outputs():
    def handler(page):
        yield None
        yield ITEM

    assert (await run(handler)).items == [ITEM]


# --- requests -------------------------------------------------------------------------------------


async def test_links_out_of_scope_are_set_apart_with_the_reason():
    def handler(page):
        yield from page.follow_all()
        yield page.follow("mailto:a@b.c")

    outcome = await run(handler)
    assert [request.url[-2:] for request in outcome.requests] == ["/1", "/2"]
    reasons = {url: refused.reason for url, refused in outcome.refused}
    assert "else.example" in reasons["https://else.example/"]
    assert "'mailto'" in reasons["mailto:a@b.c"]


async def test_the_scope_and_the_depth_of_the_spider_hold():
    def handler(page):
        yield from page.follow_all()

    outcome = await run(handler, spider=make_spider(scope=Scope(hosts=["*"], exclude=["/2"])))
    assert [request.url for request in outcome.requests] == [
        "https://shop.example/1",
        "https://else.example/",
    ]
    shallow = await run(handler, spider=make_spider(limits=Limits(max_depth=0)))
    assert shallow.requests == []
    assert {refused.reason for _, refused in shallow.refused} == {
        "max_depth is 0: no link is followed"
    }


async def test_a_request_made_by_hand_gets_its_depth_and_parent():
    spider = make_spider()

    @spider.page
    def handler(page):
        yield Request(url="https://shop.example/x", priority=3)

    page = Page(Request(url=URL, depth=4), Response(url=URL, status=200))
    [request] = (await run_handler(spider, page)).requests
    assert (request.depth, request.parent, request.priority) == (5, URL, 3)


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (Request(url=URL, meta={"page": object()}), "cannot be stored: .*object"),
        (Request(url=URL, priority=5000), "priority must be"),
        (Request(url=URL, headers={"a": 1}), "headers must be a dict of text to text"),  # type: ignore[dict-item]
        (Request(url=URL, parent=URL, timeout_s=1e-5), "timeout_s must be a number from 0.001"),
        (Request(url=URL, parent=URL, max_body_mb=-1), "max_body_mb must be a number"),
        (Request(url=URL, parent=URL, country="Germany"), "country must be two lower case"),
        (Request(url=URL, parent=URL, session="a b"), "session must be up to 255 characters"),
        (Request(url=URL, meta={"a": "\ud800"}), "cannot be stored: .*surrogates"),
        (Request(url=URL, meta={"a": 2**70}), "cannot be stored: "),
        (Request(url=None), "cannot be stored: Expected `str`"),  # type: ignore[arg-type]
        (Request(url=URL, handler="bok"), "no handler 'bok'; it has handler"),
    ],
)
async def test_a_request_that_cannot_be_stored_fails_its_own_page(request_, said):
    def handler(page):
        yield request_

    error = await failure(handler)
    assert error.handler == "handler"
    with pytest.raises(HandlerError, match=said):
        raise error


async def test_a_stored_request_for_a_handler_that_is_gone_says_which_there_are():
    spider = make_spider()
    spider.page(plain_generator)
    with pytest.raises(SpiderError, match=r"no handler 'gone'; it has plain_generator"):
        await run_handler(spider, Page.of("", url=URL, handler="gone"))


# --- failures -------------------------------------------------------------------------------------


@pytest.mark.parametrize("output", ["text", 7, ["list"], Page.of(""), dict, object()])
async def test_an_output_that_is_neither_item_nor_request_names_handler_and_type(output):
    def handler(page):
        yield output

    error = await failure(handler)
    assert "handler handler failed on https://shop.example/list" in str(error)
    assert f"it yielded a {type(output).__name__}" in str(error)


async def test_an_exception_is_told_with_the_line_of_the_handler():
    async def handler(page):
        yield ITEM
        int(page.css_first("h1").text())  # the culprit

    error = await failure(handler)
    assert "ValueError: invalid literal for int()" in str(error)
    assert "test_run.py:" in str(error)
    assert "# the culprit" in str(error)
    assert isinstance(error.__cause__, ValueError)


async def test_a_missing_element_is_told_with_the_line_of_the_handler_not_with_ours():
    def handler(page):
        yield {"price": page.css_first(".price").text()}

    error = await failure(handler)
    assert "NoMatch: nothing on the page matches '.price'" in str(error)
    assert error.place is not None
    assert error.place.file == __file__
    assert isinstance(error.__cause__, NoMatch)


async def test_a_handler_that_calls_exit_fails_its_page_only():
    def handler(page):
        raise SystemExit(3)

    assert "SystemExit: 3" in str(await failure(handler))


async def test_a_cancelled_handler_is_cancelled():
    async def handler(page):
        await asyncio.sleep(60)

    task = asyncio.create_task(run(handler))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_async_generator_is_closed_when_its_output_is_refused():
    closed = []

    async def handler(page):
        try:
            yield "text"
        finally:
            closed.append(True)

    await failure(handler)
    assert closed == [True]


# --- items ----------------------------------------------------------------------------------------


@dataclass
class Book:
    title: str
    price: float = 1.5


class Struct(msgspec.Struct):
    title: str
    price: float = 1.5


class Typed(TypedDict):
    title: str
    price: float


def pydantic_book() -> Any:
    pydantic = pytest.importorskip("pydantic")
    return pydantic.create_model("PydanticBook", title=(str, ...), price=(float, 1.5))


async def items_of(*outputs, spider: Spider | None = None) -> HandlerOutput:
    def handler(page):
        yield from outputs

    return await run(handler, spider=spider)


async def test_items_of_every_kind_become_plain_dicts():
    model = pydantic_book()
    outcome = await items_of(Book("T"), Struct("T"), model(title="T"), {"title": "T", "price": 1.5})
    assert outcome.items == [{"title": "T", "price": 1.5}] * 4


async def test_values_stay_what_the_wire_can_carry():
    now = datetime(2026, 1, 2, tzinfo=UTC)
    outcome = await items_of(
        {"at": now, "day": date(2026, 1, 2), "price": Decimal("1.10"), "raw": b"\x00", 7: [1, 2]}
    )
    assert outcome.items == [
        {"at": now, "day": "2026-01-02", "price": "1.10", "raw": b"\x00", "7": [1, 2]}
    ]


async def test_an_element_in_an_item_is_named_with_its_field():
    def handler(page):
        yield {"url": page.url, "title": page.css_first("h1")}

    error = await failure(handler)
    assert "field 'title' is a LexborNode, which cannot be stored: take its .text()" in str(error)


async def test_an_item_that_contains_itself_is_named_with_its_line():
    def handler(page):
        item = {"url": page.url}
        item["self"] = item
        yield item

    error = await failure(handler)
    assert "it yielded an item that contains itself, or is nested far too deeply" in str(error)


@pytest.mark.parametrize("value", ["half an emoji \ud83d", 2**70])
async def test_a_value_that_cannot_be_stored_sets_its_item_aside(value):
    outcome = await items_of({"good": 1, "bad": value}, {"good": 2})
    assert outcome.items == [{"good": 2}]
    [rejected] = outcome.rejected
    assert rejected.field == "bad"
    assert rejected.item == {"good": 1, "bad": ascii(value)}
    msgspec.msgpack.encode(rejected)


@pytest.mark.parametrize("declared", [Book, Struct, Typed, "pydantic"])
async def test_items_that_do_not_fit_the_declared_type_are_set_aside_by_field(declared):
    declared = pydantic_book() if declared == "pydantic" else declared
    outcome = await items_of(
        {"title": "T", "price": 2},
        {"title": "T", "price": "dear"},
        {"price": 1.0},
        {"title": ["T"], "price": 1.0},
        spider=make_spider(item=declared),
    )
    assert outcome.items == [{"title": "T", "price": 2.0}]
    assert [rejected.field for rejected in outcome.rejected] == ["price", "title", "title"]
    assert outcome.rejected[0].item == {"title": "T", "price": "dear"}
    assert all(rejected.reason for rejected in outcome.rejected)


class Renamed(msgspec.Struct, rename={"price": "cost"}, omit_defaults=True):
    title: str
    price: float = 1.5


def pydantic_with(**config: Any) -> Any:
    pydantic = pytest.importorskip("pydantic")
    field = pydantic.Field(1.5, alias="cost")
    return pydantic.create_model("M", __config__=config, title=(str, ...), price=(float, field))


@pytest.mark.parametrize(
    ("declared", "item", "left_out"),
    [
        (Book, {"title": "T", "colour": "red", "size": 3}, ["colour", "size"]),
        (Typed, {"title": "T", "price": 1.5, "colour": "red"}, ["colour"]),
        (Renamed, {"title": "T", "cost": 1.5, "price": 1.5}, ["price"]),
        (pydantic_book(), {"title": "T", "colour": "red"}, ["colour"]),
        (pydantic_with(), {"title": "T", "cost": 1.5, "colour": "red"}, ["colour"]),
        (pydantic_with(extra="allow"), {"title": "T", "colour": "red"}, []),
        (dict[str, Any], {"title": "T", "colour": "red"}, []),
        (None, {"title": "T", "colour": "red"}, []),
    ],
)
async def test_fields_that_the_declared_type_does_not_have_are_counted(declared, item, left_out):
    outcome = await items_of(item, item, spider=make_spider(item=declared))
    assert len(outcome.items) == 2
    assert outcome.undeclared == dict.fromkeys(left_out, 2)
    assert not outcome.items[0].keys() & set(left_out)


async def test_an_instance_that_nobody_checked_is_checked():
    wrong = Book(title=None)  # type: ignore[arg-type]
    outcome = await items_of(wrong, spider=make_spider(item=Book))
    [rejected] = outcome.rejected
    assert (rejected.item, rejected.field) == ({"title": None, "price": 1.5}, "title")
    assert rejected.reason.startswith("Expected `str`, got `null`: None (")


async def test_a_rejected_item_names_its_field_its_value_and_the_line_that_yielded_it():
    spider = make_spider(item=Book)

    @spider.page(default=True)
    def plain(page):
        yield {"title": "good", "price": 1.0}
        yield {"title": "bad", "price": "£5"}

    @spider.page
    async def streamed(page):
        yield {"price": 2.0}

    @spider.page
    def returned(page):
        return {"title": "bad", "price": "x" * 100}

    said = {}
    for handler in ("plain", "streamed", "returned"):
        outcome = await run_handler(spider, Page.of("", handler=handler))
        [said[handler]] = [one.why for one in outcome.rejected]
        assert f"{Path(__file__).name}:" in said[handler]

    assert said["plain"].startswith("price: Expected `float`, got `str`: '£5' (")
    assert said["plain"].endswith(': yield {"title": "bad", "price": "£5"})')
    assert said["streamed"].startswith("title: Object missing required field `title` (")
    assert said["streamed"].endswith(': yield {"price": 2.0})')
    assert "... (102 characters) (" in said["returned"]
    assert said["returned"].endswith(": @spider.page)")


class Shelf(msgspec.Struct):
    name: str
    books: int = 0


@pytest.mark.parametrize(
    ("item", "found"),
    [
        ({"title": "T", "price": 2.0}, {"title": "T", "price": 2.0, "_type": "book"}),
        ({"name": "A"}, {"name": "A", "books": 0, "_type": "shelf"}),
        (Book("T"), {"title": "T", "price": 1.5, "_type": "book"}),
        (Shelf("A", 3), {"name": "A", "books": 3, "_type": "shelf"}),
        ({"name": "A", "books": "x"}, "books"),
        (Shelf(None), "name"),  # type: ignore[arg-type]
        ({"title": 7, "price": 2.0}, "title"),
    ],
)
async def test_an_item_is_of_one_of_the_types_of_a_union(item, found):
    outcome = await items_of(item, spider=make_spider(item=Book | Shelf))

    expected = ([], [found]) if isinstance(found, str) else ([found], [])
    assert (outcome.items, [one.field for one in outcome.rejected]) == expected


def test_two_types_of_one_name_are_refused_as_their_rows_could_not_be_told_apart():
    @dataclass
    class BOOK:
        pages: int

    with pytest.raises(BadOption, match="item must be types whose names differ"):
        make_spider(item=Book | BOOK)


async def test_a_handler_has_a_type_of_its_own():
    spider = make_spider(item=Book)

    @spider.page(item=Shelf)
    def shelf(page):
        yield {"name": "A", "price": 2.0}
        yield {"title": "T"}

    @spider.page
    def book(page):
        yield {"title": "T", "price": 1.5}

    found = await run_handler(spider, Page.of("", handler="shelf"))
    assert found.items == [{"name": "A", "books": 0, "_type": "shelf"}]
    assert ([one.field for one in found.rejected], found.undeclared) == (["name"], {"price": 1})
    found = await run_handler(spider, Page.of("", handler="book"))
    assert found.items == [{"title": "T", "price": 1.5, "_type": "book"}]
    with pytest.raises(BadOption, match="item must be"):
        spider.page(item="Book")


@pytest.mark.parametrize("declared", [object(), "Book"])
def test_a_type_that_items_cannot_be_checked_against_is_refused(declared):
    with pytest.raises(BadOption, match="item must be"):
        make_spider(item=declared)


# --- hooks ----------------------------------------------------------------------------------------


async def test_an_item_hook_may_replace_leave_or_drop_an_item_before_it_is_checked():
    spider = make_spider(item=Book)

    @spider.on_item
    def clean(item, page):
        if item["title"] == "spam":
            raise Drop("spam")
        if isinstance(item["price"], str):
            return item | {"price": float(item["price"])}
        return None

    @spider.on_item
    async def shout(item, page):
        item["title"] = f"{item['title']} of {page.url}"

    outcome = await items_of(
        {"title": "A", "price": "2.5"},
        {"title": "B", "price": 1.0},
        {"title": "spam", "price": 0.0},
        spider=spider,
    )
    assert outcome.items == [
        {"title": f"A of {URL}", "price": 2.5},
        {"title": f"B of {URL}", "price": 1.0},
    ]
    assert outcome.rejected == [Rejected({"title": "spam", "price": 0.0}, "", "spam")]


async def test_a_hook_that_fails_fails_the_page():
    spider = make_spider()

    @spider.on_item
    def broken(item, page):
        return item["absent"]

    assert "KeyError: 'absent'" in str(await failure(plain_generator, spider=spider))


async def test_what_is_no_item_is_shown_at_the_line_that_yields_it():
    spider = Spider("s", ["https://a.test/"])

    @spider.page
    def page(page):
        yield {"fine": 1}
        yield "text"

    with pytest.raises(HandlerError) as caught:
        await run_handler(spider, Page.of("x"))
    assert str(caught.value.place).endswith('yield "text"')


async def test_an_error_is_shown_at_the_deepest_line_of_the_users(tmp_path, monkeypatch):
    (tmp_path / "deep_helper.py").write_text("import json\ndef parse(text): json.loads(text)\n")
    monkeypatch.syspath_prepend(tmp_path)
    spider = Spider("s", ["https://a.test/"])

    @spider.page
    def page(page):
        importlib.import_module("deep_helper").parse(page.text)

    with pytest.raises(HandlerError, match=r"deep_helper.py:2: def parse\(text\): json.loads"):
        await run_handler(spider, Page.of("x"))


async def test_an_item_over_the_limit_of_size_is_set_aside_and_cut():
    outcome = await items_of({"id": 1, "text": "x" * (9 * 2**20)}, {"id": 2})

    assert outcome.items == [{"id": 2}]
    [rejected] = outcome.rejected
    assert rejected.field == "text"
    assert "the limit is 8,388,608" in rejected.reason
    assert rejected.item["id"] == 1
    assert len(rejected.item["text"]) < 1000


def nested(levels):
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "bad",
    [nested(850), {"half \ud83d": 1}, {"a": "\udc00"}, 2**64, [-(2**63) - 1]],
    ids=["nested", "key", "value", "huge", "small"],
)
async def test_whatever_cannot_be_stored_is_set_aside_in_a_form_that_can(bad):
    outcome = await items_of({"bad": bad, "good": 1}, {"good": 2})

    assert outcome.items == [{"good": 2}]
    [rejected] = outcome.rejected
    assert rejected.field == "bad"
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(rejected.item))["good"] == 1


async def test_the_reason_of_a_hook_may_be_any_text():
    spider = make_spider()

    @spider.on_item
    def hook(item, page):
        raise Drop("half \ud83d")

    [rejected] = (await items_of({"good": 1}, spider=spider)).rejected

    msgspec.msgpack.encode((rejected.field, rejected.reason))


async def test_a_request_that_carries_too_much_blames_its_handler():
    def handler(page):
        yield page.follow("/next", meta={"text": "x" * 300_000})

    error = await failure(handler)

    assert "300,0" in error.reason
    assert "the limit is 262,144" in error.reason
    assert "yield page.follow" in str(error.place)
