"""A private server for each test; what is told in between is kept."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from benchmarks.ground import Ground, prepare_ground
from benchmarks.peers import Peer
from needs import need


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
async def ground(told: list[str]) -> AsyncIterator[Ground]:
    async with prepare_ground(told.append) as prepared:
        yield prepared


@pytest.fixture
async def with_site(told: list[str]) -> AsyncIterator[Ground]:
    need("nginx")
    async with prepare_ground(told.append, with_site=True) as prepared:
        yield prepared


@pytest.fixture
def fake_peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Peer]:
    """A peer whose environment has a script where its Python should be."""
    monkeypatch.setenv("SKITTER_BENCH_DIR", str(tmp_path))

    def make(script: str) -> Peer:
        python = tmp_path / "fake" / "bin" / "python"
        python.parent.mkdir(parents=True, exist_ok=True)
        python.write_text(f"#!/bin/sh\n{script}\n")
        python.chmod(0o755)
        return Peer(title="a peer", script="crawl_celery.py", home="fake")

    return make
