"""What a page says: its main part, its tables, its data, and pages that would take too long."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from skitter.spider import default_spider, run_handler
from skitter.spider.default import Format
from skitter.spider.page import LibraryMissing, Page, TooComplex

URL = "https://shop.example/books/1"
AROUND = """<div class="cookie-banner"><p>We use cookies. Accept them all?</p></div>
<header><a href=/>Shop</a></header>
<nav><ul><li><a href=/a>Novels</a><li><a href=/b>Poems</a></ul></nav>
{main}<footer><p>Imprint and copyright</p></footer>"""
ARTICLE = """<html lang="pt_BR"><head><title>A book</title>
<meta property="og:title" content="A Book"><meta name="twitter:card" content="summary">
<meta property="article:published_time" content="2025-03-04T10:00:00Z">
<script type="application/ld+json">{"@context": "https://schema.org", "@graph": [
 {"@type": "WebSite", "name": "Shop"},
 {"@type": ["Product", "Book"], "name": "Dune", "offers": {"@type": "Offer", "price": "9.50"}}]}
</script></head><body>""" + AROUND.format(
    main="""<main><h1>Dune&nbsp;I</h1><p>The first paragraph has <b>words</b> and
a <a href="../more">link</a> that leads somewhere else in this shop.</p><p>The second paragraph.</p>
<ul><li>one</li><li>two</li></ul><pre>x = 1
y = 2</pre><table><tr><th>Year<th>Pages<tr><td>1965<td>412<tr><td>1969<td>256</table></main>"""
)
MARKDOWN = """# Dune I

