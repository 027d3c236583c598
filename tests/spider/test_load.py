"""load_spider: files and modules as users have them, and what is said about the broken ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from skitter.errors import SpiderError
from skitter.spider import load_spider

GOOD = """
from skitter.spider import Spider

spider = Spider("books", ["https://shop.example/"])

@spider.page
def listing(page):
    yield {}
"""


@pytest.fixture(autouse=True)
def own_imports(monkeypatch, tmp_path):
    """Each test imports from its own directory, and leaves nothing imported behind."""
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    yield
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(text))
    return path


def refusal(target: str | Path) -> str:
    with pytest.raises(SpiderError) as caught:
        load_spider(target)
    assert "skitter/spider/" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("target", ["books.py", "./books.py", "books", "books:spider"])
def test_a_spider_loads_from_a_file_or_a_module(tmp_path, target):
    write(tmp_path / "books.py", GOOD)
    assert load_spider(target).name == "books"


def test_a_spider_loads_from_an_absolute_path_and_from_a_package(tmp_path):
    path = write(tmp_path / "shop" / "books.py", GOOD)
    write(tmp_path / "shop" / "__init__.py", "")
    assert load_spider(path).name == "books"
    assert load_spider(f"{path}:spider").name == "books"
    assert load_spider("shop.books").name == "books"
    assert load_spider("shop.books:spider").name == "books"


def test_a_spider_may_import_what_lies_beside_it_and_be_called_as_a_standard_module(tmp_path):
    write(tmp_path / "far" / "beside_it.py", "NAME = 'books'")
    write(
        tmp_path / "far" / "json.py", GOOD.replace('"books"', "NAME") + "\nimport json\njson.loads"
    )
    path = tmp_path / "far" / "json.py"
    path.write_text("from beside_it import NAME\n" + path.read_text())
    assert load_spider("far/json.py").name == "books"


def test_dataclasses_in_a_spider_file_work(tmp_path):
    write(
        tmp_path / "books.py",
        """
        from __future__ import annotations
        from dataclasses import dataclass
        from skitter.spider import Spider

        @dataclass
        class Book:
            title: str

        spider = Spider("books", ["https://shop.example/"], item=Book)

        @spider.page
        def listing(page):
            yield Book("x")
        """,
    )
    assert load_spider("books.py").item.__name__ == "Book"


def test_a_missing_environment_variable_blames_the_line_that_asks_for_it(tmp_path):
    write(tmp_path / "books.py", "import os\nKEY = os.environ['SKITTER_TEST_NOT_SET']\n")
    with pytest.raises(SpiderError, match=r"books.py:2: KEY = os.environ") as caught:
        load_spider("books.py")
    assert "frozen" not in str(caught.value)


def test_one_spider_under_two_names_is_one(tmp_path):
    write(tmp_path / "books.py", GOOD + "\nalias = spider\n")
    assert load_spider("books.py").name == "books"


TWO = GOOD + "\nother = Spider('others', ['https://x.example/'])\nother.page(listing)\n"


def test_several_spiders_need_a_name(tmp_path):
    write(tmp_path / "books.py", TWO)
    assert "choose one with books.py:spider or books.py:other" in refusal("books.py")
    assert load_spider("books.py:other").name == "others"
    assert load_spider("books.py:others").name == "others"
    assert "no spider 'nobody' in books.py; it has spider, other" in refusal("books.py:nobody")


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("absent.py", "there is no file absent.py"),
        ("https://a.test/", "`skitter crawl URL` needs none"),
        ("absent/spider.py", "there is no file absent/spider.py"),
        ("absent", "there is no module 'absent'"),
        ("absent.deep:spider", "there is no module 'absent'"),
        ("books.py:", "does not name a spider"),
        (":spider", "does not name a spider"),
        ("folder", "is not a file"),
        ("notes.txt", "is not a Python file"),
        ("..", "is not a file"),
    ],
)
def test_a_target_that_is_not_there_is_named(tmp_path, target, said):
    (tmp_path / "folder").mkdir()
    (tmp_path / "notes.txt").write_text("")
    assert said in refusal(target)


def test_an_error_shows_the_users_own_line_and_the_exception(tmp_path):
    write(tmp_path / "books.py", "import os\n\nprice = int('dear')  # here\n")
    said = refusal("books.py")
    assert "books.py:3: price = int('dear')  # here" in said
    assert "ValueError: invalid literal for int()" in said


def test_an_option_of_a_table_is_told_where_it_belongs(tmp_path):
    (tmp_path / "deep.py").write_text(
        'from skitter import Spider\nspider = Spider("deep", max_depth=3)\n'
    )
    with pytest.raises(SpiderError, match=r"deep.py:2: .*\n.*\n  write limits=Limits\(max_depth="):
        load_spider(tmp_path / "deep.py")


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ('Spider("x", politeness=Politeness(delay=1))', r"\n  did you mean delay_s\?$"),
        ('Spider("x", politnes=None)', r"\n  did you mean politeness\?$"),
        ('Spider("x", colour="red")', "argument 'colour'$"),
        (
            'Spider("x", scope=skitter.Scope(includes=[]))',
            r"argument 'includes'(\. Did you mean 'include'\?)?$",  # says Python 3.13
        ),
    ],
)
def test_a_misspelled_option_is_answered_with_the_right_one(tmp_path, line, hint):
    file = tmp_path / "typo.py"
    file.write_text(f"import skitter\nfrom skitter import Politeness, Spider\nspider = {line}\n")
    with pytest.raises(SpiderError, match=hint):
        load_spider(file)


def test_an_error_of_ours_is_shown_at_the_users_line(tmp_path):
    write(tmp_path / "books.py", GOOD.replace("https://shop.example/", "shop.example"))
    said = refusal("books.py")
    assert 'books.py:4: spider = Spider("books", ["shop.example"])' in said
    assert "BadURL: cannot use 'shop.example' as a URL: it has no scheme" in said


def test_an_error_in_a_file_beside_it_is_shown_at_its_own_line(tmp_path):
    write(tmp_path / "beside_broken.py", "1 / 0")
    write(tmp_path / "books.py", "import beside_broken\n")
    said = refusal("books.py")
    assert "beside_broken.py:1: 1 / 0" in said
    assert "ZeroDivisionError" in said


@pytest.mark.parametrize(
    ("source", "line", "said"),
    [
        (b"x = 1\ndef broken(:\n", "books.py:2: def broken(:", "SyntaxError: "),
        (b"x = 1\n    y = 2\n", "books.py:2: y = 2", "IndentationError: unexpected indent"),
        (b"x = 'caf\xe9'\n", "books.py", "SyntaxError: "),
        (b"x = 1\x00\n", "books", "null bytes"),
        (b"import sys\nsys.exit('bye')\n", "books.py:2: sys.exit('bye')", "SystemExit: bye"),
        (b"import nowhere_at_all\n", "books.py:1", "ModuleNotFoundError: No module named"),
        (b"raise KeyError\n", "books.py:1: raise KeyError", "KeyError"),
    ],
)
@pytest.mark.parametrize("target", ["books.py", "books"])
def test_a_file_that_does_not_import_shows_where(tmp_path, source, line, said, target):
    (tmp_path / "books.py").write_bytes(source)
    message = refusal(target)
    assert line in message
    assert said in message


def test_a_file_that_failed_can_be_loaded_when_it_is_repaired(tmp_path):
    write(tmp_path / "books.py", "1 / 0")
    refusal("books.py")
    write(tmp_path / "books.py", GOOD)
    assert load_spider("books.py").name == "books"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("x = 1\n", "there is no spider in books.py"),
        ("def spider(): ...\n", "or a function `def spider() -> Spider` that returns one"),
        (GOOD.replace("@spider.page", ""), "has no handler: decorate a function"),
        (
            GOOD.replace('["https', '[Request(url="https').replace('/"]', '/", handler="typo")]')
            + "\n",
            "no handler 'typo'; it has listing",
        ),
    ],
)
def test_a_file_without_a_working_spider_says_what_is_missing(tmp_path, source, said):
    write(tmp_path / "books.py", "from skitter.model import Request\n" + source)
    assert said in refusal("books.py")


def test_a_file_beside_the_spider_is_its_own_and_nobody_elses(tmp_path):
    """In front of everything while the spider loads, behind everything afterwards."""
    (tmp_path / "protego.py").write_text("raise SystemExit('executed')")
    (tmp_path / "beside.py").write_text("URL = 'https://a.test/'")
    (tmp_path / "lately.py").write_text("URL = 'https://b.test/'")
    (tmp_path / "shop.py").write_text(
        "from beside import URL\nfrom skitter import Spider\n"
        "spider = Spider('shop', [URL])\n@spider.page\ndef page(page): pass\n"
    )
    code = (
        "import sys; from skitter.spider import load_spider; load_spider(sys.argv[1]);"
        "import lately, protego; print(protego.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, "shop.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "site-packages" in done.stdout
