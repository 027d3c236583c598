"""up, down, doctor, and servers that cannot be used."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
from redis.asyncio import sentinel as asyncio_sentinel
from redis.exceptions import AuthenticationError, MovedError, ResponseError
from redis.sentinel import MasterNotFoundError

from needs import need
from skitter.cli.commands.server import problems_of
from skitter.embedded import ServerOptions, hold
from skitter.errors import ServerRefused, ServerUnfit, ServerUnreachable
from skitter.frontier.transport.connection import ServerFacts
from skitter.frontier.transport.failures import our_errors

NOBODY = 65534


@pytest.fixture
def own_dir(short_dir, monkeypatch, request):
    """The embedded server of this test alone."""
    directory = short_dir / f"cli{abs(hash(request.node.name)) % 10**6}"
    monkeypatch.setenv("SKITTER_DIR", str(directory))
    return directory


@pytest.fixture
def embedded(skitter, own_dir, monkeypatch):
    monkeypatch.delenv("SKITTER_REDIS_URL")
    yield skitter
    skitter("down")


def test_a_bloom_filter_past_its_capacity_is_told_wherever_one_looks(skitter, job):
    skitter("create", job, "--bloom", "10", "--shards", "2")
    skitter("push", job, *(f"https://a.test/{n}" for n in range(10)))
    said = "the Bloom filter was made for 10 URLs but holds 11"

    assert said not in skitter("doctor").out
    skitter("push", job, "https://a.test/10")

    doctor, audit = skitter("doctor", "--json"), skitter("audit", job)
    assert f"{job}: {said}: it mistakes about 0.00% of new URLs for seen" in "".join(
        doctor.json["problems"]
    )
    assert (doctor.exit_code, audit.exit_code) == (1, 1)
    assert said in audit.out
    assert said in skitter("status", job).out
    assert said in skitter("status", job, "--json").json["notes"][0]


def test_a_database_that_the_server_does_not_have_is_told(skitter, server_url):
    answer = skitter("status", "--redis", f"{server_url}?db=77")

    assert answer.exit_code == 3
    assert "has no database of that number: most servers have 0 to 15." in answer.err


def test_a_server_that_is_taken_for_a_sentinel_is_told():
    with pytest.raises(ServerUnfit, match="is not a sentinel: use redis://"), our_errors("it"):
        raise ResponseError("unknown command 'SENTINEL', with args beginning with: 'MASTERS'")


def test_a_node_of_a_cluster_that_is_taken_for_a_single_server_is_told():
    said = r"is a node of a cluster: use redis\+cluster://"
    with pytest.raises(ServerUnfit, match=said), our_errors("it"):
        raise MovedError("14342 127.0.0.1:17113")


def test_sentinels_that_want_a_password_of_their_own_are_told():
    """What redis-py says if it was refused, by redis.asyncio and by redis."""
    one = "<redis.client.Redis(...)>"
    for said in (MasterNotFoundError, asyncio_sentinel.MasterNotFoundError):
        error = said(f"No master found for 'main' : {one} - {AuthenticationError('no')!r}")
        with pytest.raises(ServerRefused, match="sentinel_password=PASSWORD"), our_errors("it"):
            raise error
        with pytest.raises(ServerUnreachable), our_errors("it", accepted=True):
            raise error


def test_a_connection_that_is_cut_at_once_may_want_tls():
    said = r"If it speaks TLS there, use rediss://\.$"
    with pytest.raises(ServerUnreachable, match=said), our_errors("redis://host"):
        raise ConnectionResetError(104, "Connection reset by peer")


def test_up_and_down_and_doctor_in_between(embedded):
    before = embedded("doctor")
    up = embedded("up", "--json").json
    during = embedded("doctor", "--json").json
    down = embedded("down")
    again = embedded("down")

    assert "it starts when a command needs it" in before.out
    assert during["facts"]["pid"] == up["pid"]
    assert during["facts"]["append_fsync"] == "everysec"
    assert (during["running"], during["problems"]) == (True, [])
    assert down.out == "The server is down.\n"
    assert again.out.startswith("No server was running")


def test_what_was_pushed_is_there_after_a_restart(embedded):
    embedded("push", "books", "https://a.test/1")
    embedded("up")
    embedded("down")

    assert embedded("status", "books", "--json").json["pending"] == 1


@pytest.mark.parametrize(
    ("directory", "says"),
    [
        ("/dev/null/x", "cannot"),
        ("/tmp/" + "long-" * 30, "the system's limit is 107"),
    ],
)
@pytest.mark.parametrize("command", ["status", "doctor", "up"])
def test_a_directory_that_cannot_be_used(skitter, monkeypatch, command, directory, says):
    monkeypatch.delenv("SKITTER_REDIS_URL")

    answer = skitter(command, "--dir", directory)

    assert answer.exit_code == 3
    assert says in answer.err
    assert len(answer.err.splitlines()) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give privileges up")
@pytest.mark.parametrize(
    ("command", "mode"),
    [("status", 0o755), ("doctor", 0o700), ("up", 0o755), ("down", 0o700), ("down", 0o755)],
)
def test_a_directory_of_somebody_else_is_refused_with_a_sentence(short_dir, command, mode):
    place = short_dir / f"root{mode}"
    place.mkdir(exist_ok=True)
    place.chmod(mode)
    os.chown(place, NOBODY, NOBODY)

    done = without_privileges(command, "--dir", str(place / "data"))

    if command == "down" and mode == 0o755:
        assert (done.returncode, done.stderr) == (0, "")  # nothing runs there: that can be seen
        return
    assert done.returncode == 3
    assert f"cannot use {place / 'data'} (Permission denied): choose a directory" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def without_privileges(*words: str) -> subprocess.CompletedProcess[str]:
    """`skitter` as a root that has to obey the modes of files like everybody else."""
    humble = [need("setpriv"), "--inh-caps=-all", "--bounding-set=-all"]
    environment = {name: value for name, value in os.environ.items() if "SKITTER" not in name}
    return subprocess.run(
        [*humble, sys.executable, "-m", "skitter", *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_sentinels_that_cannot_be_reached_are_told_in_one_short_sentence(skitter):
    answer = skitter("status", "--redis", "redis+sentinel://:secret@127.0.0.1:1,127.0.0.1:2/main")

    assert answer.exit_code == 3
    assert "(no sentinel answers)" in answer.err
    assert len(answer.err) < 250
    assert "secret" not in answer.err


def test_servers_that_cannot_be_used(skitter, short_dir):
    import redis

    options = ServerOptions(password="secret")
    with hold(short_dir / "locked", options) as server:

        def status(login: str) -> Any:
            return skitter("status", "--redis", server.url.replace("unix://", f"unix://{login}"))

        no_password, wrong = status(""), status(":wrong@")
        with redis.Redis.from_url(server.url, password="secret") as client:
            client.execute_command("ACL", "SETUSER", "few", "on", ">secret", "+info")
            few_rights = status("few:secret@")
            client.config_set("maxmemory-policy", "allkeys-lru")
        evicting = status(":secret@")
    nobody = skitter("status", "--redis", "redis://127.0.0.1:1")

    for answer, says in (
        (no_password, "rejected our login (Authentication required)"),
        (wrong, "rejected our login"),
        (wrong, "as in redis://:PASSWORD@host:6379 or redis://USER:PASSWORD@host:6379."),
        (few_rights, "does not give our user enough rights (User few has no permissions"),
        (evicting, "may evict keys (maxmemory-policy allkeys-lru)"),
        (nobody, "does not answer"),
    ):
        assert answer.exit_code == 3, answer
        assert says in answer.err
        assert "secret" not in answer.err
        assert "Traceback" not in answer.err


FINE = {
    "name": "valkey",
    "version": "9.1.2",
    "uptime_s": 5,
    "pid": 7,
    "memory_bytes": 10,
    "max_memory_bytes": 0,
    "eviction": "noeviction",
    "append_only": True,
    "append_fsync": "everysec",
    "last_write_ok": True,
}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({}, None),
        ({"append_only": False}, "appendonly is off"),
        ({"append_fsync": "no"}, "appendfsync is 'no'"),
        ({"append_fsync": None}, None),
        ({"last_write_ok": False}, "the last write to disk failed"),
        ({"memory_bytes": 90, "max_memory_bytes": 100}, "memory is 90% full"),
    ],
)
def test_the_doctor_knows_what_to_do(change, says):
    problems = problems_of(ServerFacts(**{**FINE, **change}))

    assert (says is None and problems == []) or says in problems[0]
