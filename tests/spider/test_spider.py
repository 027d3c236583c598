"""Spider: registration, seeds and options."""

from __future__ import annotations

import pytest

import skitter
from skitter.errors import BadJobName, BadOption, BadURL, SpiderError
from skitter.model import Request
from skitter.settings import Limits, Politeness, resolve
from skitter.spider import Refused, Spider, run_handler
from skitter.spider.hooks import run_hooks
from skitter.spider.page import Page
from skitter.spider.seeding import offer_seeds

URL = "https://shop.example/"


def first(page): ...


def second(page): ...


async def seeds_of(spider: Spider) -> list[Request]:
    return [seed async for seed in spider.seeds()]


def test_the_first_handler_is_the_default():
    spider = Spider("shop", [URL])
    assert spider.page(first) is first
    spider.page(second)
    assert spider.handler_of(Request(url=URL)) == ("first", first)
    assert spider.handler_of(Request(url=URL, handler="second")) == ("second", second)


def test_another_handler_is_the_default_if_it_says_so():
    spider = Spider("shop", [URL])
    spider.page(first)
    assert spider.page(default=True)(second) is second
    assert spider.default == "second"


def test_two_defaults_are_one_too_many():
    spider = Spider("shop", [URL])
    spider.page(default=True)(first)
    with pytest.raises(SpiderError, match="two default handlers, first and second"):
        spider.page(default=True)(second)


def test_two_handlers_of_one_name_are_refused():
    spider = Spider("shop", [URL])
    spider.page(first)

    def other(page): ...

    other.__name__ = "first"
    with pytest.raises(SpiderError, match="are called first"):
        spider.page(other)


@pytest.mark.parametrize("function", [lambda page: None, 7, lambda: None])
def test_what_cannot_be_addressed_by_name_cannot_be_a_handler(function):
    with pytest.raises(SpiderError, match="cannot be a handler"):
        Spider("shop", [URL]).page(function)


def test_a_handler_takes_the_page_and_nothing_else():
    def greedy(page, response): ...

    with pytest.raises(SpiderError, match="greedy must take one argument"):
        Spider("shop", [URL]).page(greedy)


def test_a_spider_without_handlers_says_what_to_write():
    with pytest.raises(SpiderError, match=r"@spider\.page"):
        Spider("shop", [URL]).handler_of(Request(url=URL))


def test_options_are_of_their_type():
    with pytest.raises(BadOption, match=r"fetch must be a skitter\.FetchOptions"):
        Spider("shop", [URL], fetch={"user_agent": "x"})  # type: ignore[arg-type]


def test_options_reach_the_job():
    politeness, limits = Politeness(delay_s=0.5), Limits(max_pages=10)
    spider = Spider("shop", [URL], politeness=politeness, limits=limits)
    options = resolve(spider=spider.tables).job_options
    assert (options.politeness, options.limits) == (politeness, limits)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("no spaces", [URL]), BadJobName),
        (("shop", ["shop.example"]), BadURL),
        (("shop", "shop.example"), BadURL),
        (("shop", 7), BadOption),
        (("shop", [7]), BadURL),
    ],
)
def test_a_spider_that_cannot_start_is_refused_when_it_is_made(arguments, error):
    with pytest.raises(error):
        Spider(*arguments)


# --- seeds ----------------------------------------------------------------------------------------


def generate():
    yield URL
    yield Request(url=f"{URL}a", handler="second", priority=2)


async def generate_async():
    for seed in generate():
        yield seed


async def fetch_seeds():
    return list(generate())


@pytest.mark.parametrize("start", [list(generate()), generate, generate_async, fetch_seeds])
async def test_seeds_come_from_a_list_or_a_function(start):
    spider = Spider("shop", start)
    spider.page(first)
    spider.page(second)
    assert await seeds_of(spider) == [
        Request(url=URL),
        Request(url=f"{URL}a", handler="second", priority=2),
    ]


async def test_one_url_is_a_list_of_one():
    for start in (URL, lambda: URL):
        spider = Spider("shop", start)
        spider.page(first)
        assert await seeds_of(spider) == [Request(url=URL)]


async def test_a_generated_seed_is_checked_when_it_comes():
    spider = Spider("shop", lambda: iter(["nowhere"]))
    spider.page(first)
    with pytest.raises(BadURL):
        await seeds_of(spider)
    spider = Spider("shop", lambda: [Request(url=URL, handler="typo")])
    spider.page(first)
    with pytest.raises(SpiderError, match="no handler 'typo'; it has first"):
        await seeds_of(spider)


