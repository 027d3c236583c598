"""Pages are visited again; handlers see those that have changed."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import time
from contextlib import closing
from dataclasses import replace

import pytest

from archive.test_writer import warcs
from conftest import rude
from skitter.archive.index import Archive
from skitter.crawl.job_loader import Loader
from skitter.crawl.outputs import open_destination
from skitter.crawl.redo import Redo
from skitter.errors import BadOption
from skitter.frontier.audit.auditor import audit
from skitter.frontier.audit.why import why
from skitter.frontier.dead import Filter, dead_letters, revive
from skitter.frontier.items import ItemStream
from skitter.frontier.jobs import create_job
from skitter.settings import ArchiveOptions, Visits
from skitter.sinks import Destination
from skitter.sinks.columns import table_name
from skitter.spider import Spider
from waiting import until_async
from web import Answer, serve_web

DAY_S = 86_400


class Magazine:
    """Pages with an ETag, a date, or neither; `edition` changes them one by one."""

    def __init__(self) -> None:
        self.edition: dict[str, int] = {}
        self.answers: list[tuple[str, int]] = []

    def __call__(self, asked):
        answer = self._answer(asked)
        self.answers.append((asked.path, answer.status))
        return answer

    def _answer(self, asked):
        edition = self.edition.get(asked.path, 0)
        links = '<a href="/tagged"></a><a href="/dated"></a><a href="/plain"></a>'
        body = f"<html>{links if asked.path == '/' else ''}edition {edition}</html>"
        if asked.path == "/dated":
            date = f"Mon, 0{edition + 1} Jan 2024 00:00:00 GMT"
            if asked.headers.get("if-modified-since") == date:
                return Answer(status=304)
            return Answer(body, headers=(("Last-Modified", date),))
        if asked.path == "/plain":
            return Answer(body)
        etag = f'"{asked.path}-{edition}"'
        if asked.headers.get("if-none-match") == etag:
            return Answer(status=304)
        return Answer(body, headers=(("ETag", etag),))


@pytest.fixture
async def frontier(server, job, clock):
    options = replace(rude(), visits=Visits(revisit=True, revisit_gone=1))
    return await create_job(server, job, options=options, clock=clock)


@pytest.fixture
def handled():
    return []


@pytest.fixture
def spider(handled):
    spider = Spider("t", ["https://shop.test/"])

    @spider.page
    def page(page):
        previous = page.previous.visits if page.previous else 0
        handled.append((page.url.rpartition("/")[2], page.is_changed, previous))
        yield {"url": page.url}
        yield from page.follow_all()

    return spider


async def test_handlers_run_again_on_what_has_changed_only(frontier, clock, spider, handled):
    magazine = Magazine()
    async with serve_web(magazine) as web:
        spider.start = [web.url()]
        await web.crawl(frontier, spider)
        assert sorted(handled) == [
            ("", False, 0), ("dated", False, 0), ("plain", False, 0), ("tagged", False, 0),
        ]  # fmt: skip
        stats = await frontier.stats()
        assert (stats.new, stats.revisits, stats.due, stats.crawled) == (4, 4, 0, True)
        assert (await audit(frontier)).clean

        handled.clear()
        await web.crawl(frontier, spider)
        assert handled == []  # nothing is due yet
        assert len(magazine.answers) == 4

        clock.advance(DAY_S)
        magazine.edition["/tagged"] = 1
        magazine.answers.clear()
        stats = await frontier.stats()
        assert (stats.due, stats.crawled) == (4, False)
        await web.crawl(frontier, spider)
        said = await why(frontier, web.url("/plain"))

    assert handled == [("tagged", True, 1)]
    assert sorted(magazine.answers) == [
        ("/", 304), ("/dated", 304), ("/plain", 200), ("/tagged", 200),
    ]  # fmt: skip
    stats = await frontier.stats()
    assert (stats.new, stats.changed, stats.unchanged) == (4, 1, 3)
    assert (stats.done, stats.seen, stats.items) == (4, 4, 5)
    assert said.state == "done"
    assert said.because[-1] == "its next visit is due in 1 d 12 h"
    assert (await audit(frontier)).clean


async def test_the_archive_has_what_a_visit_found_unchanged(
    frontier, clock, spider, handled, tmp_path
):
    """A record that refers to the body; the body once more where a file that had it is gone."""
    magazine, folder = Magazine(), tmp_path / "kept"
    pages = ("", "dated", "plain", "tagged")
    async with serve_web(magazine) as web:

        async def visit_all() -> list[tuple[str, int]]:
            magazine.answers.clear()
            await web.crawl(frontier, spider, archive=ArchiveOptions(keep=True, folder=folder))
            clock.advance(14 * DAY_S)
            return sorted(magazine.answers)

        def check(records: list[str]) -> None:
            archive = Archive.open(folder)
            assert sorted(kind for kind, _ in warcs(folder)) == sorted(records)
            for page in pages:
                [*_, kept] = archive.find(web.url(f"/{page}"))
                response, edition = archive.read(kept), magazine.edition.get(f"/{page}", 0)
                assert response.status == kept.status == 200
                assert response.body.endswith(b"edition %d</html>" % edition)
                assert len(response.body) == kept.size

        spider.start = [web.url()]
        statuses = [status for _, status in await visit_all()]
        assert statuses == [200] * 4
        first = ["warcinfo", *["response", "revisit"] * 2]  # three pages have the same body
        check(first)
        handled.clear()
        for _ in range(2):
            assert await visit_all() == [
                ("/", 304), ("/dated", 304), ("/plain", 200), ("/tagged", 304),
            ]  # fmt: skip
        again = ["warcinfo", *["revisit"] * 4]
        check(first + again * 2)
        did = Archive.open(folder).prune(before=time.time() + 9, keep_last=1)
        assert (did.responses, did.files) == (8, 1), "the file with the bodies is needed"
        check(first + again)

        assert (await Redo(frontier, Archive.open(folder), spider, Filter()).mark()).archived == 4
        assert await visit_all() == [], "the archive has what the last visits stand for"
        assert {status for path, status in await visit_all() if path != "/plain"} == {304}
        check(first + again * 2)
        handled.clear()

        shutil.rmtree(folder)
        assert [status for _, status in await visit_all()] == [200] * 4
        assert handled == [], "they are the same as before"
        check(first)
    assert (await audit(frontier)).clean


async def test_a_page_is_handled_again_as_its_last_visit_saw_it(frontier, clock, spider, tmp_path):
    """Not as the archive had it before."""
    magazine, folder = Magazine(), tmp_path / "kept"
    async with serve_web(magazine) as web:
        spider.start = [web.url("/tagged"), web.url("/dated")]
        await web.crawl(frontier, spider, archive=ArchiveOptions(keep=True, folder=folder))
        clock.advance(DAY_S)
        magazine.edition["/tagged"] = 1
        await web.crawl(frontier, spider)  # and does not keep it

        did = await Redo(frontier, Archive.open(folder), spider, Filter()).mark()

        assert (did.archived, did.fetched) == (1, 1)
        magazine.answers.clear()
        await web.crawl(frontier, spider, archive=ArchiveOptions(folder=folder))
    assert magazine.answers == [("/tagged", 200)]


async def test_a_page_that_changes_is_visited_sooner_and_one_that_does_not_later(
    frontier, clock, spider
):
    magazine = Magazine()
    async with serve_web(magazine) as web:
        spider.start = [web.url("/tagged"), web.url("/dated")]
        await web.crawl(frontier, spider)
        clock.advance(DAY_S)
        magazine.edition["/tagged"] = 1
        await web.crawl(frontier, spider)
        magazine.answers.clear()

        clock.advance(DAY_S * 0.6)  # half a day and half an hour
        await web.crawl(frontier, spider)
        assert magazine.answers == [("/tagged", 304)]

        clock.advance(DAY_S)
        await web.crawl(frontier, spider)
        assert ("/dated", 304) in magazine.answers


async def test_a_page_that_has_gone_is_a_dead_letter(frontier, clock, spider):
    gone: list[bool] = []
    async with serve_web(lambda asked: Answer("x", status=404 if gone else 200)) as web:
        spider.start = [web.url()]
        await web.crawl(frontier, spider)
        gone.append(True)
        clock.advance(DAY_S)
        await web.crawl(frontier, spider)
    stats = await frontier.stats()
    assert (stats.done, stats.dead, stats.revisits) == (0, 1, 0)
    assert (await audit(frontier)).clean


async def test_a_redirect_is_visited_again_too(frontier, clock, spider, handled):
    where = ["/old"]

    def site(asked):
        if asked.path == "/":
            return Answer(status=302, headers=(("Location", where[0]),))
        return Answer(asked.path)

    async with serve_web(site) as web:
        spider.start = [web.url()]
        await web.crawl(frontier, spider)
        where[0] = "/new"
        clock.advance(DAY_S)
        await web.crawl(frontier, spider)
    assert [name for name, *_ in handled] == ["old", "new"]
    assert (await frontier.stats()).changed == 1


async def test_what_a_site_says_of_its_pages_is_bounded(frontier, clock, spider):
    headers = (("ETag", '"' + "x" * 5000 + '"'), ("Last-Modified", "y" * 5000))
    async with serve_web(lambda asked: Answer("x", headers=headers)) as web:
        spider.start = [web.url()]
        await web.crawl(frontier, spider)
        clock.advance(DAY_S)
        await web.crawl(frontier, spider)
        assert not web.asked[1].headers.keys() & {"if-none-match", "if-modified-since"}
    assert (await frontier.stats()).unchanged == 1


@pytest.mark.parametrize(
    ("last_s", "changed", "next_s"),
    [
        (None, True, 100.0),
        (100.0, False, 150.0),
        (900.0, False, 1000.0),
        (100.0, True, 55.0),
        (10.0, True, 10.0),
    ],
)
def test_intervals_grow_by_half_and_shrink_towards_the_least(last_s, changed, next_s):
    visits = Visits(revisit_after_s=100, revisit_min_s=10, revisit_max_s=1000)
    assert visits.interval_s(last_s, changed=changed) == next_s


def test_the_least_interval_is_not_above_the_longest():
    with pytest.raises(BadOption, match="at most revisit_max_s"):
        Visits(revisit_min_s=100, revisit_max_s=10)


async def test_loaders_remove_rows_of_earlier_visits_if_the_job_says_so(server, job, tmp_path):
    for prunes in (False, True):
        options = replace(rude(), visits=Visits(revisit=True, revisit_prune=prunes))
        frontier = await create_job(server, f"{job}-{prunes}", options=options)
        to = Destination(str(tmp_path / f"{prunes}.db"), frontier.job, tmp_path)
        async with open_destination(frontier, to) as sink:
            assert getattr(sink, "store").prunes is prunes  # noqa: B009
    lines = Destination(str(tmp_path / "rows.jsonl"), job, tmp_path, prunes=True)
    async with lines.open() as sink:
        assert not hasattr(getattr(sink, "store"), "prunes")  # noqa: B009  # it is only ever added to


class Shelf:
    """Three books, of which `/` names all; what a path answers can be changed."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}

    def __call__(self, asked):
        links = "".join(f'<a href="/{n}"></a>' for n in range(3))
        usual = Answer(links if asked.path == "/" else f"<h1>{asked.path}</h1>")
        return self.answers.get(asked.path, usual)


