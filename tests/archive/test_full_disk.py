"""A disk that is full costs copies of pages, and no result."""

from __future__ import annotations

from contextlib import closing
from random import Random

import pytest

from archive.test_writer import SITE, record
from disks import fill_disk, mount_disk, unmount_disk
from skitter.archive.index import Archive, write_lines
from skitter.archive.writer import ArchiveWriter
from skitter.frontier.records.metrics import read_counts
from skitter.frontier.workers import read_log
from skitter.settings import ArchiveOptions
from skitter.spider import Spider
from web import Answer, serve_web


@pytest.fixture
def disk(short_dir, job):
    place = short_dir / f"disk-{job}"
    if why := mount_disk(place, size="1m"):
        pytest.skip(f"cannot mount a small disk here, which takes root: {why}")
    yield place
    unmount_disk(place)


async def test_pages_are_done_while_the_disk_is_full_and_kept_before_and_after(disk, frontier):
    spider = Spider("t")

    @spider.page
    def page(page):
        yield {"url": page.url}

    kept = ArchiveOptions(keep=True, folder=disk / "kept")
    async with serve_web(lambda asked: Answer(asked.path)) as web:

        async def crawl(first: int) -> list[str]:
            urls = [web.url(f"/{number}") for number in range(first, first + 10)]
            spider.start = [*urls]
            await web.crawl(frontier, spider, archive=kept)
            return urls

        before = await crawl(0)
        filler = fill_disk(disk)
        await crawl(10)
        filler.unlink()
        after = await crawl(20)

    stats, counts = await frontier.stats(), await read_counts(frontier)
    assert (stats.done, stats.items) == (30, 30)
    assert (counts["archived"], counts["unarchived"]) == (20, 10)
    archive = Archive.open(kept.folder)
    assert {one.url for one in archive} == {*before, *after}
    assert all(one.url.endswith(archive.read(one).body.decode()) for one in archive)
    said = [event.text for event in await read_log(frontier) if event.level == "error"]
    assert [text.endswith("pages are not kept: No space left on device") for text in said] == [True]


def test_the_archive_goes_on_when_there_is_space_and_says_both(disk):
    folder, said = disk / "kept", []
    with closing(ArchiveWriter(folder, "shop", lambda *line: said.append(line))) as writer:
        writer.again_s = 0.0
        lines = writer.write([record("/a")])
        filler = fill_disk(disk)
        assert writer.write([record("/b", Random(1).randbytes(5000))]) == [""]
        assert "cannot be written" in writer.trouble
        filler.unlink()
        lines += writer.write([record("/c")])
        assert writer.trouble == ""
    assert [level for level, _ in said] == ["error", "info"]
    write_lines(folder, lines)
    archive = Archive.open(folder)
    assert {one.url: archive.read(one).body for one in archive} == dict.fromkeys(
        [f"{SITE}/a", f"{SITE}/c"], b"<h1>Shop</h1>"
    )
