"""Lines of pages that were completed reach the index, whoever was killed before."""

from __future__ import annotations

import time
from pathlib import Path

from skitter.archive.index import Archive
from skitter.archive.record import Record
from skitter.archive.writer import ArchiveWriter
from skitter.engine.delivery import Delivery
from skitter.engine.keeping import Archived, settle, unlisted
from skitter.engine.outbox import RequestMemory
from skitter.engine.visit import Completed
from skitter.frontier.records.archived import unwritten
from skitter.model import Completion, Request, Response


async def complete_page(frontier, folder: Path, url: str) -> Archived:
    """A worker that has completed a page, and not yet written its line."""
    await frontier.add([Request(url=url)])
    [lease] = (await frontier.lease(1)).leases
    archived = Archived(ArchiveWriter(folder, frontier.job, lambda *line: None))
    delivery = Delivery(frontier, RequestMemory(lambda: frontier.epoch), lambda *line: None)
    delivery.archived = archived
    response = Response(url=url, status=200, body=url.encode())
    record = Record(lease.request, response, time.time(), frontier.job, lease.fingerprint)
    delivery.add(Completed(Completion(lease=lease), record=record))
    await delivery.flush()
    archived.writer.close()
    return archived


def urls(folder: Path) -> set[str]:
    return {kept.url for kept in Archive.open(folder)}


async def test_a_worker_writes_the_lines_of_one_that_was_killed(frontier, tmp_path):
    await complete_page(frontier, tmp_path, "https://a.test/killed")
    next_worker = await complete_page(frontier, tmp_path, "https://a.test/next")
    assert urls(tmp_path) == set()

    await next_worker.send(frontier)

    assert urls(tmp_path) == {"https://a.test/killed", "https://a.test/next"}
    assert await unwritten(frontier) == {0: []}


async def test_lines_that_could_not_be_written_are_written_later(frontier, tmp_path):
    worker = await complete_page(frontier, tmp_path, "https://a.test/")
    await Archived(worker.writer).send(frontier)  # there is nothing to settle any more
    again = await complete_page(frontier, tmp_path, "https://a.test/2")
    again._is_settled = True
    folder, again.writer.folder = again.writer.folder, tmp_path / "away"
    await again.send(frontier)
    again.writer.folder = folder
    assert await unlisted(frontier, folder) == 1
    assert urls(tmp_path) == {"https://a.test/"}

    await again.send(frontier)

    assert urls(tmp_path) == {"https://a.test/", "https://a.test/2"}
    assert await unlisted(frontier, folder) == 0
    assert await unwritten(frontier) == {0: []}


async def test_a_line_of_the_server_that_nobody_could_have_written_does_no_harm(frontier, tmp_path):
    worker = await complete_page(frontier, tmp_path / "kept", "https://a.test/")
    for line in ("junk", '{"url":"","at":1,"file":"../x","offset":0,"digest":"","status":200}'):
        await frontier.shards[0].command("SADD", "archived", line)
    (tmp_path / "x").write_text("")
    assert await settle(frontier, worker.writer.folder)
    assert urls(tmp_path / "kept") == {"https://a.test/"}
    assert not (tmp_path / "x.jsonl").exists()
