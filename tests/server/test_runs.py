"""Runs over HTTP, and by Scrapyd's names."""

from __future__ import annotations

import httpx
import pytest

from skitter.client import AsyncClient
from skitter.frontier.records.agents import Agent, Argument, Offer, report_agent
from skitter.frontier.records.operators import new_token
from skitter.frontier.records.runs import Runs
from skitter.server.api.routes import ROUTES

OFFERS = [
    Offer(name="books", job="books", target="spiders/books.py"),
    Offer(name="shop", target="spiders/shop.py", arguments=[Argument(name="kind", type="str")]),
]


@pytest.fixture(autouse=True)
async def _agent(server):
    await server.command("FLUSHALL")
    agent = Agent(name="a1", host="h", pid=1, at_most=2, offers=OFFERS)
    await report_agent(server, agent)


async def test_a_run_is_started_listed_stopped_and_repeated(web, server):
    offered = (await web.get("/api/spiders")).json()
    assert [one["name"] for one in offered["spiders"]] == ["books", "shop"]
    assert offered["agents"] == ["a1"]
    assert "limits.max_pages" in [one["key"] for one in offered["settings"]]

    body = {"spider": "shop", "arguments": {"kind": "rare"}, "settings": {"limits.max_pages": 5}}
    started = await web.post("/api/runs", json=body | {"id": "one"})
    repeated = await web.post("/api/runs", json=body | {"id": "one"})
    assert (started.status_code, repeated.status_code) == (201, 201)
    [row] = (await web.get("/api/runs")).json()["rows"]
    assert (row["id"], row["state"], row["arguments"]) == ("one", "waiting", {"kind": "rare"})

    lease = await Runs.on(server).take("a1", ["shop"])
    assert lease
    assert lease.spec.settings == {"limits.max_pages": 5}
    stopping = (await web.post("/api/runs/one/stop")).json()
    assert (stopping["state"], stopping["stopped_by"][:6]) == ("stopping", "a test")
    await Runs.on(server).end(lease, exit_code=0, report=b'{"pages": 2}')

    again = (await web.post("/api/runs/one/again")).json()
    assert (again["again"], again["state"]) == ("one", "waiting")
    rows = (await web.get("/api/runs", params={"search": "stopped"})).json()["rows"]
    assert [(one["id"], one["report"]) for one in rows] == [("one", {"pages": 2})]
    assert (await web.get("/api/runs/one/logs")).json()["rows"] == []
    assert (await web.get("/api/runs/nothing")).status_code == 404


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"spider": "bok"}, "did you mean books?"),
        ({"spider": "shop"}, "needs an argument: kind"),
        ({"spider": "books", "arguments": {"a": "1"}}, "has no argument 'a'"),
        ({"spider": "books", "settings": {"fetch.proxy": "x"}}, "a run cannot set 'fetch.proxy'"),
        ({"spider": "books", "out": "/tmp/x.db"}, "without a directory"),
    ],
)
async def test_what_no_agent_offers_is_refused_with_a_sentence(web, body, says):
    refused = await web.post("/api/runs", json=body)
    assert (refused.status_code, says in refused.json()["detail"]) == (400, True)


