"""The shared secret: where it is found, and what a signature is good for."""

from __future__ import annotations

import os
import stat
from dataclasses import replace

import msgspec
import pytest

from skitter import Spider
from skitter.celery.config import CelerySettings, secret_in_environment
from skitter.celery.jobs import MAX_SPEC_BYTES, JobSpec, decode_spec, read_spec, register_job
from skitter.celery.scheduling import CeleryPool
from skitter.celery.security import Secret, check_permitted, find_secret, is_signed, signed
from skitter.cli.running import celery_pool
from skitter.crawl.plan import Plan
from skitter.errors import BadOption, DirectoryUnusable, NotAllowed, TooBig
from skitter.settings import FetchOptions, Settings, WorkerConfig, resolve
from skitter.trust import make_ours

OURS, THEIRS = Secret(b"ours" * 8), Secret(b"theirs" * 8)


def test_the_embedded_server_has_a_secret_that_only_its_user_can_read(tmp_path):
    where = Settings(directory=tmp_path / ".skitter")

    first, again = find_secret(None, where), find_secret(None, where)

    assert first is not None
    assert first == again
    assert len(first.key) == 64
    assert stat.S_IMODE((tmp_path / ".skitter" / "secret").stat().st_mode) == 0o600
    assert [one.name for one in (tmp_path / ".skitter").glob(".secret*")] == []
    assert repr(first.key)[2:-1] not in repr(first)


def test_a_server_elsewhere_has_none_but_the_one_that_is_given(tmp_path):
    where = Settings(redis_url="redis://elsewhere", directory=tmp_path / ".skitter")

    assert find_secret(None, where) is None
    assert find_secret("x" * 32, where) == Secret(b"x" * 32)
    assert not (tmp_path / ".skitter").exists()


def test_a_planted_secret_is_refused(tmp_path):
    (tmp_path / "elsewhere").write_text("known to somebody else")
    (tmp_path / "elsewhere").chmod(0o600)
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / "secret").symlink_to(tmp_path / "elsewhere")
    make_ours(tmp_path / "open")
    (tmp_path / "open" / "secret").write_text("known to everybody else")
    (tmp_path / "open" / "secret").chmod(0o644)
    make_ours(tmp_path / "short")
    (tmp_path / "short" / "secret").touch(mode=0o600)

    for name, words in (("link", "is a link"), ("open", "mode 644"), ("short", "too short")):
        with pytest.raises(DirectoryUnusable, match=words):  # and not obeyed
            find_secret(None, Settings(directory=tmp_path / name))


def test_many_processes_make_one_secret(tmp_path):
    """All at once, in a directory that nobody has made."""
    where = Settings(directory=tmp_path / ".skitter")
    readers = []
    for _ in range(8):
        reading, writing = os.pipe()
        if not (pid := os.fork()):
            found = find_secret(None, where)
            os.write(writing, found.key if found else b"none")
            os._exit(0)
        os.close(writing)
        readers.append((pid, reading))
    keys = set()
    for pid, reading in readers:
        keys.add(os.read(reading, 100))
        os.close(reading)
        os.waitpid(pid, 0)

    assert len(keys) == 1
    assert len(keys.pop()) == 64


def test_a_secret_that_could_be_guessed_is_refused_and_not_shown(monkeypatch):
    monkeypatch.setenv("SKITTER_SECRET", "hunter2")

    with pytest.raises(BadOption, match="at least 16 characters") as caught:
        secret_in_environment()

    assert "hunter2" not in str(caught.value)


def asked(**options):
    return WorkerConfig(fetch=FetchOptions(**options))


