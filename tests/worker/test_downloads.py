"""Files are streamed to disk, each content once, and rows say where they are."""

from __future__ import annotations

import fcntl
import json
import re
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from random import Random

import pytest

from buckets import s3
from conftest import rude
from skitter import File, Spider
from skitter.errors import NoRoomForFiles, UsageError
from skitter.explain import explain_url
from skitter.fetch import filebucket
from skitter.fetch.filebucket import Bucket
from skitter.fetch.filestore import PROGRESS_BYTES, FileStore, Stored
from skitter.frontier.audit.auditor import audit
from skitter.frontier.dead import dead_letters
from skitter.frontier.jobs import create_job
from skitter.model import files_in
from skitter.settings import FileOptions
from skitter.sinks.columns import table_name
from web import Answer, serve_web
from worker.test_revisits import load_into

CONTENT = Random(1).randbytes(300_000)


@dataclass
class Library:
    """Ten pages, each of which names two files; every other file has the same content."""

    tag: str = '"one"'
    cuts: int = 0  # connections to cut off, at random
    kind: str = "application/pdf"
    ranges: list[str] = field(default_factory=list)
    sent: int = 0  # bytes of files
    chance: Random = field(default_factory=lambda: Random(7))

    def content(self, path: str) -> bytes:
        number = int(re.sub(r"\D", "", path) or 0)
        return CONTENT if number % 2 else CONTENT + path.encode()

    def __call__(self, asked):
        if asked.path.endswith(".html"):
            return self.page(int(asked.path[2:-5]))
        if asked.path.startswith("/get"):
            return Answer(status=302, headers=(("Location", "/file1.pdf"),))
        return self.file(asked)

    def page(self, number: int) -> Answer:
        links = f"<a class=next href=/p{number + 1}.html></a>" if number < 10 else ""
        return Answer(f"<h1>{number}</h1>{links}")

    def file(self, asked) -> Answer:
        headers: tuple[tuple[str, str], ...] = (("Content-Type", self.kind), ("ETag", self.tag))
        if asked.headers.get("if-none-match") == self.tag:
            return Answer(status=304, headers=headers)
        body, status, start = self.content(asked.path), 200, 0
        if (said := asked.headers.get("range")) and asked.headers.get("if-range") == self.tag:
            self.ranges.append(said)
            start, status = int(said[6:-1]), 206
            whole = f"bytes {start}-{len(body) - 1}/{len(body)}"
            headers = (*headers, ("Content-Range", whole))
        rest, lost = body[start:], 0
        if self.cuts and len(rest) > 2 * PROGRESS_BYTES:
            self.cuts -= 1
            lost = self.chance.randrange(1, len(rest) - PROGRESS_BYTES)
        self.sent += len(rest) - lost
        return Answer(rest, status, headers, lost)


@pytest.fixture
async def frontier(server, job, clock):
    return await create_job(server, job, options=rude(), clock=clock)


@pytest.fixture
def spider():
    spider = Spider("t", ["https://shop.test/p1.html"])

    @spider.page
    def page(page):
        number = page.css_first("h1").text()
        yield page.download(f"/file{number}.pdf", field="pdf")
        deep = {"back": ({"scans": [File("/cover0.pdf")]}, "no file")}
        yield {"number": number, "covers": [File(f"/cover{number}.pdf"), deep]}
        yield from page.follow_all("a.next")

    return spider


async def crawl(web, frontier, spider, path, **options):
    """The rows of a crawl, by number."""
    spider.start = [web.url("/p1.html")]
    files = FileOptions(folder=path / "files", **options)
    await web.crawl(frontier, spider, files=files)
    await load_into(frontier, path / "t.db")
    table = table_name(frontier.job)
    with closing(sqlite3.connect(path / "t.db")) as database:
        query = f'SELECT number, pdf, covers FROM "{table}"'
        rows = {number: (pdf, covers) for number, pdf, covers in database.execute(query)}
    read = json.loads
    return {n: (read(pdf), [*files_in({"": read(of)})]) for n, (pdf, of) in rows.items()}


def contents(path) -> list[str]:
    """The digests of all files of the store."""
    found = [one for one in (path / "files").glob("??/*") if one.is_file()]
    for one in found:
        assert sha256(one.read_bytes()).hexdigest() == one.stem
    return [one.stem for one in found]


def is_right(library, told) -> bool:
    content = library.content("/" + told["url"].rpartition("/")[2])
    assert told["path"].endswith(".pdf")
    return (told["size"], told["sha256"], told["type"]) == (
        len(content), sha256(content).hexdigest(), "application/pdf",
    )  # fmt: skip