@pytest.fixture
def books():
    spider = Spider("t", ["https://shop.test/"])

    @spider.page
    def page(page):
        yield from ({"title": title.text()} for title in page.css("h1"))
        yield from page.follow_all()

    return spider


async def load_into(frontier, path):
    """A loader, until it has read all there is."""
    stop = asyncio.Event()
    loader = Loader(frontier, "loader", lambda *_: None, stop)
    to = Destination(str(path), frontier.job, path.parent)
    loading = asyncio.create_task(loader.run(lambda: open_destination(frontier, to)))

    async def is_done() -> bool:
        return loading.done() or not (await frontier.stats()).items

    await until_async(is_done)
    stop.set()
    await loading


def titles(path, job):
    with closing(sqlite3.connect(path)) as database:
        return sorted(
            title for (title,) in database.execute(f"SELECT title FROM {table_name(job)}")
        )


@pytest.fixture
def make_pruned(server, job, clock):
    async def make(*, prunes: bool):
        options = replace(rude(), visits=Visits(revisit=True, revisit_prune=prunes, revisit_gone=1))
        return await create_job(server, job, options=options, clock=clock)

    return make


@pytest.mark.parametrize(
    ("prunes", "left"), [(True, ["/2"]), (False, ["/0", "/1", "/2"])], ids=["prune", "keep"]
)
async def test_pages_that_are_gone_or_bring_nothing_lose_their_rows(
    make_pruned, clock, books, tmp_path, prunes, left
):
    frontier, shelf, path = await make_pruned(prunes=prunes), Shelf(), tmp_path / "rows.db"
    async with serve_web(shelf) as web:
        books.start = [web.url()]
        await web.crawl(frontier, books)
        await load_into(frontier, path)
        assert titles(path, frontier.job) == ["/0", "/1", "/2"]

        shelf.answers["/0"] = Answer("gone", status=410)
        shelf.answers["/1"] = Answer("<p>out of print</p>")
        shelf.answers["/2"] = Answer("forbidden", status=403)  # it may be there still
        clock.advance(DAY_S)
        await web.crawl(frontier, books)
        assert (await frontier.stats()).items == (
            2 if prunes else 1
        )  # a notice is for the feed, too
        said = await why(frontier, web.url("/0"))
        forbidden = await why(frontier, web.url("/2"))
        await load_into(frontier, path)

    assert titles(path, frontier.job) == left
    rows = "are removed from the output" if prunes else "stay"
    assert said.because[-1] == (
        f"the page has gone since the last visit: its rows {rows} (revisit_prune)"
    )
    assert "rows" not in str(forbidden.because)
    stats = await frontier.stats()
    assert (stats.gone, stats.changed, stats.dead, stats.stored) == (1, 1, 2, 3)
    assert (await audit(frontier)).clean


