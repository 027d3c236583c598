"""What runs here."""

from __future__ import annotations

import sys

import skitter as package
from needs import need


def test_the_version_is_that_of_skitter_python_and_the_server(skitter):
    rows = dict(line.split(maxsplit=1) for line in skitter("--version").out.splitlines())

    assert rows["Skitter"] == package.__version__
    assert rows["Python"] == ".".join(map(str, sys.version_info[:3]))
    assert rows["server"].startswith("Valkey ")


def test_the_version_names_the_server_that_is_asked_for(skitter, monkeypatch):
    monkeypatch.setenv("SKITTER_SERVER", path := need("redis-server"))

    says = skitter("--version").out
    assert "server   Redis 7." in says or "server   Redis 8." in says
    assert f"{path} (SKITTER_SERVER)" in says


def test_the_version_is_told_without_a_server_too(skitter, monkeypatch):
    monkeypatch.setenv("SKITTER_SERVER", "/nowhere")

    done = skitter("--version")

    assert done.exit_code == 0
    assert "server   none: SKITTER_SERVER names /nowhere" in done.out
