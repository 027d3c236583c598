"""Passwords and secret headers do not reach the screen or a file unless they are asked for."""

from __future__ import annotations

import json
from itertools import product

import pytest

from skitter.errors import BadOption, ConnectFailed
from skitter.frontier.dead import dead_letters
from skitter.frontier.transport.connection import connect
from skitter.frontier.workers import log, read_log
from skitter.model import Failure, Request
from skitter.settings import JobOptions, Retries, resolve

PAGE = "https://shop.test/cart?api_key=hunter2&page=2"
LOGIN = "https://me:hunter2@shop.test/cart"


@pytest.fixture
async def letter(make_frontier):
    """One dead letter with a secret wherever one can be."""
    frontier = await make_frontier(JobOptions(retries=Retries(max_retries=0)))
    request = Request(
        PAGE,
        method="POST",
        headers={"Authorization": "Bearer hunter2", "Cookie": "id=hunter2", "Accept": "text/html"},
        body=b"password=hunter2",
        parent=LOGIN,
        meta={"login": {"password": "hunter2"}, "page": 2},
    )
    await frontier.add([request])
    [lease] = (await frontier.lease(1)).leases
    error = f"ConnectFailed: {LOGIN}: refused"
    await frontier.bury([Failure(lease=lease, error=error)])
    [found] = [each async for each in dead_letters(frontier)]
    return found


async def test_dead_letters_are_shown_without_secrets(skitter_here, job, letter):
    for words in (
        ["dead", "list", job],
        ["dead", "list", job, "--json"],
        ["dead", "show", job, letter.fingerprint],
        ["dead", "show", job, letter.fingerprint, "--json"],
        ["why", job, letter.fingerprint],
        ["why", job, letter.fingerprint, "--json"],
    ):
        answer = await skitter_here(*words)
        assert answer.exit_code == 0, answer.err
        assert "hunter2" not in answer.out
        assert "https://shop.test/cart?api_key=***&page=2" in answer.out

    shown = await skitter_here("dead", "show", job, letter.fingerprint)
    assert "Authorization: ***" in shown.out
    assert "Accept: text/html" in shown.out


async def test_secrets_are_shown_to_those_who_ask(skitter_here, job, letter):
    words = ["dead", "show", job, letter.fingerprint, "--with-secrets"]

    assert "Bearer hunter2" in (await skitter_here(*words)).out
    request = (await skitter_here(*words, "--json")).json["request"]
    assert request["headers"]["Cookie"] == "id=hunter2"
    assert request["url"] == PAGE


async def test_an_export_of_dead_letters_is_private_and_masked(skitter_here, job, letter, tmp_path):
    there, new = tmp_path / "there.jsonl", tmp_path / "new.jsonl"
    there.write_text("x" * 10_000)
    there.chmod(0o644)
    for file in (there, new):
        answer = await skitter_here("dead", "export", job, "--to", str(file))
        assert answer.exit_code == 0, answer.err
        assert file.stat().st_mode & 0o777 == 0o600
        assert "hunter2" not in file.read_text()
        assert json.loads(file.read_text())["request"]["meta"]["page"] == 2

    await skitter_here("dead", "export", job, "--to", str(new), "--with-secrets")
    assert "Bearer hunter2" in new.read_text()


@pytest.mark.parametrize(
    "url",
    [
        "redis://:hun/ter2@127.0.0.1:1/0",
        "redis://:hun#ter2@127.0.0.1:1/0",
        "redis+cluster://:hun#ter2@127.0.0.1:1",
        "redis://127.0.0.1:1?password=hunter2",
        "redis://127.0.0.1:1?password=hun;ter2",
        "redis://127.0.0.1:1/x?password=hunter2",
        "redis+sentinel://:hun/ter2@127.0.0.1:1/main",
        "redis+cluster://:hun/ter2@127.0.0.1:1",
        "http://me:hunter2@127.0.0.1:1",
        "me:hunter2@127.0.0.1",
    ],
)
def test_no_password_of_the_server_is_in_a_message(skitter, url):
    answer = skitter("status", "--redis", url)

    assert answer.exit_code in (2, 3)
    assert "hun" not in answer.out + answer.err
    assert "ter2" not in answer.out + answer.err


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://me:hun/ter2@127.0.0.1:1/items",
        "postgresql://127.0.0.1:1/items?password=hunter2",
        "postgresql://127.0.0.1:1/items?password=hunter2&port=hun",
        "postgresql://me:hunter2@127.0.0.1:x/items",
        "mysql://me:hunter2@127.0.0.1/items",
        "me:hunter2@127.0.0.1/items",
    ],
)
def test_no_password_of_a_database_is_in_a_message(skitter, job, dsn):
    skitter("push", job, "https://a.test/")
    answer = skitter("export", job, "--from", dsn, "--to", "/tmp/never-written.jsonl")

    assert answer.exit_code in (2, 3)
    assert "hun" not in answer.out + answer.err
    assert "ter2" not in answer.out + answer.err


