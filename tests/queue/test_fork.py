"""A fork inherits a queue with its name and its numbers; it must not speak in its parent's name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from skitter import URLQueue

SCRIPT = Path(__file__).with_name("helper_fork.py")


@pytest.mark.parametrize("end", ["exit", "vanish"])
def test_a_child_is_told_to_open_a_queue_of_its_own_and_the_parent_goes_on(job, server_url, end):
    ran = subprocess.run(
        [sys.executable, str(SCRIPT), job, server_url, end],
        capture_output=True,
        text=True,
        timeout=600,
    )

    told = "this queue was opened in another process: open one in each.\n"
    assert (ran.returncode, ran.stderr) == (0, "")
    # Five verbs in the child, then its own queue, then the parent's.
    assert ran.stdout == told * 5 + "child pushed True\nparent pushed True\nseen 4\n"
    with URLQueue(job, redis=server_url) as queue:
        assert {task.url for task in queue.pop_many(9)} == {
            f"https://{name}.test/" for name in ("a", "b", "child", "parent")
        }
