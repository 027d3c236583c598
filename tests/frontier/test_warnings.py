"""What is said about a server or a loader that stands in the way. Pure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from skitter.frontier.records.health import (
    STUCK_S,
    Sight,
    disk_note,
    find_troubles,
    loader_note,
    memory_note,
    server_notes,
)
from skitter.frontier.transport.connection import ServerFacts
from skitter.frontier.workers import Heartbeat
from skitter.model import State, Stats


def facts(**changes) -> ServerFacts:
    usual = {
        "name": "valkey", "version": "8.0", "uptime_s": 1, "pid": 1, "memory_bytes": 50 * 2**20,
        "max_memory_bytes": 0, "eviction": "noeviction", "append_only": True,
        "append_fsync": "everysec", "last_write_ok": True,
    }  # fmt: skip
    return ServerFacts(**{**usual, **changes})


def beat(kind: str, at: float) -> Heartbeat:
    return Heartbeat(name=f"{kind}-{at}", host="h", pid=7, kind=kind, started_at=0.0, at=at)


@pytest.mark.parametrize(
    ("most_mb", "says"), [(0, ""), (100, ""), (50, "the server is full (50 of 50 MB)")]
)
def test_a_full_server_is_told_with_its_numbers(most_mb, says):
    assert memory_note(facts(max_memory_bytes=most_mb * 2**20)).startswith(says)
    assert bool(memory_note(facts(max_memory_bytes=most_mb * 2**20))) == bool(says)


def test_a_disk_that_takes_nothing_is_told_with_the_folder():
    assert disk_note(facts(), Path("/tmp")) == ""
    assert disk_note(facts(last_write_ok=False), Path("/tmp")).startswith("the disk of /tmp is ful")
    assert "cannot write to its disk" in disk_note(facts(last_write_ok=False), None)


@pytest.mark.parametrize(
    ("items", "beats", "says"),
    [
        (1, [beat("loader", 80.0)], "every page is done, and 1 item waits for a loader"),
        (5, [beat("loader", 80.0)], "every page is done, and 5 items wait for a loader"),
        (0, [beat("loader", 80.0)], ""),
        (5, [beat("loader", 80.0), beat("loader", 99.0)], ""),
        (5, [beat("worker", 80.0)], ""),
    ],
)
def test_a_loader_that_does_not_answer_is_told(items, beats, says):
    stats = Stats(job="j", state=State.RUNNING, seen=1, done=1, items=items, crawled=True)
    note = loader_note(stats, beats, 100.0, [facts()])
    assert note.startswith(says)
    assert bool(note) == bool(says) == ("that of h (pid 7) has been silent for 20 s" in note)
    assert loader_note(stats, beats, 100.0, [facts(), facts(last_write_ok=False)]) == ""


def sight(*beats: Heartbeat, **about: Any) -> Sight:
    """At 10,000 s, with 5 of 10 URLs done just now."""
    counts = {"pending": 4, "leased": 1, "done": 5, "seen": 10, **about.pop("counts", {})}
    stats = Stats(job="shop", state=about.pop("state", State.RUNNING), **counts)
    usual = {"nodes": [facts()], "now": 10_000.0, "last_page_at": 9_999.0}
    return Sight(**{"stats": stats, "beats": beats, **usual, **about})


WORKER, LOADER = beat("worker", 9_999.0), beat("loader", 9_999.0)
DOWN = msgspec.structs.replace(LOADER, note="the database does not answer")


@pytest.mark.parametrize(
    ("seen", "kinds", "says"),
    [
        (sight(WORKER, LOADER), [], ""),
        (sight(LOADER), ["no workers"], "5 URLs wait, and no worker is running"),
        (sight(beat("worker", 9_900.0)), ["no workers"], ""),  # silent
        (sight(state=State.PAUSED), [], ""),
        (sight(counts={"pending": 0, "leased": 0, "crawled": True}), [], ""),
        (sight(WORKER, DOWN), ["output away"], "the database does not answer"),
        (
            sight(WORKER, counts={"items": 3}, oldest_item_at=9_000.0, sink="shop.db"),
            ["output away"],
            "3 items wait for a loader, and none is running",
        ),
        (sight(WORKER, counts={"items": 3}, oldest_item_at=9_000.0), [], ""),  # read by the API
        (sight(WORKER, LOADER, counts={"items": 3}, oldest_item_at=9_000.0, sink="d"), [], ""),
        (
            sight(WORKER, last_page_at=10_000.0 - STUCK_S),
            ["stuck"],
            "no page was done for 10 min, though workers run and 5 URLs can be fetched",
        ),
        (sight(WORKER, last_page_at=9_000.0, delay_s=600.0), [], ""),  # its host is that slow
        (sight(WORKER, last_page_at=9_000.0, waits="today's 5 pages are done"), [], ""),
        (sight(WORKER, last_page_at=0, counts={"pending": 0, "leased": 0, "delayed": 5}), [], ""),
        (
            sight(WORKER, counts={"unhandled": 2}, unhandled=["book", "shelf"]),
            ["no handler"],
            "2 URLs wait: no worker has handler 'book', 'shelf'",
        ),
        (
            sight(LOADER, nodes=[facts(), facts(last_write_ok=False)]),
            ["server full", "no workers"],
            "the server cannot write to its disk",
        ),
    ],
)
def test_why_a_job_needs_somebody(seen, kinds, says):
    found = find_troubles(seen)

    assert [one.kind for one in found] == kinds
    assert all(one.command.startswith("skitter ") for one in found)
    assert found[0].says.startswith(says) if found else not says


def test_a_job_of_scrapy_without_nodes_needs_scrapy():
    [trouble] = find_troubles(sight(LOADER, spider="books"))

    assert trouble.command == "scrapy crawl books"


def test_a_server_that_begins_to_evict_while_a_crawl_runs_is_told():
    """Whoever connects later is refused; those who are connected see a note."""
    sound, evicting = facts(), facts(eviction="allkeys-lru")

    assert server_notes([sound, sound], None) == []
    [says] = server_notes([sound, evicting, evicting], None)
    assert says.startswith("the server may now evict keys (maxmemory-policy allkeys-lru)")
