"""Keeps the pages that callbacks saw (SKITTER_ARCHIVE): on disk before they are completed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from skitter.model import Request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from skitter.engine.keeping import Archived
    from skitter.engine.pulse import Figures
    from skitter.scrapy.node.mailbox import OpenLease
    from skitter.scrapy.settings import NodeOptions
    from skitter.settings import Layout


def archived_of(options: NodeOptions, say: Callable[[str, str], None]) -> Archived:
    from skitter.archive.store import Store  # an extra
    from skitter.archive.writer import ArchiveWriter
    from skitter.engine.keeping import Archived

    writer = ArchiveWriter(Path(options.archive), options.job, say)
    return Archived(writer, Store(options.archive_store) if options.archive_store else None)


async def keep_pages(archived: Archived, entries: Sequence[OpenLease], figures: Figures) -> None:
    """Safe to repeat: what is kept is not kept again."""
    from skitter.archive.record import Record

    seen = [one for one in entries if one.answer and not (one.note or one.feedback.archived)]
    now, job = time.time(), archived.writer.job
    records = [
        Record(_asked(one), one.answer, now - one.answer.elapsed_s, job, one.lease.fingerprint)
        for one in seen
        if one.answer
    ]
    for one, line in zip(seen, await archived.keep(records, figures), strict=True):
        one.feedback.archived = line


def _asked(entry: OpenLease) -> Request:
    """Without what only Scrapy understands."""
    one = entry.lease.request
    return Request(
        url=one.url, method=one.method, body=one.body, depth=one.depth, handler=one.handler
    )


def add_lines(archived: Archived, entries: Iterable[OpenLease], layout: Layout) -> None:
    """These pages were completed."""
    for one in entries:
        if line := one.feedback.archived:
            archived.add(layout.shard_of(one.lease.host), line)
