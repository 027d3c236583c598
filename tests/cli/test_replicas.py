"""A job that needs a replica, on a server that has none."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

WAITS = "Waiting for a replica to confirm the new URLs: {job} has durability=replicated.\n"


@pytest.fixture
def needy(skitter, job):
    skitter("create", job, "--durability", "replicated")
    return job


def test_a_push_says_at_once_what_it_waits_for_and_in_the_end_what_to_do(
    needy, server_url, skitter
):
    with subprocess.Popen(
        [sys.executable, "-m", "skitter", "push", needy, "https://a.test/"],
        env={**os.environ, "SKITTER_REDIS_URL": server_url},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as push:
        assert push.stderr is not None
        first = push.stderr.readline()
        was_waiting = push.poll() is None
        out, rest = push.communicate()

    assert (first, was_waiting) == (WAITS.format(job=needy), True)
    assert (push.returncode, out) == (3, "")
    assert f"start a replica (docs/howto/cluster.md), or run `skitter set {needy} " in rest
    skitter("set", needy, "--durability", "primary")
    again = skitter("push", needy, "https://a.test/", "https://a.test/2")
    assert (again.exit_code, again.err) == (0, "")
    assert again.out == f"{needy}: 1 new, 1 already seen\n"
