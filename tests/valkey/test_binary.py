"""A server of the system's in place of the one that comes with Skitter."""

from __future__ import annotations

from pathlib import Path

import pytest
from redis import Redis

from needs import need
from skitter.embedded import hold, program, running
from skitter.embedded.program import examine_binary
from skitter.errors import ServerFailed, ServerUnfit


@pytest.fixture
def pretender(tmp_path, monkeypatch):
    """A program that is taken for the server, and says what it is told to."""

    def make(says: str) -> None:
        path = tmp_path / "redis-server"
        path.write_text(f"#!/bin/sh\necho '{says}'\n")
        path.chmod(0o755)
        monkeypatch.setenv("SKITTER_SERVER", str(path))

    return make


def test_the_server_that_is_asked_for_is_the_one_that_starts(directory, monkeypatch):
    monkeypatch.setenv("SKITTER_SERVER", need("redis-server"))

    with hold(directory) as server, Redis.from_url(server.url, protocol=2) as client:
        client.set("kept", "yes")
        assert client.info("server").get("server_name", "redis") == "redis"
        process = running(directory)
    with hold(directory) as server, Redis.from_url(server.url, protocol=2) as client:
        assert client.get("kept") == b"yes"

    assert process is not None
    assert (process.name, process.version) == examine_binary()[1:3]


def test_without_a_wish_it_is_the_one_that_comes_with_skitter():
    assert examine_binary().name == "Valkey"


def libraries_of(directory: Path) -> str:
    process = running(directory)
    assert process is not None
    return Path(f"/proc/{process.pid}/maps").read_text()


@pytest.mark.parametrize(("asked", "loaded"), [(None, True), ("", False)])
def test_a_server_with_the_allocator_of_glibc_runs_with_jemalloc_unless_told_otherwise(
    directory, monkeypatch, asked, loaded
):
    need("libjemalloc")
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    if asked is not None:
        monkeypatch.setenv("LD_PRELOAD", asked)

    assert bool(examine_binary().preload) is loaded
    with hold(directory):
        assert (program.JEMALLOC in libraries_of(directory)) is loaded


def test_without_jemalloc_the_server_starts_without_a_word(directory, monkeypatch):
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    monkeypatch.setattr(program, "JEMALLOC", "libnowhere.so.2")

    assert examine_binary().preload == ""
    with hold(directory) as server:
        assert "libnowhere" not in server.log.read_text()


def test_a_server_that_was_built_with_jemalloc_gets_no_second_one(monkeypatch):
    monkeypatch.setenv("SKITTER_SERVER", need("redis-server"))

    assert examine_binary().preload == ""


@pytest.mark.parametrize(
    ("says", "version"), [("Redis server v=6.2.7 sha=0", "6.2.7"), ("Valkey server v=7.1", "7.1")]
)
def test_a_server_that_is_too_old_is_refused_before_it_starts(pretender, directory, says, version):
    pretender(says)

    with (
        pytest.raises(ServerUnfit, match=rf"{version}, which is too old.*Redis 7\.0"),
        hold(directory),
    ):
        pass


def test_a_program_that_is_not_a_server_is_refused(pretender):
    pretender("hello")

    with pytest.raises(ServerFailed, match=r"neither valkey-server nor redis-server.*unset it"):
        examine_binary()


def test_a_path_that_leads_nowhere_is_refused(monkeypatch):
    monkeypatch.setenv("SKITTER_SERVER", "/nowhere/redis-server")

    with pytest.raises(ServerFailed, match="SKITTER_SERVER names /nowhere/redis-server"):
        examine_binary()