async def test_rows_say_where_their_files_are_and_each_content_is_stored_once(
    frontier, spider, tmp_path
):
    library = Library()
    async with serve_web(library) as web:
        rows = await crawl(web, frontier, spider, tmp_path)
        asked = [target for target in web.paths() if target.endswith(".pdf")]
    assert sorted(map(int, rows)) == list(range(1, 11))
    for pdf, covers in rows.values():
        assert len(covers) == 2, "at any depth"
        assert all(is_right(library, told) for told in (pdf, *covers))
    assert len(asked) == len(set(asked)) == 21, "a file that ten rows name is fetched once"
    found = contents(tmp_path)
    assert len(found) == len(set(found)) == 12
    assert not list((tmp_path / "files" / ".parts").iterdir()), "all downloads have ended"
    assert (await explain_url(frontier, rows["3"][0]["url"])).state == "done"
    assert not (await audit(frontier)).problems


async def test_a_file_goes_on_where_its_connection_was_cut_off(frontier, spider, tmp_path):
    library = Library(cuts=40)
    async with serve_web(library) as web:
        rows = await crawl(web, frontier, spider, tmp_path)
    assert all(is_right(library, told) for pdf, covers in rows.values() for told in (pdf, *covers))
    assert library.ranges, "it asked for the rest"
    size = sum(len(library.content(f"/file{n}") + library.content(f"/cover{n}")) for n in range(11))
    assert library.sent <= 1.1 * size
    assert not (await frontier.stats()).dead


async def test_a_file_that_changed_while_it_was_fetched_is_fetched_anew(frontier, spider, tmp_path):
    library = Library(cuts=1)

    def changing(asked):
        answer = library(asked)
        if answer.lost:
            library.tag = '"two"'
        return answer

    async with serve_web(changing) as web:
        rows = await crawl(web, frontier, spider, tmp_path)
    assert all(is_right(library, told) for pdf, covers in rows.values() for told in (pdf, *covers))


async def test_a_second_crawl_fetches_no_file_that_has_not_changed(
    server, job, clock, spider, tmp_path
):
    library, sent = Library(), []
    async with serve_web(library) as web:
        for name in (job, f"{job}-again"):
            frontier = await create_job(server, name, options=rude(), clock=clock)
            rows = await crawl(web, frontier, spider, tmp_path)
            sent.append(library.sent)
            for pdf, covers in rows.values():
                assert all(is_right(library, told) for told in (pdf, *covers))
    assert sent[0] == sent[1]
    assert not list((tmp_path / "files" / ".parts").iterdir())


@pytest.fixture(params=["file", "s3"])
def bucket(request, tmp_path, monkeypatch):
    if request.param == "file":
        yield f"file://{tmp_path}/store"
    else:
        with s3(monkeypatch) as opened:
            yield f"{opened}/files"


def put_in(store) -> dict[str, bytes]:
    remote = filebucket._opened(store)
    names = [one["path"] for page in remote.list() for one in page]
    return {name: bytes(remote.get(name).bytes()) for name in names if name[0] != "."}


async def test_files_go_to_an_object_store_each_content_once_for_all_machines(
    server, job, spider, tmp_path, bucket
):
    library, sent = Library(cuts=15), []
    filebucket._opened.cache_clear()  # of the server of another test
    async with serve_web(library) as web:
        for machine in (job, f"{job}-2"):
            frontier = await create_job(server, machine, options=rude())
            here = tmp_path / machine
            here.mkdir()
            rows = await crawl(web, frontier, spider, here, store=bucket)
            sent.append(library.sent)
            told = [one for pdf, covers in rows.values() for one in (pdf, *covers)]
            assert {one["path"] for one in told} == {
                f"{bucket}/{digest[:2]}/{digest}" for digest in {one["sha256"] for one in told}
            }
            assert not [one for one in (here / "files").glob("**/*") if one.is_file()]
    found = put_in(bucket)
    assert {name[3:] for name in found} == {sha256(one).hexdigest() for one in found.values()}
    assert len(found) == 12
    assert library.ranges, "what was cut off went on"
    assert sent[0] == sent[1], "the other machine was told what is there"


def test_a_store_that_takes_no_file_makes_downloads_wait(tmp_path):
    away, part = Bucket(f"file://{tmp_path}/store"), tmp_path / "part"
    away.check()
    part.write_bytes(b"x")
    (tmp_path / "store" / "aa").write_text("no folder")
    with pytest.raises(UsageError, match="is not an object store"):
        Bucket("ftp://bucket/files").check()
    with pytest.raises(NoRoomForFiles, match=r"files.store\). Downloads wait"):
        away.add("aa/aa", part, "")
    assert part.exists()


async def test_a_download_that_was_whole_when_its_worker_died_asks_for_one_byte(
    frontier, spider, tmp_path
):
    """A request for no bytes at all is refused by real servers: 416."""
    library = Library()
    async with serve_web(library) as web:
        url = web.url("/file2.pdf")
        content = library.content("/file2.pdf")
        part = FileStore(tmp_path / "files", 10**9).begin(url)
        said = ("content-type", library.kind), ("etag", library.tag)
        part.begins(200, [*said, ("content-length", str(len(content)))])
        part.take(content)
        part.end()
        part.close()
        rows = await crawl(web, frontier, spider, tmp_path)

    assert library.ranges == [f"bytes={len(content) - 1}-"]
    assert is_right(library, rows["2"][0])


