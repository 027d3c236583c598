"""What a server answers when its disk fills up."""

from __future__ import annotations

import os
import signal
from itertools import count

import pytest
from redis import Redis

from disks import fill_disk, mount_disk, unmount_disk
from skitter.embedded import EmbeddedServer, process, start, stop
from skitter.embedded.process import is_alive
from skitter.errors import InfrastructureError, ServerFailed
from skitter.queue import URLQueue
from waiting import until


@pytest.fixture
def disk(short_dir, job):
    place = short_dir / f"disk-{job}"
    if why := mount_disk(place, size="12m"):
        pytest.skip(f"cannot mount a small disk here, which takes root: {why}")
    yield place
    stop(place)
    unmount_disk(place)


def push_until_refused(queue: URLQueue, site: str = "https://a.test") -> int:
    for number in count():
        try:
            queue.push(f"{site}/{number}")
        except InfrastructureError:
            return number
    raise AssertionError


def kill(server: EmbeddedServer) -> None:
    os.kill(int((server.directory / "valkey.pid").read_text()), signal.SIGKILL)
    until(lambda: not is_alive(server))


def test_what_was_accepted_as_the_disk_filled_up_is_kept_once_the_server_has_written_it(disk):
    server = start(disk)
    with Redis.from_url(server.url) as client, URLQueue("job", redis=server.url) as queue:
        filler = fill_disk(disk)
        accepted = push_until_refused(queue)

        filler.unlink()
        until(lambda: client.info("persistence")["aof_last_write_status"] == "ok")
        kill(server)

    with URLQueue("job", redis=start(disk).url) as queue:
        assert queue.stats().seen == accepted > 0


def test_a_server_that_cannot_write_what_it_accepted_is_not_stopped(disk, monkeypatch):
    monkeypatch.setattr(process, "WRITE_S", 0.1)
    server = start(disk)
    with URLQueue("job", redis=server.url) as queue:
        filler = fill_disk(disk)
        accepted = push_until_refused(queue)

    with pytest.raises(ServerFailed, match="what it accepted last is only in memory"):
        stop(disk)

    assert is_alive(server)
    filler.unlink()
    monkeypatch.undo()
    assert stop(disk)
    with URLQueue("job", redis=start(disk).url) as queue:
        assert queue.stats().seen == accepted > 0


def test_a_disk_that_was_full_after_a_rewrite_leaves_a_file_that_can_be_read(disk):
    """The server leaves a gap of zeros in it, and would not start again."""
    server = start(disk)
    with Redis.from_url(server.url) as client, URLQueue("job", redis=server.url) as queue:
        queue.push("https://b.test/0")
        client.bgrewriteaof()
        until(lambda: (disk / "appendonlydir/appendonly.aof.2.base.rdb").exists())
        queue.push("https://b.test/1")  # the next write begins within a block, and fits in part
        filler = fill_disk(disk)
        accepted = push_until_refused(queue)
        filler.unlink()
        until(lambda: client.info("persistence")["aof_last_write_status"] == "ok")
        queue.push("https://b.test/2")
    assert b"\r\n\0" in (disk / "appendonlydir/appendonly.aof.2.incr.aof").read_bytes()
    stop(disk)

    with URLQueue("job", redis=start(disk).url) as queue:
        assert queue.stats().seen == accepted + 3


def test_a_disk_that_is_full_twice_after_a_rewrite_costs_nothing(disk, monkeypatch):
    """The second time, the server would cut off what it has written since the first."""
    monkeypatch.setenv("SKITTER_DIR", str(disk))
    server, accepted = start(disk), 0
    with Redis.from_url(server.url) as client, URLQueue("job") as queue:
        client.bgrewriteaof()
        until(lambda: (disk / "appendonlydir/appendonly.aof.2.base.rdb").exists())
        for host in "abc":
            for number in range(3):
                accepted += queue.push(f"https://{host}.test/before/{number}")
            if host == "c":
                break
            filler = fill_disk(disk)
            accepted += push_until_refused(queue, f"https://{host}.test")
            filler.unlink()
            until(lambda: client.info("persistence")["aof_last_write_status"] == "ok")
    stop(disk)

    with URLQueue("job") as queue:
        assert queue.stats().seen == accepted


def test_a_kill_while_the_disk_is_full_takes_the_last_answer_along_as_a_whole(disk):
    server = start(disk)
    with URLQueue("job", redis=server.url) as queue:
        filler = fill_disk(disk)
        accepted = push_until_refused(queue)
        kill(server)
    filler.unlink()

    with URLQueue("job", redis=start(disk).url) as queue:
        assert queue.stats().seen == accepted - 1
        assert queue.push(f"https://a.test/{accepted - 1}"), "it is as if nobody had pushed it"