def test_a_database_is_no_place_for_a_copy(skitter, job):
    dsn = "postgresql://me:hunter2@127.0.0.1:1/items"
    answer = skitter("export", job, "--from", "there.db", "--to", dsn)

    assert answer.exit_code == 2
    assert "postgresql://***@127.0.0.1:1/items is not a file" in answer.err


@pytest.mark.parametrize(
    "words",
    [
        ("dead", "export", "JOB", "--to", "postgresql://me:hunter2@127.0.0.1:1/items"),
        ("run", "https://me:hunter2@a.test/"),
        ("status", "postgresql://me:hunter2@127.0.0.1:1/items"),
    ],
)
def test_a_password_typed_where_none_belongs_is_not_shown(skitter, job, words):
    skitter("push", job, "https://a.test/")
    answer = skitter(*(job if word == "JOB" else word for word in words))

    assert answer.exit_code == 2
    assert "hunter2" not in answer.out + answer.err


async def test_a_slash_in_a_password_is_explained():
    with pytest.raises(BadOption, match="write / as %2F"):
        async with connect("redis://:hun/ter2@127.0.0.1:6379/0"):
            pass


async def test_what_is_logged_has_no_passwords(frontier):
    await log(frontier, "info", "w", f"at {LOGIN}?api_key=hunter2")

    [event] = await read_log(frontier)
    assert event.text == "at https://***@shop.test/cart?api_key=***"


def test_a_failed_fetch_names_its_url_without_the_password():
    error = ConnectFailed("https://me:hunter2@shop.test/", "refused by http://me:hunter2@proxy:1")

    assert str(error) == "https://***@shop.test/: refused by http://***@proxy:1"


async def test_credentials_of_hosts_are_shown_nowhere(skitter_here, monkeypatch):
    monkeypatch.setenv("SKITTER_FETCH_BASIC_AUTH", "a.test: me:hunter2")
    monkeypatch.setenv("SKITTER_FETCH_BEARER_AUTH", "b.test: hunter2")

    plain, as_json = await skitter_here("config"), await skitter_here("config", "--json")

    assert "hunter2" not in plain.out + as_json.out + repr(resolve().fetch)
    shown = json.loads(as_json.out)["fetch.basic_auth"]
    assert shown == {"value": {"a.test": "(hidden)"}, "from": "SKITTER_FETCH_BASIC_AUTH"}


#: What may be in a password, and what parsers take for something else.
ODD = ("", "/", "#", "?", "\\", "@", ";", ":", "[", "'", "%2F")
WEB = (
    "https://me:{}@127.0.0.1:1/x",
    "http://me:{}/x@127.0.0.1:1/",
    "http://127.0.0.1:1/x?token={}",
    "http://127.0.0.1:1/x?token[]={}",
    "http://127.0.0.1:1/x?a[password]={}",
    "http://127.0.0.1:1/#access_token={}",
)
DATABASES = (
    "postgresql://me:{}@127.0.0.1:1/d",
    "postgresql://me:x@{}@127.0.0.1:1/d",
    "postgresql://127.0.0.1:1/d?password={}",
    "mysql://me:{}@127.0.0.1/d",
)
SERVERS = (
    "redis://:{}@127.0.0.1:1/0",
    "rediss://me:{}@127.0.0.1:1",
    "redis+sentinel://:{}@127.0.0.1:1/m",
    "redis+cluster://:{}@127.0.0.1:1",
)
#: Every command that takes an address. Celery's fail at once on a port that is none; `map` is slow.
TYPED = (
    ("webhook add JOB URL", WEB, ODD),
    ("fetch URL", WEB, ODD),
    ("fetch http://127.0.0.1:1/ --proxy URL", WEB, ODD),
    ("map URL", WEB, "'"),
    ("push JOB URL", WEB, ODD),
    ("why JOB URL", WEB, ODD),
    ("run URL", WEB, ODD),
    ("proxy test URL", WEB, ODD),
    ("status URL", (*WEB, *DATABASES, *SERVERS), ODD),
    ("export JOB --from URL --to x.jsonl", DATABASES, ODD),
    ("export JOB --from x.db --to URL", DATABASES, ODD),
    ("dead export JOB --to URL", DATABASES, ODD),
    ("status --redis URL", SERVERS, ODD),
    ("adopt JOB --from URL", SERVERS, ODD),
    ("celery -b URL status", SERVERS[:2], "#?/;"),
    ("celery status --result-backend=URL", SERVERS[:2], "#?/;"),
)


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize(("command", "urls", "odd"), TYPED, ids=[one[0] for one in TYPED])
def test_no_command_shows_a_password_that_was_typed(skitter, job, command, urls, odd):
    """Half of it counts, too: parsers quote what they take for a port or a host."""
    skitter("create", job)
    leaks = []
    for url, mark in product(urls, odd):
        address = url.format(f"Qx7{mark}Zk9")
        words = [{"JOB": job}.get(one, one).replace("URL", address) for one in command.split()]
        answer = skitter(*words)
        if "qx7" in (said := (answer.out + answer.err).lower()) or "zk9" in said:
            leaks.append((address, said))
    assert leaks == []
