"""What a crawl stored is read back in a script or a notebook."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from importlib.util import find_spec

import pytest

import skitter
from crawl.sites import serving
from skitter import Politeness, Spider
from skitter.errors import JobMissing, UsageError

PAGES = {"/": "<a href='/1'>1</a><a href='/2'>2</a>", "/1": "one", "/2": "two"}


@pytest.fixture(scope="module")
def site():
    with serving(PAGES) as url:
        yield url


def make_spider(name, site) -> Spider:
    spider = Spider(name, [f"{site}/"], politeness=Politeness(delay_s=0))

    @spider.page
    def page(page):
        yield {"path": page.url.removeprefix(site), "links": len(page.links())}
        yield from page.follow_all()

    return spider


ROWS = [("/", 2), ("/1", 0), ("/2", 0)]


def seen(rows):
    return sorted((row["path"], row["links"]) for row in rows)


@pytest.mark.parametrize("suffix", [".db", ".jsonl", ".csv"])
async def test_rows_are_read_back_from_every_kind_of_output(
    site, server_url, job, tmp_path, monkeypatch, suffix
):
    monkeypatch.setenv("SKITTER_DIR", str(tmp_path / "own"))
    out = str(tmp_path / f"rows{suffix}")
    report = await make_spider(job, site).run(out, redis=server_url)

    assert (report.items, report.exit_code) == (3, 0)
    assert seen(report.items()) == ROWS
    assert seen(skitter.items(job, redis=server_url)) == ROWS  # although a loop is running
    assert seen(skitter.items(job, out)) == ROWS
    assert {row["_url"] for row in report.items()} == {f"{site}{path}" for path in PAGES}
    again = await make_spider(job, site).run(out, redis=server_url)  # nothing left to do
    assert (again.pages_now, seen(again.items())) == (0, ROWS)


async def test_a_job_that_does_not_exist_or_has_no_rows_says_so(server_url, server, job, frontier):
    with pytest.raises(JobMissing):
        skitter.items("nobody", redis=server_url)
    with pytest.raises(UsageError, match="has stored nothing yet"):
        skitter.items(frontier.job, redis=server_url)


def test_rows_become_a_data_frame_where_there_is_a_library_for_it():
    from skitter.crawl.script import Items

    rows = Items([{"title": "one", "price": 1.0}, {"title": "two", "price": 2.0}])
    if not any(map(find_spec, ("pandas", "polars"))):
        with pytest.raises(UsageError, match="pip install pandas"):
            rows.df()
        return
    assert list(rows.df()["price"]) == [1.0, 2.0]


@dataclass
class Page_:
    path: str


@dataclass
class BigLink:
    path: str
    links: int


@pytest.mark.parametrize("suffix", [".db", ".jsonl", ".csv"])
async def test_items_of_several_types_are_told_apart_and_a_file_has_one_for_each(
    site, server_url, job, tmp_path, monkeypatch, suffix
):
    monkeypatch.setenv("SKITTER_DIR", str(tmp_path / "own"))
    spider = Spider(job, [f"{site}/"], politeness=Politeness(delay_s=0))

    @spider.page(item=BigLink)
    def first(page):
        yield {"path": "/", "links": 2}
        yield from page.follow_all(handler="other")

    @spider.page(item=Page_)
    def other(page):
        yield {"path": page.url.removeprefix(site)}

    out = tmp_path / f"shop{suffix}"
    report = await spider.run(str(out), redis=server_url)

    assert (report.exit_code, report.items) == (0, 3)
    links, pages = report.items().of("big_link"), report.items().of("page_")
    assert [(row["path"], row["links"]) for row in links] == [("/", 2)]
    assert sorted(row["path"] for row in pages) == ["/1", "/2"]
    assert all("links" not in row and "_type" not in row for row in pages)
    assert all(row["_fetched_at"].tzinfo is UTC for row in pages)
    files = {one.name: one.read_text().splitlines()[0] for one in tmp_path.glob("shop.*.csv")}
    own = "_id,_url,_fetched_at,path"
    per_type = {"shop.big_link.csv": f"{own},links", "shop.page_.csv": own}
    assert files == (per_type if suffix == ".csv" else {})
