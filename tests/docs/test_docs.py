"""The documents are true: their code runs, generated pages are current, links lead somewhere."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path
from runpy import run_path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


def load_make_docs():
    spec = importlib.util.spec_from_file_location("make_docs", ROOT / "scripts" / "make_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", load_make_docs().PAGES)
def test_generated_pages_are_current(page):
    make_docs = load_make_docs()

    assert (make_docs.REFERENCE / page).read_text() == make_docs.PAGES[page](), "run `make docs`"


def test_the_python_reference_has_every_public_name_and_says_what_it_is():
    reference = run_path(str(ROOT / "scripts" / "python_reference.py"))

    assert reference["missing"]() == set()


def test_the_index_links_every_how_to():
    index = (ROOT / "docs" / "index.md").read_text()

    pages = [f"howto/{one.name}" for one in (ROOT / "docs" / "howto").glob("*.md")]
    assert [one for one in pages if f"({one})" not in index] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#]+)\)", page.read_text())

    missing = [one for one in targets if "://" not in one and not (page.parent / one).exists()]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_test_that_a_page_names_is_there(page):
    named = re.findall(r"tests/[\w/]+(?:\.py)?", page.read_text())

    assert [one for one in named if not (ROOT / one).exists()] == []


def test_pages_and_the_refusal_name_the_releases_of_scrapy_that_are_declared():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    [declared] = [one for one in extras["scrapy"] if one.startswith("scrapy>")]
    [(lowest, beyond)] = re.findall(r"^scrapy>=(2\.\d+),<2\.(\d+)$", declared)

    said = {
        (page.name, one)
        for page in [*PAGES, ROOT / "src/skitter/scrapy/internals.py"]
        for one in re.findall(r"Scrapy ([\d.]+ to [\d.]+\d)", page.read_text())
    }
    names = {"scrapy.md", "scrapy-redis.md", "internals.py"}
    assert names <= {name for name, _ in said}
    assert {one for _, one in said} == {f"{lowest} to 2.{int(beyond) - 1}"}
    tried = (ROOT / "tests/engine_scrapy/test_chaos.py").read_text()
    assert f'LOWEST = ("scrapy=={lowest}.' in tried


def test_lines_of_prose_are_short_enough_to_read_beside_code():
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")]
    long = [
        f"{page.name}:{number}"
        for page in pages
        if "reference" not in page.parts  # made from the code
        for number, line in enumerate(page.read_text().splitlines(), 1)
        if len(line) > 120 and not line.startswith(("|", "    ", "   user"))
    ]
    assert long == []
