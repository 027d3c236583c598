"""A spider that is made by a function has the function's parameters as its arguments."""

from __future__ import annotations

import pytest

from skitter.errors import SpiderError
from skitter.spider import load_spider, load_transform

FILE = """
from typing import Literal
from skitter import Spider

def spider(category: str = "all", pages: int = 3, tags: list[str] = (), deep: bool = False,
           order: Literal["up", "down"] = "up") -> Spider:
    made = Spider("books", start=[f"https://books.test/{category}"])

    @made.page
    def listing(page):
        yield {"category": category, "pages": pages}

    @made.transform
    def tidy(item):
        return {**item, "pages": pages}

    made.said = (category, pages, list(tags), deep, order)
    return made
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "books.py"
    path.write_text(FILE)
    return path


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, ("all", 3, [], False, "up")),
        ({"pages": "5", "category": "7"}, ("7", 5, [], False, "up")),
        ({"tags": "a, b"}, ("all", 3, ["a", "b"], False, "up")),
        ({"deep": "true", "order": "down"}, ("all", 3, [], True, "down")),
        ({"pages": 5, "tags": ["a"]}, ("all", 5, ["a"], False, "up")),
    ],
)
def test_arguments_have_the_types_of_the_parameters(file, given, said):
    for target in (file, f"{file}:spider"):
        assert load_spider(target, given).said == said  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"pags": "3"}, "has no argument 'pags': did you mean pages?"),
        ({"colour": "3"}, "it takes category, pages, tags, deep, order."),
        ({"pages": "many"}, "argument pages must be int, got 'many'"),
        ({"deep": "perhaps"}, "argument deep must be bool, got 'perhaps'"),
        ({"order": "left"}, "argument order must be"),
    ],
)
def test_a_mistake_is_one_sentence(file, given, says):
    with pytest.raises(SpiderError) as caught:
        load_spider(file, given)

    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_argument_without_a_default_is_needed(tmp_path):
    path = tmp_path / "s.py"
    path.write_text("from skitter import Spider\ndef spider(shop: str) -> 'Spider': ...\n")

    with pytest.raises(SpiderError, match="add -a shop=VALUE"):
        load_spider(path)
    with pytest.raises(SpiderError, match="must return a Spider"):
        load_spider(path, {"shop": "x"})


def test_a_spider_without_arguments_takes_none(tmp_path):
    path = tmp_path / "s.py"
    path.write_text(
        "from skitter import Spider\nspider = Spider('x')\n@spider.page\ndef one(page): ...\n"
    )

    with pytest.raises(SpiderError, match="takes no arguments"):
        load_spider(path, {"a": "1"})


def test_what_fails_while_it_is_made_is_told_by_its_line(tmp_path):
    path = tmp_path / "s.py"
    path.write_text("from skitter import Spider\n\ndef spider() -> Spider:\n    return 1 / 0\n")

    with pytest.raises(SpiderError, match=r"s\.py.*line 4|s\.py:4"):
        load_spider(path)


def test_the_loader_makes_it_with_the_same_arguments(file):
    assert load_transform(file, {"pages": "9"})({"pages": 1}) == {"pages": 9}