async def test_a_token_for_some_jobs_sees_and_starts_only_their_runs(web, address, server):
    token = await new_token(server, name="team", scopes=["operate"], jobs=["shop*"])
    headers = {"authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=address, headers=headers, timeout=60) as team:
        await web.post("/api/runs", json={"spider": "books", "id": "theirs"})
        assert (await team.post("/api/runs", json={"spider": "books"})).status_code == 403
        body = {"spider": "shop", "arguments": {"kind": "x"}}
        assert (await team.post("/api/runs", json=body | {"job": "books"})).status_code == 403
        mine = await team.post("/api/runs", json=body | {"job": "shop-1", "id": "mine"})
        assert mine.status_code == 201
        assert [one["id"] for one in (await team.get("/api/runs")).json()["rows"]] == ["mine"]
        assert (await team.get("/api/runs/theirs")).status_code == 404
        assert (await team.post("/api/runs/theirs/stop")).status_code == 404
        names = [one["name"] for one in (await team.get("/api/spiders")).json()["spiders"]]
        assert names == ["shop"]


async def test_a_token_for_some_jobs_binds_its_runs_to_them_and_sees_them_before_they_begin(
    address, server
):
    token = await new_token(server, name="team", scopes=["operate"], jobs=["shop*"])
    headers = {"authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=address, headers=headers, timeout=60) as team:
        body = {"spider": "shop", "arguments": {"kind": "x"}, "id": "mine"}
        begun = (await team.post("/api/runs", json=body)).json()
        assert (begun["job"], begun["within"]) == ("", ["shop*"])  # its arguments decide
        assert (await team.get("/api/runs/mine")).status_code == 200
        assert (await team.post("/api/runs/mine/stop")).json()["state"] == "stopped"


async def test_an_id_that_was_used_shows_no_other_run(web, address, server):
    token = await new_token(server, name="team", scopes=["operate"], jobs=["shop*"])
    await web.post("/api/runs", json={"spider": "books", "id": "used"})
    body = {"spider": "shop", "arguments": {"kind": "x"}, "job": "shop-1", "id": "used"}
    team = {"authorization": f"Bearer {token}"}
    for refused in (
        await web.post("/api/runs", json=body, headers=team),
        await web.post("/api/runs", json=body),
        await web.post("/api/runs", json={"spider": "books", "fresh": True, "id": "used"}),
    ):
        assert (refused.status_code, refused.json()["field"]) == (409, "id")
        assert "books" not in refused.text
    assert (await web.post("/api/runs", json={"spider": "books", "id": "used"})).status_code == 201


async def test_starting_needs_the_scope_operate(client_with):
    reader = await client_with("read", "push")
    assert (await reader.post("/api/runs", json={"spider": "books"})).status_code == 403
    assert (await reader.get("/api/runs")).status_code == 200


async def test_the_client_starts_a_run_and_reads_it(address, server):
    token = await new_token(server, name="a test", scopes=["operate"])
    async with AsyncClient(address, token=token) as client:
        started = await client.start("books", fresh=True)
        assert (await client.run(started["id"]))["fresh"] is True


async def test_scrapyds_clients_schedule_list_and_cancel(client_with, address, server):
    """As with `curl http://localhost:6800/schedule.json -d project=default -d spider=books`."""
    token = await new_token(server, name="cron", scopes=["operate"])
    async with httpx.AsyncClient(base_url=address, auth=("any", token), timeout=60) as curl:
        assert (await curl.get("/listprojects.json")).json()["projects"] == ["default"]
        listed = (await curl.get("/listspiders.json", params={"project": "default"})).json()
        assert (listed["status"], listed["spiders"]) == ("ok", ["books", "shop"])

        form = {"project": "default", "spider": "shop", "setting": "DOWNLOAD_DELAY=2", "kind": "x"}
        scheduled = (await curl.post("/schedule.json", data=form)).json()
        assert scheduled["status"] == "ok"
        run = await Runs.on(server).get(scheduled["jobid"])
        assert (run.settings, run.arguments) == ({"politeness.delay_s": 2.0}, {"kind": "x"})
        form = {"project": "default", "spider": "books", "jobid": "2026-11-18T01_00_00"}
        assert (await curl.post("/schedule.json", data=form)).json()["jobid"] == form["jobid"]

        lease = await Runs.on(server).take("a1", ["books"])
        assert lease
        jobs = (await curl.get("/listjobs.json", params={"project": "default"})).json()
        assert [one["id"] for one in jobs["pending"]] == [scheduled["jobid"]]
        assert [one["spider"] for one in jobs["running"]] == ["books"]
        page = (await curl.get("/jobs")).text
        assert f"<tr><td>default</td><td>shop</td><td>{scheduled['jobid']}</td><td></td>" in page
        cancel = {"project": "default", "job": scheduled["jobid"]}
        cancelled = (await curl.post("/cancel.json", data=cancel)).json()
        assert (cancelled["status"], cancelled["prevstate"]) == ("ok", "pending")
        await Runs.on(server).end(lease, exit_code=0)
        status = (await curl.get("/daemonstatus.json")).json()
        assert [status[one] for one in ("pending", "running", "finished")] == [0, 0, 2]
        assert (await curl.get("/status.json", params=cancel)).json()["currstate"] == "finished"

        unknown = await curl.post("/schedule.json", data={"project": "default", "spider": "no"})
        assert (unknown.status_code, unknown.json()["status"]) == (200, "error")
        upload = (await curl.post("/addversion.json", data={"project": "p"})).json()
        assert "code cannot be uploaded" in upload["message"]
    for refused in (await client_with(), await client_with("read")):
        answer = await refused.post("/schedule.json", data=form)
        assert answer.status_code in (401, 403)


SCHEDULE = {"project": "default", "spider": "books"}


async def test_a_page_of_another_site_cannot_schedule_with_what_a_browser_knows(
    client_with, server
):
    token = await new_token(server, name="a person", scopes=["operate"])
    foreign = {"origin": "http://evil.test"}
    browser = await client_with()
    csrf = (await browser.post("/api/login", json={"token": token})).json()["csrf"]
    for path in ("/schedule.json", "/cancel.json", "/addversion.json"):
        with_cookie = await browser.post(path, data=SCHEDULE, headers=foreign)
        assert (with_cookie.status_code, with_cookie.json()["field"]) == (403, "X-CSRF-Token")
        with_password = await (await client_with()).post(
            path, data=SCHEDULE, headers=foreign, auth=("", token)
        )
        assert with_password.status_code == 401
        assert (await browser.get(path, params=SCHEDULE)).status_code == 405
    assert (await Runs.on(server).newest(lambda run: True, limit=1))[0] == []
    ours = await browser.post("/schedule.json", data=SCHEDULE, headers={"x-csrf-token": csrf})
    assert ours.json()["status"] == "ok"


SCRAPYD = sorted(route.path for route in ROUTES if route.answer.__module__.endswith(".scrapyd"))


async def test_scrapyds_names_obey_scopes_and_jobs_and_limit_guesses(
    client_with, address, web, server
):
    assert len(SCRAPYD) == 10
    reader = await new_token(server, name="r", scopes=["read"])
    team = await new_token(server, name="t", scopes=["operate"], jobs=["shop*"])
    await web.post("/api/runs", json={"spider": "books", "id": "theirs"})
    async with httpx.AsyncClient(base_url=address, auth=("", reader), timeout=60) as client:
        for path in ("/schedule.json", "/cancel.json", "/addversion.json"):
            assert (await client.post(path, data=SCHEDULE)).status_code == 403
    async with httpx.AsyncClient(base_url=address, auth=("", team), timeout=60) as client:
        refused = (await client.post("/schedule.json", data=SCHEDULE)).json()
        assert (refused["status"], "your token is for the jobs shop*" in refused["message"]) == (
            "error",
            True,
        )
        used = {"project": "default", "spider": "shop", "kind": "x", "jobid": "theirs"}
        assert (await client.post("/schedule.json", data=used)).json()["status"] == "error"
        theirs = {"project": "default", "job": "theirs"}
        for answer in (
            await client.post("/cancel.json", data=theirs),
            await client.get("/status.json", params=theirs),
        ):
            assert "there is no run" in answer.json()["message"]
        assert (await client.get("/listjobs.json")).json()["pending"] == []
        assert "theirs" not in (await client.get("/jobs")).text
        assert (await client.get("/daemonstatus.json")).json()["pending"] == 0
    assert (await Runs.on(server).get("theirs")).state == "waiting"
    stranger = await client_with()
    codes = [(await stranger.get("/jobs", auth=("", f"x{i}"))).status_code for i in range(12)]
    assert (codes[0], codes[-1]) == (401, 429)
