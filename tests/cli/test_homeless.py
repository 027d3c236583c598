"""A user without a home directory, as systemd's DynamicUser= and many containers make them."""

from __future__ import annotations

import os

import pytest

from skitter.cli.tuning import is_served_here, serving_here
from skitter.trust import state_dir

NAMELESS = 2_000_000_000  # nobody's number


@pytest.fixture(autouse=True)
def homeless(monkeypatch, tmp_path):  # pytest makes that folder as the user who starts it
    for name in ("HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: NAMELESS)
    return tmp_path


def test_a_worker_gives_way_to_nobody():
    with serving_here():
        assert not is_served_here()


def test_serve_says_where_it_could_keep_its_token(skitter):
    answer = skitter("serve", "--port", "0")

    assert answer.exit_code == 3
    assert "this user has no home directory" in answer.err
    assert "XDG_STATE_HOME" in answer.err


def test_the_state_may_be_elsewhere(monkeypatch, homeless):
    monkeypatch.setenv("XDG_STATE_HOME", str(homeless))

    assert state_dir() == homeless
    with serving_here():
        assert is_served_here()