def test_a_signature_holds_for_one_job_and_one_content():
    config = asked(allow_hosts=("10.0.0.1",))
    spec = signed(JobSpec(job="books", target="books.py", config=config), OURS)
    travelled = decode_spec("books", msgspec.json.encode(spec, enc_hook=str))

    assert travelled is not None
    assert is_signed(travelled, OURS)
    assert not is_signed(travelled, THEIRS)
    assert not is_signed(travelled, None)
    for changes in (
        {"job": "other"},
        {"target": "evil.py"},
        {"config": asked(allow_hosts=("169.254.169.254",))},
        {"out": "evil.db"},
        {"config": asked(allow_hosts=("10.0.0.1",), obey_robots=False)},
        {"config": asked(allow_hosts=("10.0.0.1",), max_body_mb=1024)},
        {"reducer": {"task": "evil"}},
        {"run_id": "another"},
        {"signature": ""},
        {"signature": "é\ud800"},
        {"signature": spec.signature.upper()},
    ):
        assert not is_signed(msgspec.structs.replace(spec, **changes), OURS), changes


def test_parts_of_what_is_signed_cannot_be_shifted():
    signature = OURS.sign("spec", "ab", "c")

    assert OURS.has_signed(signature, "spec", "ab", "c")
    for words in (("spec", "a", "bc"), ("message", "ab", "c"), ("speca", "b", "c")):
        assert not OURS.has_signed(signature, *words)
    assert not OURS.has_signed(None, "spec", "ab", "c")


@pytest.mark.parametrize(
    "changes",
    [
        {"pumps": 10_000_000},
        {"pumps": -1},
        {"config": {"workers": {"concurrency": 0}}},
        {"config": {"workers": {"concurrency": 10**9}}},
        {"config": {"workers": {"lease_s": 0.0}}},
        {"config": {"workers": {"lease_s": 1e300}}},
        {"config": {"fetch": {"user_agent": "two\nlines"}}},
        {"job": "other"},
        {"job": "no {name}"},
        {"config": {"fetch": {"allow_hosts": ["h"] * 2000}}},
        {"kind": "shell"},
        {"target": 5},
        {"context": {"id": "x" * 2**21}},
    ],
)
def test_a_spec_out_of_bounds_counts_as_absent(changes):
    raw = msgspec.json.encode({"job": "books", "target": "books.py"} | changes)

    assert decode_spec("books", raw) is None


@pytest.mark.parametrize("raw", [b"", b"nonsense", b"[]", b"\xff", b'{"job": "books"'])
def test_what_is_not_a_spec_counts_as_absent(raw):
    assert decode_spec("books", raw) is None


async def test_a_spec_that_is_too_big_is_not_written(server):
    spec = JobSpec(job="huge", context={"id": "x", "chain": ["y" * MAX_SPEC_BYTES]})

    with pytest.raises(TooBig, match="huge"):
        await register_job(server, spec)

    assert await read_spec(server, "huge") is None


def test_a_worker_that_has_a_secret_says_who_does_not_sign():
    """`set SKITTER_SECRET` helps nobody who has set it."""
    for secret, words in ((None, "set SKITTER_SECRET"), ("x" * 32, "workers do not sign")):
        with pytest.raises(NotAllowed, match=words):
            check_permitted("shop.py", "", CelerySettings(secret=secret), signed=False)


@pytest.mark.parametrize(("words", "sent"), [({}, {}), ({"X-Flag": "1"}, {"X-Flag": "1"})])
def test_secrets_of_the_environment_are_not_stored_with_the_job(busy, monkeypatch, words, sent):
    monkeypatch.setenv("SKITTER_FETCH_HEADERS", "Authorization: hunter2")
    monkeypatch.setenv("SKITTER_FETCH_BASIC_AUTH", "a.test: me:hunter2")
    where = busy.settings.where
    given = {"fetch.headers": words} if words else {}
    config = replace(resolve(given), server=where)
    plan = Plan(spider=Spider("secretive"), job="scrape", config=config, out="", target="x.y:z")

    async def spec_of(frontier):
        pool = celery_pool(frontier, plan)
        assert isinstance(pool, CeleryPool)
        return pool.spec

    assert plan.config.fetch.headers
    fetch = busy.on_job("scrape", spec_of).config.fetch
    assert (fetch.headers, fetch.basic_auth) == (sent, {})
