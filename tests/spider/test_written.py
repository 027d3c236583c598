"""Main text against a written truth: forty pages of ten kinds, in the folder `written`, on which
somebody has marked what a reader came for, between ⟦ and ⟧."""

from __future__ import annotations

import html
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skitter.spider.page import Page

if TYPE_CHECKING:
    from collections.abc import Callable

#: Of trafilatura 2.3.1: as it comes, and with favor_recall.
THEIRS = 0.924, 0.935
_WORDS = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]|[^\W_]+")  # Japanese: characters
_NUMBERS = re.compile(r"^\s*\d+\. ", re.MULTILINE)  # of lists, which only some write out


def words(text: str) -> Counter[str]:
    return Counter(_WORDS.findall(_NUMBERS.sub("", text).lower()))


def truth_of(marked: str) -> str:
    said = " ".join(re.findall("⟦(.*?)⟧", marked, re.DOTALL))
    return html.unescape(re.sub(r"<[^>]+>", " ", said))


def read_pages() -> dict[str, str]:
    found: dict[str, str] = {}
    for file in sorted((Path(__file__).parent / "written").glob("*.html")):
        _, *parts = re.split(r"^=== (\w+)\n", file.read_text(), flags=re.MULTILINE)
        found |= {
            f"{file.stem}/{name}": page for name, page in zip(parts[::2], parts[1::2], strict=True)
        }
    return found


PAGES = read_pages()


def score(found: str, truth: str) -> float:
    """F1: the harmonic mean of how much is right, and how much of the right is there."""
    ours, theirs = words(found), words(truth)
    return 2 * (ours & theirs).total() / (ours.total() + theirs.total())


def scores(read: Callable[[str], str]) -> dict[str, float]:
    return {
        name: score(read(re.sub("[⟦⟧]", "", page)), truth_of(page)) for name, page in PAGES.items()
    }


def mean(found: dict[str, float]) -> float:
    return sum(found.values()) / len(found)


def test_the_main_text_is_nearer_to_the_truth_than_that_of_trafilatura():
    found = scores(lambda page: Page.of(page).main_text)
    assert len(found) == 40
    worst = sorted(found, key=found.__getitem__)[:5]
    assert mean(found) > 0.955 > max(THEIRS), {name: found[name] for name in worst}
    assert min(found.values()) > 0.8, worst[0]


def test_the_proof_notices_menus_and_a_missing_half():
    everything = scores(lambda page: Page.of(page).markdown(main=False))
    half = scores(lambda page: (text := Page.of(page).main_text)[: len(text) // 2])
    assert max(mean(everything), mean(half)) < 0.8


def test_what_trafilatura_finds_is_as_noted():
    """If it is installed: it brings a third parser."""
    extract = pytest.importorskip("trafilatura").extract
    for recall, noted in zip((False, True), THEIRS, strict=True):
        found = scores(lambda page, r=recall: extract(page, favor_recall=r) or "")  # type: ignore[misc]
        assert mean(found) == pytest.approx(noted, abs=0.02)
