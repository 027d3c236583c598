"""The default spider: title, text, links and status of any page (B2), and `skitter new`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from skitter.cli.commands.prepare import render_new
from skitter.errors import BadJobName
from skitter.settings import Limits
from skitter.spider import Scope, default_spider, load_spider, run_handler
from skitter.spider.default import visible_text
from skitter.spider.page import Page

URL = "https://shop.example/"
HTML = """<!doctype html><html><head><title> A
  shop </title><style>p { color: red }</style></head>
<body><script>var x = "<p>no</p>";</script><h1>Welcome</h1><p>Buy <b>bo</b>oks.</p>
<a href=/a>A</a> <a href=/a#b>B</a> <a href=https://else.example/>C</a></body></html>"""


async def describe(page: Page, **options):
    return await run_handler(default_spider("crawl", [URL], **options), page)


async def test_a_page_gives_url_title_text_links_and_status_and_its_links_are_followed():
    outcome = await describe(Page.of(HTML, url=URL, status=404))
    assert outcome.items == [
        {
            "url": URL,
            "title": "A shop",
            "text": "Welcome\n\nBuy books.\n\nA B C",
            "links": ["https://shop.example/a", "https://else.example/"],
            "status": 404,
        }
    ]
    [request] = outcome.requests
    assert (request.url, request.depth, request.parent) == ("https://shop.example/a", 1, URL)
    assert [url for url, _ in outcome.refused] == ["https://else.example/"]


@pytest.mark.parametrize(
    ("content_type", "body", "text"),
    [
        (
            "text/plain; charset=utf-8",
            "caf\u00e9 \n <a href=/x>".encode(),
            "caf\u00e9 \n <a href=/x>",
        ),
        ("text/css", b"p { }", "p { }"),
        ("application/pdf", b"%PDF-1.7 <a href=/x>", ""),
        ("image/png", bytes(range(256)), ""),
        ("application/json", b'{"a": 1}', ""),
    ],
)
async def test_a_page_that_is_not_html_has_no_title_and_its_text_if_it_is_text(
    content_type, body, text
):
    outcome = await describe(Page.of(body, url=URL, headers={"content-type": content_type}))
    assert outcome.items == [{"url": URL, "title": None, "text": text, "links": [], "status": 200}]
    assert outcome.requests == []


async def test_an_empty_answer_is_an_item_too():
    outcome = await describe(Page.of(b"", url=URL, status=500))
    assert outcome.items == [{"url": URL, "title": None, "text": "", "links": [], "status": 500}]


async def test_scope_and_depth_are_the_callers():
    outcome = await describe(Page.of(HTML, url=URL), scope=Scope(hosts=["*"]))
    assert len(outcome.requests) == 2
    outcome = await describe(Page.of(HTML, url=URL), limits=Limits(max_depth=0))
    assert outcome.requests == []


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>J<b>oh<i>n</i></b></p>Doe<br>x<hr>y", "John Doe x y"),
        ("<ul><li>a<li>b</ul><table><tr><td>c<td>d</table>", "a b c d"),
        (
            "<body>a<noscript><p>no</p></noscript><template>no</template><svg><title>no</svg>b",
            "a b",
        ),
        ("<body>a<script>no</script>b", "a b"),
        ("a&nbsp;b&amp;c\u200b", "a b&c\u200b"),
        ("<div>" * 3000 + "deep", "deep"),
        ("<frameset><frame>", ""),
        ("", ""),
    ],
)
def test_visible_text_is_what_a_reader_sees(html, text):
    page = Page.of(html)
    before = page.tree.html
    assert visible_text(page) == text
    assert page.tree.html == before


# --- skitter new ----------------------------------------------------------------------------------


NEW = ["books", "my-shop.v2", "2shop"]


@pytest.mark.parametrize("name", NEW)
def test_a_new_spider_loads(name, tmp_path):
    for path, text in render_new(name).items():
        (tmp_path / path).write_text(text)
        compile(text, path, "exec")
        assert "%" not in text
    spider_file = next(path for path in render_new(name) if not path.startswith("test_"))
    assert load_spider(tmp_path / spider_file).name == name


def test_the_tests_of_new_spiders_pass(tmp_path):
    """Side by side, in one process: it takes a second to begin."""
    for path, text in (pair for name in NEW for pair in render_new(name).items()):
        (tmp_path / path).write_text(text)
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:valkey", "-p", "no:cacheprovider"]
    done = subprocess.run([*run, str(tmp_path)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{2 * len(NEW)} passed" in done.stdout


def test_a_new_spider_needs_a_name_that_a_job_can_have():
    with pytest.raises(BadJobName):
        render_new("../evil")
