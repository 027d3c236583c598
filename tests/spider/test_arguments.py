"""A spider that is made by a function has the function's parameters as its arguments."""

from __future__ import annotations

import pytest

from skitter.errors import SpiderError
from skitter.spider import load_spider, load_transform

FILE = """
from __future__ import annotations
from enum import Enum
from typing import TYPE_CHECKING, Literal
import skitter
if TYPE_CHECKING:
    from skitter import Spider

class Colour(Enum):
    RED = "red"
    BLUE = "blue"

def spider(category: str = "all", pages: int = 3, tags: list[str] = (), deep: bool = False,
           order: Literal["up", "down"] = "up", colour: Colour = Colour.RED,
           most: int | None = 9, sizes: list[int] | None = None) -> Spider:
    made = skitter.Spider("books", start=[f"https://books.test/{category}"])

    @made.page
    def listing(page):
        yield {"category": category, "pages": pages}

    @made.transform
    def tidy(item):
        return {**item, "pages": pages}

    made.said = (category, pages, list(tags), deep, order)
    made.rare = (colour.value, most, sizes)
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
    ("given", "rare"),
    [
        ({}, ("red", 9, None)),
        ({"colour": "blue", "most": "none", "sizes": "1, 2"}, ("blue", None, [1, 2])),
        ({"most": "4", "sizes": "None"}, ("red", 4, None)),
    ],
)
def test_enums_none_and_lists_that_may_be_missing(file, given, rare):
    assert load_spider(file, given).rare == rare  # type: ignore[attr-defined]


@pytest.mark.parametrize("word", ["yes", "on", "1", "True"])
def test_truth_is_spelled_as_in_settings(file, word):
    assert load_spider(file, {"deep": word}).said[3] is True  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"pags": "3"}, "has no argument 'pags': did you mean pages?"),
        ({"weight": "3"}, "it takes category, pages, tags, deep, order, colour"),
        ({"pages": "many"}, "argument pages must be a whole number, got 'many'"),
        ({"deep": "perhaps"}, "argument deep must be true or false, got 'perhaps'"),
        ({"order": "left"}, "argument order must be up or down, got 'left'"),
        ({"colour": "green"}, "argument colour must be red or blue, got 'green'"),
        ({"most": "few"}, "argument most must be a whole number or none, got 'few'"),
        ({"sizes": "1,x"}, "argument sizes must be list[int] or none, got '1,x'"),
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