async def test_two_urls_that_redirect_to_one_file_both_get_it(frontier, tmp_path):
    library, spider = Library(), Spider("t", [])

    @spider.page
    def page(page):
        yield {"number": "1", "pdf": File("/get?a=1"), "covers": [File("/get?a=2")]}

    async with serve_web(library) as web:
        [(pdf, [cover])] = (await crawl(web, frontier, spider, tmp_path)).values()
    assert pdf["sha256"] == cover["sha256"] == sha256(CONTENT).hexdigest()
    assert pdf["url"].endswith("/get?a=1")


async def test_a_file_for_a_declared_field_is_in_its_row(frontier, tmp_path):
    @dataclass
    class Report:
        number: str
        pdf: File | None = None
        covers: list[File] = field(default_factory=list)

    spider = Spider("t", [], item=Report)

    @spider.page
    def page(page):
        yield page.download("/file1.pdf", field="pdf")
        yield page.download("/file2.pdf", field="covers")
        yield Report("1")

    library = Library()
    async with serve_web(library) as web:
        [(pdf, [cover])] = (await crawl(web, frontier, spider, tmp_path)).values()
    assert is_right(library, pdf)
    assert is_right(library, cover)


def test_two_attempts_of_a_process_note_one_url_at_once(tmp_path, monkeypatch):
    """They met at one file when their URLs redirected there."""
    store, url = FileStore(tmp_path, 10**6, 60), "http://a.test/x.pdf"
    parts, replace = [store.begin(url), store.begin(url)], Path.replace
    for part in parts:
        part.begins(200, [])
        part.take(CONTENT)
        part.end()

    def beside_the_other(path, target):
        if path.parent.parent.name == ".urls" and len(parts) == 2:
            parts.pop().keep()
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", beside_the_other)
    stored = parts[0].keep()

    assert store.known(url) == stored


def test_a_part_that_has_just_become_a_content_is_not_begun_again(tmp_path, monkeypatch):
    """Between its opening and its lock, another attempt has ended."""
    store, url = FileStore(tmp_path, 10**6, 60), "http://a.test/x.pdf"
    first, lock = store.begin(url), fcntl.flock
    first.begins(200, [("etag", '"one"')])
    first.take(CONTENT)
    first.end()

    def late(file, how):
        monkeypatch.setattr(fcntl, "flock", lock)
        kept.append(first.keep())
        lock(file, how)

    kept: list[Stored] = []
    monkeypatch.setattr(fcntl, "flock", late)
    second = store.begin(url)
    second.begins(200, [("etag", '"two"')])
    second.take(b"other")
    second.close()
    assert (tmp_path / kept[0].path).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"max_mb": 0.2}, "files.max_mb"), ({"max_total_mb": 0.001}, "files.max_total_mb")],
)
async def test_a_file_over_a_limit_is_a_dead_letter_that_names_the_limit(
    frontier, spider, tmp_path, options, reason
):
    async with serve_web(Library()) as web:
        rows = await crawl(web, frontier, spider, tmp_path, concurrency=1, **options)
    reasons = [letter.reason async for letter in dead_letters(frontier)]
    assert reasons
    assert all(reason in said for said in reasons)
    missing = [told for pdf, covers in rows.values() for told in (pdf, *covers) if not told["path"]]
    assert len({told["url"] for told in missing}) == len(reasons), "the rows are there all the same"


async def test_a_file_of_another_type_is_skipped(frontier, spider, tmp_path):
    async with serve_web(Library(kind="text/html")) as web:
        rows = await crawl(web, frontier, spider, tmp_path, types=("application/pdf",))
    assert len(rows) == 10
    assert not contents(tmp_path)
    assert (await frontier.stats()).skipped == 21


PDF = b"""%PDF-1.4
1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj
2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj
3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 100]/Contents 4 0 R
/Resources<</Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>>>endobj
4 0 obj<</Length 44>>stream
BT /F 18 Tf 10 40 Td (Twelve benches) Tj ET
endstream endobj
trailer<</Root 1 0 R>>"""


async def test_the_text_of_pdf_files_is_beside_them_and_a_damaged_one_is_stored_without(
    frontier, spider, tmp_path
):
    class Reports(Library):
        def content(self, path: str) -> bytes:
            return PDF if int(re.sub(r"\D", "", path) or 0) % 2 else b"no PDF"

    async with serve_web(Reports()) as web:
        await crawl(web, frontier, spider, tmp_path, text=True)
    texts = {one.stem: one.read_text() for one in (tmp_path / "files" / "text").iterdir()}
    assert texts == {sha256(PDF).hexdigest(): "Twelve benches\n\n"}
    assert len(contents(tmp_path)) == 2
