"""Who may ask for what: tokens, scopes, sessions, forgery."""

from __future__ import annotations

import re
import stat
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import msgspec
import pytest

from skitter.frontier.jobs import create_job
from skitter.frontier.records.operators import (
    list_logouts,
    list_tokens,
    new_token,
    note_logout,
    revoke_token,
)
from skitter.frontier.sites.sessions import Cost, FleetRoutes, Settled
from skitter.frontier.transport.connection import Server
from skitter.frontier.transport.keys import LOGOUTS, TOKENS
from skitter.model import Request
from skitter.server import keyring as rules
from skitter.server.api.routes import ROUTES
from skitter.server.keyring import Failures, Keyring, own_token, session_key
from skitter.server.problems import Refusal
from skitter.server.serving import Address, listen, serving
from skitter.server.site import Site
from waiting import until_async

OPEN = {"/healthz", "/api/login", "/api/logout", "/api/me"}


def test_every_route_but_a_few_wants_a_token():
    assert {route.path for route in ROUTES if route.scope is None} == OPEN


async def test_without_a_token_nothing_is_answered(client_with):
    client = await client_with()
    for route in ROUTES:
        if route.scope:
            answer = await client.request(route.method, route.path)
            assert (answer.status_code, route) == (401, route)
            assert answer.headers["www-authenticate"] == "Bearer"


async def test_a_token_that_nobody_made_is_refused(client_with):
    client = await client_with()
    for given in (b"Bearer", b"Bearer x", b"Bearer skt_000000000000_" + b"a" * 43, b"Basic YTpi"):
        answer = await client.get("/api/jobs", headers={"authorization": given})
        assert (answer.status_code, answer.json()["type"]) == (401, "urn:skitter:unauthorized")


async def test_scopes_are_obeyed(client_with, frontier, job):
    read, push = await client_with("read"), await client_with("push")

    assert (await read.get(f"/api/jobs/{job}")).status_code == 200
    assert (await push.get(f"/api/jobs/{job}")).status_code == 403
    refused = await read.post(f"/api/jobs/{job}/pause")
    assert refused.status_code == 403
    assert "operate" in refused.json()["detail"]
    assert (await frontier.stats()).state == "running"


async def test_a_revoked_token_is_refused(web, server, site, monkeypatch):
    monkeypatch.setattr(rules, "FRESH_S", 0.0)
    token = web.headers["authorization"].split("_")[1]
    assert (await web.get("/api/jobs")).status_code == 200

    await revoke_token(server, token)

    assert (await web.get("/api/jobs")).status_code == 401


async def test_the_server_keeps_no_token(server):
    token = await new_token(server, name="x", scopes=["read"])

    stored = await server.command("HVALS", TOKENS)
    assert not any(token.split("_", 2)[2].encode() in value for value in stored)


async def test_records_that_make_no_sense_let_nobody_in(server):
    await server.command("HSET", TOKENS, "nonsense", b"{")
    try:
        assert "nonsense" not in {one.id for one in await list_tokens(server)}
    finally:
        await server.command("HDEL", TOKENS, "nonsense")


async def test_a_browser_logs_in_changes_something_with_its_csrf_and_logs_out(
    client_with, server, frontier, job
):
    browser, token = await client_with(), await new_token(server, name="b", scopes=["operate"])
    answer = await browser.post("/api/login", json={"token": token})
    cookie = answer.headers["set-cookie"]
    csrf = answer.json()["csrf"]
    pause = f"/api/jobs/{job}/pause"

    assert all(word in cookie for word in ("HttpOnly", "SameSite=Strict", "skitter_session_"))
    assert (await browser.get("/api/me")).json() == answer.json()
    assert (await browser.get(f"/api/jobs/{job}")).status_code == 200
    forged = await browser.post(pause)
    assert (forged.status_code, forged.json()["field"]) == (403, "X-CSRF-Token")
    assert (await browser.post(pause, headers={"x-csrf-token": "x" * 43})).status_code == 403
    assert (await browser.post(pause, headers={"x-csrf-token": csrf})).status_code == 200
    await browser.post("/api/logout")
    assert (await browser.get("/api/me")).status_code == 401


def cookie_of(client: httpx.AsyncClient, value: str) -> dict[str, str]:
    """The header of a browser that has this session."""
    return {"cookie": f"skitter_session_{client.base_url.port}={value}"}


async def log_in(client: httpx.AsyncClient, server: Server) -> str:
    """The value of the cookie."""
    token = await new_token(server, name="b", scopes=["read"])
    await client.post("/api/login", json={"token": token})
    [cookie] = client.cookies.values()
    return cookie