async def test_a_page_that_comes_back_as_it_was_has_its_rows_again(
    make_pruned, clock, books, tmp_path
):
    frontier, shelf, path = await make_pruned(prunes=True), Shelf(), tmp_path / "rows.db"
    tagged = Answer("<h1>/0</h1>", headers=(("ETag", '"0"'),))
    async with serve_web(shelf) as web:
        books.start = [web.url("/0")]
        for answer in (tagged, Answer("gone", status=404)):
            shelf.answers["/0"] = answer
            await web.crawl(frontier, books)
            await load_into(frontier, path)
            clock.advance(DAY_S)
        assert titles(path, frontier.job) == []

        shelf.answers["/0"] = tagged
        await revive(frontier, [one async for one in dead_letters(frontier)])
        await web.crawl(frontier, books)
        assert "if-none-match" not in web.asked[-1].headers
        await load_into(frontier, path)
    assert titles(path, frontier.job) == ["/0"]


async def test_the_rows_go_although_a_loader_died_with_the_notice(
    make_pruned, clock, books, tmp_path
):
    frontier, shelf, path = await make_pruned(prunes=True), Shelf(), tmp_path / "rows.db"
    async with serve_web(shelf) as web:
        books.start = [web.url("/0")]
        await web.crawl(frontier, books)
        await load_into(frontier, path)
        shelf.answers["/0"] = Answer("gone", status=404)
        clock.advance(DAY_S)
        await web.crawl(frontier, books)

    [notice] = await ItemStream(frontier, "dead").read(10, 0)  # and it is never heard of again
    [taken] = await ItemStream(frontier, "loader", take_over_s=0).read(10, 0)
    assert notice == taken
    to = Destination(str(path), frontier.job, tmp_path)
    async with open_destination(frontier, to) as sink:
        for _ in range(2):  # killed before it could acknowledge it, the first time
            await sink.forget([taken])
    assert titles(path, frontier.job) == []