The first paragraph has **words** and a [link](https://shop.example/more) that leads somewhere \
else in this shop.

The second paragraph.

- one
- two

```
x = 1
y = 2
```

| Year | Pages |
| --- | --- |
| 1965 | 412 |
| 1969 | 256 |"""


def test_the_main_part_is_markdown_without_menus_banners_and_footers():
    page = Page.of(ARTICLE, url=URL)

    assert page.markdown() == MARKDOWN
    whole = page.markdown(main=False)
    assert all(part in whole for part in ("Novels", "cookies", "Imprint", "Dune I"))


def test_lists_in_the_columns_of_a_table_stay_lists():
    values = "<table><tr><th>Year<tr><td>1965</table>"
    columns = f"<td><ul><li><a href=/i>I</a><ul><li>(in re)</ul></ul><td><h2>J</h2>{values}"
    page = Page.of(f"<body><h1>Index</h1><table><caption>A to J<tr>{columns}</table>", url=URL)

    assert page.markdown().split("\n\n") == [
        "# Index",
        "A to J",
        "- [I](https://shop.example/i)\n  - (in re)",
        "## J",
        "| Year |\n| --- |\n| 1965 |",
    ]
    assert page.main_text.splitlines()[-1] == "1965"


def test_the_main_text_keeps_its_parts_apart():
    text = Page.of(ARTICLE, url=URL).main_text

    lines = text.splitlines()
    assert lines[0] == "Dune I"
    assert "The second paragraph." in lines
    assert "- one" in lines
    assert "y = 2" in lines
    assert not any(word in text for word in ("Novels", "cookies", "Imprint"))


@pytest.mark.parametrize(
    ("markup", "said"),
    [
        ("<ul><pre><li>one<li>two</pre></ul>", ["- one", "- two"]),
        ("<ul>Then <b>add</b> salt.<li>one<li>two</ul>", ["- Then add salt.", "- one", "- two"]),
        ("<ol><h3>Steps</h3><li>one</li></ol>", ["Steps", "one"]),
        ("<td><ul><a>one</a><ul><li>two</ul></ul>", ["- one", "- two"]),
        (
            "<table><caption>Prices</caption><tr><th>a<th>b<tr><td>1<td>2</table>",
            ["Prices", "1 | 2"],
        ),
    ],
)
def test_text_beside_the_items_of_a_list_and_captions_are_not_lost(markup: str, said: list[str]):
    text = Page.of(f"<h1>Dune</h1>{markup}").main_text

    assert [line for line in said if line not in text] == []


@pytest.mark.parametrize("tag", ['section id="menus"', 'div class="section" id="menus"'])
def test_a_chapter_on_menus_is_no_menu(tag: str):
    page = Page.of(f"""<main><h1>Windows</h1><p>{"A long chapter. " * 20}</p>
        <{tag}><h2><span id="menus">Menus</span></h2><p>They open downwards.</p></main>""")

    assert page.main_text.endswith("Menus\n\nThey open downwards.")


def test_its_data_are_plain_dicts():
    page = Page.of(ARTICLE, url=URL)

    product = page.data.first("Product")
    assert product == {
        "@type": ["Product", "Book"],
        "name": "Dune",
        "offers": {"@type": "Offer", "price": "9.50"},
    }
    assert page.data.first("Offer") == {"@type": "Offer", "price": "9.50"}
    assert page.data.first("Event") is None
    assert page.data.opengraph["title"] == "A Book"
    assert page.data.twitter == {"card": "summary"}
    assert (page.language, page.published) == ("pt-br", "2025-03-04")


def test_microdata_are_plain_dicts_too():
    page = Page.of("""<div itemscope itemtype="https://schema.org/Product"><b itemprop=name>Dune</b>
    <i itemprop=tag>a</i><i itemprop=tag>b</i></div>""")

    assert page.data.first("Product") == {"@type": "Product", "name": "Dune", "tag": ["a", "b"]}


def test_rows_of_tables_are_dicts_and_no_column_hides_another():
    page = Page.of("""<table><tr><th>A<th>A<th><tr><td>1<td>2<td>3</table>
    <table><tr><td>alone</table>""")

    assert page.tables() == [[{"A": "1", "A 2": "2", "3": "3"}]]


@pytest.mark.parametrize("content", ["", "<p>", "<nav>only <a href=/>menus</a></nav>", "\0<", "<!"])
def test_a_page_without_a_main_part_is_no_error(content):
    page = Page.of(content)

    assert page.main_text == page.main_text.strip()
    assert (page.markdown(), page.tables(), page.data.as_dict()) == (page.markdown(), [], {})
    assert (page.language, page.published) == (None, None)


def test_what_is_not_html_has_only_its_text():
    page = Page.of(
        b"*a*\n\nb", headers={"content-type": "text/plain", "content-language": "de, en"}
    )
    picture = Page.of(b"\x89PNG", headers={"content-type": "image/png"})

    assert (page.main_text, page.markdown(), page.language) == ("*a*\n\nb", "*a*\n\nb", "de")
    assert (picture.main_text, picture.tables(), picture.data.as_dict()) == ("", [], {})


#: Formatting that is repeated in each paragraph: both take more memory than the helper may use.
REPEATED = "".join(f"<p><font color={n}>" for n in range(5000))
BODIES = "".join(f"<body a{n}=1>" for n in range(50_000))


@pytest.mark.parametrize("hostile", [REPEATED, BODIES], ids=["formatting", "bodies"])
def test_a_page_that_takes_too_much_is_refused_and_costs_no_other(hostile):
    for read in (lambda page: page.main_text, Page.markdown, Page.tables, lambda page: page.data):
        with pytest.raises(TooComplex, match="too much time or memory"):
            read(Page.of(hostile))

    honest = Page.of("<p>text<br>" * 5000)  # tried as well
    assert len(honest.main_text.split()) == 5000


def test_without_the_library_the_command_that_installs_it_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "turbohtml", None)
    monkeypatch.delitem(sys.modules, "skitter.fetch.html.content", raising=False)
    monkeypatch.delattr("skitter.fetch.html.content", raising=False)

    with pytest.raises(LibraryMissing, match=r"pip install .*\[content\]"):
        Page.of(ARTICLE).markdown()
    with pytest.raises(LibraryMissing, match="pip install"):
        default_spider("crawl", [URL], format=Format.MARKDOWN)
    with pytest.raises(LibraryMissing, match="--format raw-text needs none"):
        default_spider("crawl", [URL])
    default_spider("crawl", [URL], format=Format.RAW_TEXT)


@pytest.mark.parametrize(
    ("format", "said"),
    [
        (Format.MARKDOWN, {"markdown": MARKDOWN}),
        (Format.HTML, {"html": ARTICLE}),
        (Format.TEXT, {"text": Page.of(ARTICLE, url=URL).main_text}),
    ],
)
async def test_each_format_has_its_field(format, said):
    spider = default_spider("crawl", [URL], format=format)

    output = await run_handler(spider, Page.of(ARTICLE, url=URL))

    links = ["/", "/a", "/b", "/more"]
    whole = {"url": URL, "title": "A book", "status": 200}
    whole["links"] = [f"https://shop.example{one}" for one in links]
    assert output.items == [whole | said]
    assert len(output.requests) == 4  # also those of the menu


async def test_other_pages_go_on_while_one_is_read_apart():
    page, turns = Page.of("<p>text<br>" * 5000, url=URL), 0  # not certain to be cheap
    reading = asyncio.create_task(page.find("main_text"))
    while not reading.done():
        turns += 1
        await asyncio.sleep(0)

    assert turns > 2
    assert set(page._found) == {"main_text"}
    assert len(page.main_text.split()) == 5000


async def test_a_page_that_takes_too_much_is_asked_only_once():
    page = Page.of(f"<body>{BODIES}", url=URL)
    await page.find("main_text", "markdown")

    assert all(isinstance(one, TooComplex) for one in page._found.values())
    with pytest.raises(TooComplex):
        page.markdown()


async def test_data_have_language_and_day():
    spider = default_spider("crawl", [URL], format=Format.DATA)

    [item] = (await run_handler(spider, Page.of(ARTICLE, url=URL))).items

    assert (item["language"], item["published"]) == ("pt-br", "2025-03-04")
    assert item["data"]["json_ld"][0]["name"] == "Shop"


async def test_a_page_that_cannot_be_read_is_rejected_and_its_links_are_followed():
    spider = default_spider("crawl", [URL], format=Format.MARKDOWN)
    page = Page.of(f"<body><a href=/next>next</a>{BODIES[: len(BODIES) // 2]}", url=URL)
    page._is_parsable = True  # half a second for the parser that finds links

    output = await run_handler(spider, page)

    assert output.items == []
    assert "could not be read" in output.rejected[0].why
    assert [one.url for one in output.requests] == ["https://shop.example/next"]


#: Of the packages that tests install anyway: written by hand, from what a browser shows.
REAL = Path("/usr/share/doc/valgrind/html/mc-manual.html")


@pytest.mark.skipif(not REAL.exists(), reason="needs the Debian package valgrind")
def test_a_real_page_of_documentation():
    page = Page.of(REAL.read_bytes(), headers={"content-type": "text/html"}, url=URL)

    text, markdown = page.main_text, page.markdown()

    assert markdown.startswith("# 4. Memcheck: a memory error detector")
    assert "Memcheck is a memory error detector." in " ".join(text.split())
    assert "&#160;" not in markdown
    assert "](mc-manual.html" not in markdown