async def test_after_a_log_out_a_copy_of_the_cookie_is_refused(client_with, server, site):
    browser, thief = await client_with(), await client_with()
    copied = cookie_of(browser, await log_in(browser, server))
    other = await client_with()
    await log_in(other, server)
    assert (await thief.get("/api/me", headers=copied)).status_code == 200

    await browser.post("/api/logout")

    assert (await thief.get("/api/me", headers=copied)).status_code == 401
    assert (await other.get("/api/me")).status_code == 200
    again = Keyring(server, site.keyring.key)  # of a server that was started again, or another one
    assert await again.by_session(copied["cookie"].partition("=")[2]) is None


async def test_sessions_that_have_ended_by_themselves_are_forgotten(server):
    await note_logout(server, "old", until=10, now=5)
    await note_logout(server, "new", until=20, now=15)

    found = await list_logouts(server)
    assert (found.get("old"), found.get("new")) == (None, 20)
    await server.command("ZREM", LOGOUTS, "new")


async def test_two_dashboards_on_a_host_have_a_cookie_each(client_with, server, site):
    listener = listen(Address())
    async with serving(Site(server, Keyring(server, b"another key")), listener):
        browser = await client_with()
        await log_in(browser, server)
        token = await new_token(server, name="c", scopes=["read"])
        second = Address().url(listener)
        await browser.post(f"{second}api/login", json={"token": token})

        assert (await browser.get(f"{second}api/me")).json()["name"] == "c"
        assert (await browser.get("/api/me")).json()["name"] == "b"


async def test_a_session_that_we_did_not_sign_is_refused(client_with):
    client = await client_with()
    for cookie in ("", "x", "a.b.c.d", "000000000000.99999999999.x.y", "..."):
        answer = await client.get("/api/me", headers=cookie_of(client, cookie))
        assert answer.status_code == 401


async def test_a_session_ends_by_itself(client_with, server, site, monkeypatch):
    browser, token = await client_with(), await new_token(server, name="b", scopes=["read"])
    monkeypatch.setattr(rules, "SESSION_S", -1)
    found = await site.keyring.by_token(token)
    cookie = site.keyring.new_session(found)

    answer = await browser.get("/api/me", headers=cookie_of(browser, cookie))
    assert answer.status_code == 401


async def test_a_link_logs_in_once(client_with, server, site):
    token = await new_token(server, name="owner", scopes=["operate"])
    site.keyring.owner = token.split("_")[1]
    code = site.keyring.one_time_code()
    client = await client_with()

    first = await client.post("/api/login", json={"token": code})
    again = await client.post("/api/login", json={"token": code})

    assert (first.status_code, first.json()["name"]) == (200, "owner")
    assert again.status_code == 401


async def test_failed_log_ins_are_limited_by_address(client_with):
    client = await client_with()
    answers = [await client.post("/api/login", json={"token": "x"}) for _ in range(11)]

    assert [one.status_code for one in answers] == [401] * 10 + [429]
    assert int(answers[-1].headers["retry-after"]) > 0


def test_failures_are_forgotten_after_a_while_and_bounded():
    failures = Failures()
    for _ in range(rules.FAILURES):
        failures.note("a", 0.0)
    with pytest.raises(Refusal):
        failures.check("a", 1.0)
    failures.check("a", rules.FAILURES_S + 1)
    for i in range(2 * rules.MAX_ADDRESSES):
        failures.note(str(i), 0.0)
    assert len(failures._times) == rules.MAX_ADDRESSES


async def test_the_own_token_is_made_once_and_kept_for_its_owner_alone(server, tmp_path):
    server.directory = tmp_path
    first = await own_token(server)
    again = await own_token(server)

    assert (first.is_new, again.is_new) == (True, False)
    assert first.text == again.text == first.file.read_text().strip()
    assert stat.S_IMODE(first.file.stat().st_mode) == 0o600
    await revoke_token(server, first.id)
    assert (await own_token(server)).is_new
    assert session_key(server) == session_key(server)


