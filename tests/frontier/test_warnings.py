"""What is said about a server or a loader that stands in the way. Pure."""

from __future__ import annotations

from pathlib import Path

import pytest

from skitter.frontier.admin.warnings import disk_note, loader_note, memory_note, server_notes
from skitter.frontier.admin.workers import Heartbeat
from skitter.frontier.connection import ServerFacts
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
        (1, [beat("loader", 80.0)], "every page is done, and 1 item waits for the loader (pid 7)"),
        (5, [beat("loader", 80.0)], "every page is done, and 5 items wait for the loader (pid 7)"),
        (0, [beat("loader", 80.0)], ""),
        (5, [beat("loader", 80.0), beat("loader", 99.0)], ""),
        (5, [beat("worker", 80.0)], ""),
    ],
)
def test_a_loader_that_does_not_answer_is_told(items, beats, says):
    stats = Stats(job="j", state=State.RUNNING, seen=1, done=1, items=items, crawled=True)
    note = loader_note(stats, beats, 100.0, [facts()])
    assert note.startswith(says)
    assert bool(note) == bool(says)
    assert loader_note(stats, beats, 100.0, [facts(), facts(last_write_ok=False)]) == ""


def test_a_server_that_begins_to_evict_while_a_crawl_runs_is_told():
    """Whoever connects later is refused; those who are connected see a note."""
    sound, evicting = facts(), facts(eviction="allkeys-lru")

    assert server_notes([sound, sound], None) == []
    [says] = server_notes([sound, evicting, evicting], None)
    assert says.startswith("the server may now evict keys (maxmemory-policy allkeys-lru)")
