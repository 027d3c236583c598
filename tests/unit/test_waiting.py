"""A test that fails does not wait for the processes that it started."""

from __future__ import annotations

import signal

import pytest

from needs import need
from waiting import Child


def test_a_child_is_killed_when_its_block_fails():
    child = Child[bytes]([need("sleep"), "600"])
    with pytest.raises(ZeroDivisionError), child:
        _ = 1 / 0
    assert child.returncode == -signal.SIGKILL


def test_a_child_that_ends_by_itself_is_waited_for():
    with Child[bytes]([need("sleep"), "0.01"]) as child:
        pass
    assert child.returncode == 0