async def test_of_a_server_elsewhere_it_is_kept_in_the_state_directory(
    server, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    file = (await own_token(server)).file

    assert tmp_path in Path(file).parents


async def test_a_token_of_some_jobs_knows_of_no_other(server, address, job):
    """Not even by the words of a refusal."""
    mine, other = await create_job(server, f"{job}-mine"), await create_job(server, f"{job}-other")
    token = await new_token(server, name="t", scopes=["operate"], jobs=[f"{job}-m*"])
    headers = {"authorization": f"Bearer {token}"}
    for frontier, site in ((mine, f"{job}-mine.test"), (other, f"{job}-other.test")):
        await frontier.add([Request(f"http://www.{site}:8080/")])
        went = Settled(route=f"r-{job}", domain=site, verdict="good", cost=Cost(1, 0))
        await FleetRoutes.on(server).settle([went])
    async with httpx.AsyncClient(base_url=address, headers=headers, timeout=60) as client:
        routes = (await client.get(f"/api/jobs/{mine.job}/routes")).json()["rows"]
        assert {one["domain"] for one in routes} == {"(all)", f"{job}-mine.test"}
        names = [one["job"] for one in (await client.get("/api/jobs")).json()["rows"]]
        assert names == [mine.job]
        assert (await client.get(f"/api/jobs/{mine.job}")).status_code == 200
        assert (await client.post(f"/api/jobs/{mine.job}/pause")).status_code == 200
        for route in ROUTES:
            path = route.path.replace("{job}", other.job)
            if "{job}" in route.path:
                answer = await client.request(route.method, re.sub(r"{\w+}", "x", path))
                assert (answer.status_code, route) == (404, route)
                gone = answer.text.replace(other.job, "JOB")
        missing = await client.get(f"/api/jobs/{job}-missing")
        assert missing.text.replace(f"{job}-missing", "JOB") == gone
        assert mine.job not in gone
        assert (await client.get("/metrics")).status_code == 403
        made = await client.post("/api/jobs", json={"job": f"{job}-new"})
        assert (made.status_code, made.json()["field"]) == (403, "job")
        assert (await client.get("/api/events", params={"job": other.job})).status_code == 404
        async with client.stream("GET", "/api/events") as stream:
            lines = stream.aiter_lines()
            told = [line async for line in takewhile_async(lines, "event: jobs")][-1]
        assert (mine.job in told, other.job in told) == (True, False)
        assert (await client.get("/api/me")).json()["jobs"] == [f"{job}-m*"]
    [record] = [one for one in await list_tokens(server) if one.jobs]
    assert record.scopes == []  # what an older release obeys


async def takewhile_async(lines: AsyncIterator[str], until: str) -> AsyncIterator[str]:
    """Up to the line after `until`."""
    async for line in lines:
        yield line
        if line == until:
            yield await anext(lines)
            return


async def test_unknown_tokens_are_limited_by_address_and_known_ones_are_not(client_with, web):
    client = await client_with()
    codes = [
        (await client.get("/api/jobs", headers={"authorization": f"Bearer x{i}"})).status_code
        for i in range(12)
    ]
    assert (codes[0], codes[-1]) == (401, 429)
    assert (await web.get("/api/jobs")).status_code == 200


async def is_refused(client: httpx.AsyncClient, path: str, bearer: dict[str, str]) -> bool:
    return (await client.get(path, headers=bearer)).status_code == 401


async def test_a_token_that_expired_is_refused_and_so_is_the_browser_that_it_logged_in(
    server, address, job
):
    frontier = await create_job(server, job)
    token = await new_token(server, name="guest", scopes=["read"], expires_s=3600)
    [record] = [one for one in await list_tokens(server) if one.name == "guest"]
    assert record.scopes == []  # an older release, which knows no expiry, lets it do nothing
    path, bearer = f"/api/jobs/{frontier.job}", {"authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=address, timeout=60) as client:
        assert (await client.post("/api/login", json={"token": token})).status_code == 200
        assert (await client.get(path)).status_code == 200
        assert (await client.get(path, headers=bearer)).status_code == 200
        assert (await client.post(f"{path}/pause", headers=bearer)).status_code == 403

        ended = msgspec.structs.replace(record, until=time.time() - 1)
        await server.command("HSET", TOKENS, record.id, msgspec.json.encode(ended))
        await until_async(lambda: is_refused(client, path, bearer))
        assert (await client.get(path)).status_code == 401
        assert (await client.post("/api/login", json={"token": token})).status_code == 401


async def test_a_token_that_expires_while_redis_is_away_is_refused_by_what_is_known(server, job):
    keyring = Keyring(server, b"k")
    text = await new_token(server, name="soon", scopes=["read"], expires_s=3600)
    assert await keyring.by_token(text)
    identity = text.split("_")[1]
    keyring._tokens[identity] = msgspec.structs.replace(keyring._tokens[identity], until=1.0)
    keyring._proven = {text: keyring._tokens[identity]}

    assert await keyring.by_id(identity) is None
    assert await keyring.by_token(text) is None
    assert keyring.proven(text) is None