def test_the_fence_is_around_the_seeds_and_does_not_run_a_generator():
    assert not isinstance(Spider("shop", [URL]).fence.allows(f"{URL}x"), Refused)
    spider = Spider("shop", generate)
    assert isinstance(spider.fence.allows(f"{URL}x"), Refused)
    assert not isinstance(spider.fence.allows(f"{URL}x", parent=URL), Refused)


async def test_hooks_run_in_order_plain_and_async():
    spider = Spider("shop", [URL])
    calls = []

    @spider.on_error
    def log(request, error):
        calls.append(("log", request.url, error))

    @spider.on_error
    async def report(request, error):
        calls.append(("report", request.url, error))

    await run_hooks(spider.hooks.error, Request(url=URL), "lost")
    assert calls == [("log", URL, "lost"), ("report", URL, "lost")]
    assert spider.on_finish(first) is first
    assert spider.hooks.finish == [first]


@pytest.mark.parametrize(
    ("kind", "right", "wrong", "says"),
    [
        ("on_start", lambda: 0, lambda spider: 0, r"on_start hook <lambda> must take no arguments"),
        ("on_finish", lambda stats: 0, lambda: 0, r"write def <lambda>\(stats\)"),
        ("on_error", lambda request, error: 0, lambda error: 0, r"\(request, error\)"),
        ("on_item", lambda item, page: 0, lambda item: 0, r"\(item, page\)"),
        ("transform", lambda item: 0, lambda item, page: 0, r"def <lambda>\(item\)"),
        ("on_item", lambda *all_of_it: 0, lambda item, page, *, more: 0, r"\(item, page\)"),
    ],
)
def test_a_hook_with_other_arguments_is_refused_when_it_is_registered(kind, right, wrong, says):
    spider = Spider("shop", [URL])
    assert getattr(spider, kind)(right) is right
    with pytest.raises(SpiderError, match=says):
        getattr(spider, kind)(wrong)


def test_a_hook_that_shows_no_signature_is_taken_at_its_word():
    assert Spider("shop", [URL]).on_item(dict.update) is dict.update


def test_a_hook_is_a_function():
    with pytest.raises(SpiderError, match="decorate a function"):
        Spider("shop", [URL]).on_start("begin")  # type: ignore[type-var]


async def test_seeds_that_fail_show_the_users_line(frontier):
    def seeds():
        yield "https://a.test/"
        raise ValueError("no more")

    spider = Spider("s", seeds)
    spider.page(first)
    with pytest.raises(SpiderError, match=r'ValueError: no more \(.*: raise ValueError\("no more'):
        await offer_seeds(frontier, spider)


def test_a_request_takes_its_url_without_a_name():
    assert Request("https://a.test/", depth=1) == Request(url="https://a.test/", depth=1)


def test_a_spider_brings_settings_for_visits_and_quality():
    quality, visits = skitter.QualityOptions(min_pages=500), skitter.Visits(revisit=True)
    spider = Spider("books", quality=quality, visits=visits)
    config = resolve(job="books", spider=spider.tables)
    assert (config.quality, config.visits) == (quality, visits)
    with pytest.raises(BadOption, match=r"a skitter\.QualityOptions"):
        Spider("books", quality=visits)  # type: ignore[arg-type]


CELL = """
@spider.page(render={render})
def page(page):
    yield {{"version": {version}}}

@spider.on_item
def note(item, page):
    item["by"] = {version}
"""


def run_cell(spider, name, **values):
    """As notebooks do: each version of a cell has a file name of its own, without a file."""
    exec(compile(CELL.format(**values), name, "exec"), {"spider": spider})


async def test_a_cell_that_is_run_again_replaces_its_handler_and_its_hooks():
    spider = Spider("shop", [URL])
    for version, name in enumerate(["/tmp/ipykernel_1/1.py", "/tmp/ipykernel_1/1.py", "<cell 3>"]):
        run_cell(spider, name, version=version, render=version == 1)

        found = await run_handler(spider, Page.of(""))
        assert found.items == [{"version": version, "by": version}]
        assert bool(spider.renders) is (version == 1)

    assert (len(spider.handlers), len(spider.hooks.item)) == (1, 1)


def test_two_handlers_of_one_file_are_still_a_mistake():
    spider = Spider("shop", [URL])
    two = "@spider.page\ndef page(page): ...\n@spider.page\ndef page(page): ...\n"
    with pytest.raises(SpiderError, match="two handlers of spider 'shop' are called page"):
        exec(compile(two, "<cell 1>", "exec"), {"spider": spider})
