"""What a server answers when its disk fills up."""

from __future__ import annotations

import os
import signal
from itertools import count

import pytest
from redis import Redis

from disks import fill_disk, mount_disk, unmount_disk
from skitter.errors import InfrastructureError
from skitter.queue import URLQueue
from skitter.valkey import start, stop
from skitter.valkey.process import is_alive
from waiting import until


@pytest.fixture
def disk(short_dir):
    place = short_dir / "disk"
    if why := mount_disk(place, size="12m"):
        pytest.skip(f"cannot mount a small disk here, which takes root: {why}")
    yield place
    stop(place)
    unmount_disk(place)


def push_until_refused(queue: URLQueue) -> int:
    for number in count():
        try:
            queue.push(f"https://a.test/{number}")
        except InfrastructureError:
            return number
    raise AssertionError


def test_what_was_accepted_as_the_disk_filled_up_is_kept_once_there_is_room(disk):
    """The write that meets the full disk is answered, and in memory only until then."""
    server = start(disk)
    with Redis.from_url(server.url) as client, URLQueue("job", redis=server.url) as queue:
        filler = fill_disk(disk)
        accepted = push_until_refused(queue)
        assert client.info("persistence")["aof_last_write_status"] == "err"

        filler.unlink()
        until(lambda: client.info("persistence")["aof_last_write_status"] == "ok")
    os.kill(int((disk / "valkey.pid").read_text()), signal.SIGKILL)
    until(lambda: not is_alive(server))

    with URLQueue("job", redis=start(disk).url) as queue:
        assert accepted > 0
        assert queue.stats().seen == accepted
