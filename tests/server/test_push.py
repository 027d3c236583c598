"""URLs over HTTP: one, many, a stream of lines; together, and turned away."""

from __future__ import annotations

import asyncio

import pytest

from conftest import rude
from skitter.frontier.control import change_options, set_state
from skitter.frontier.frontier import Frontier
from skitter.frontier.jobs import create_job, purge_job
from skitter.model import State
from skitter.server import presence
from skitter.server.api import push
from skitter.settings import Layout
from waiting import until_async

LINES = {"content-type": "application/x-ndjson"}


async def test_urls_are_added_once(web, frontier, job):
    path = f"/api/jobs/{job}/urls"
    first = await web.post(path, json={"urls": ["http://a.test/1", "http://a.test/2"]})
    again = await web.post(path, json={"urls": ["http://a.test/1", "http://a.test/3"]})

    assert (first.status_code, first.json()) == (202, {"new": 2, "seen": 0, "deep": 0, "bad": []})
    assert again.json() == {"new": 1, "seen": 1, "deep": 0, "bad": []}
    assert (await frontier.stats()).pending == 3


async def test_requests_have_their_fields(web, frontier, job):
    entry = {"url": "http://a.test/", "method": "POST", "body": "x=1", "meta": {"n": 1}}
    body = {"urls": ["http://a.test/", entry], "priority": 7}
    assert (await web.post(f"/api/jobs/{job}/urls", json=body)).json()["new"] == 2

    leased = [(one.priority, one.request.body) for one in (await frontier.lease(2)).leases]

    assert leased == [(7, b""), (0, b"x=1")]


async def test_lines_are_urls_or_requests_and_bad_ones_are_named(web, frontier, job):
    lines = b'http://a.test/1\n\n{"url": "http://a.test/2"}\r\n"http://a.test/3"\nnope\n{"x": 1}\n{'
    answer = await web.post(f"/api/jobs/{job}/urls", content=lines, headers=LINES)

    said = answer.json()
    assert (answer.status_code, said["new"]) == (202, 3)
    assert [one["line"] for one in said["bad"]] == [4, 5, 6]
    assert "unknown fields: x" in said["bad"][1]["reason"]


async def test_a_push_of_nothing_good_is_a_problem_that_names_the_place(web, frontier, job):
    answer = await web.post(f"/api/jobs/{job}/urls", json={"urls": ["nope"]})

    assert (answer.status_code, answer.json()["field"]) == (422, "urls[0]")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"[" * 200_000, "Expected `object`"),
        (b'{"urls": [{"url": "http://a.test/", "meta": {"x": ' + b"[" * 200_000, "too deeply"),
    ],
)
async def test_a_body_nested_too_deeply_is_a_problem(web, frontier, job, body, says):
    media = {"content-type": "application/json"}
    answer = await web.post(f"/api/jobs/{job}/urls", content=body, headers=media)

    assert answer.status_code == 422
    assert says in answer.json()["detail"]


async def test_a_stream_is_read_as_it_comes_and_in_batches(web, frontier, job, monkeypatch):
    monkeypatch.setattr(push, "BATCH", 10)
    arrived = asyncio.Event()

    async def first_batch_is_in():
        return (await frontier.stats()).pending > 0

    async def lines():
        for i in range(10):
            yield f"http://a.test/{i}\n".encode()
        await until_async(first_batch_is_in)
        arrived.set()  # the first batch is in, and the body has not ended
        for i in range(10, 15):
            yield f"http://a.test/{i}\nhttp://b.test/{i}".encode() + b"\n"

    answer = await web.post(f"/api/jobs/{job}/urls", content=lines(), headers=LINES)

    assert arrived.is_set()
    assert answer.json()["new"] == 20


async def test_pushes_that_come_while_one_is_under_way_go_together(
    web, site, frontier, job, monkeypatch
):
    calls = []
    add = Frontier.add_offers

    async def all_have_come():
        return site.pushes._jobs[job]._count == 20

    async def counted(self, offers, **links):
        calls.append(len(offers))
        if len(calls) == 1:  # it takes its time
            await until_async(all_have_come)
        return await add(self, offers, **links)

    monkeypatch.setattr(Frontier, "add_offers", counted)
    path = f"/api/jobs/{job}/urls"
    some = [web.post(path, json={"urls": [f"http://a.test/{i}"]}) for i in range(20)]
    answers = await asyncio.gather(*some)

    assert [one.json()["new"] for one in answers] == [1] * 20
    assert (len(calls), sum(calls)) == (2, 20)


async def test_pushes_that_redis_holds_up_go_together(web, site, server, frontier, job):
    path = f"/api/jobs/{job}/urls"
    await web.post(path, json={"urls": ["http://a.test/"]})
    await server.command("CLIENT", "PAUSE", "600000", "WRITE")
    some = [web.post(path, json={"urls": [f"http://a.test/{i}"]}) for i in range(20)]
    answers = asyncio.gather(*some)

    async def all_have_come():
        return site.pushes._jobs[job]._count == 20

    try:
        await until_async(all_have_come)
        waiting = len(site.pushes._jobs[job]._waiting)
    finally:
        await server.command("CLIENT", "UNPAUSE")
    assert waiting == 19
    assert [one.json()["new"] for one in await answers] == [1] * 20
    assert (await frontier.stats()).pending == 21


async def test_each_of_those_hears_of_its_own_urls(web, frontier, job):
    path = f"/api/jobs/{job}/urls"
    bodies = [{"urls": [f"http://a.test/{i}", f"http://a.test/{i + 1}"]} for i in range(20)]
    answers = await asyncio.gather(*(web.post(path, json=body) for body in bodies))

    said = [one.json() for one in answers]
    assert all(one["new"] + one["seen"] == 2 for one in said)
    assert sum(one["new"] for one in said) == 21


async def test_a_full_queue_is_for_later(web, make_frontier, job):
    await make_frontier(rude(max_pending=2))
    entries = [f"http://a.test/{i}" for i in range(5)]
    answer = await web.post(f"/api/jobs/{job}/urls", json={"urls": entries})

    assert (answer.status_code, answer.json()["type"]) == (429, "urn:skitter:queue-full")
    assert int(answer.headers["retry-after"]) > 0
    assert "2 of these went in" in answer.json()["detail"]


async def test_more_than_the_frontier_takes_in_is_for_later(web, frontier, job, monkeypatch):
    monkeypatch.setattr(presence, "MAX_WAITING", -1)
    answer = await web.post(f"/api/jobs/{job}/urls", json={"urls": ["http://a.test/"]})

    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")


async def test_a_job_that_takes_nothing_says_so(web, frontier, job):
    await set_state(frontier, State.DRAINING)
    answer = await web.post(f"/api/jobs/{job}/urls", json={"urls": ["http://a.test/"]})

    assert (answer.status_code, answer.json()["type"]) == (409, "urn:skitter:job-closed")


async def test_a_job_that_is_not_there_is_not_made(web, job):
    answer = await web.post(f"/api/jobs/{job}/urls", json={"urls": ["http://a.test/"]})

    assert answer.status_code == 404


async def test_a_job_that_was_purged_and_made_anew_is_noticed(
    web, frontier, server, job, monkeypatch
):
    monkeypatch.setattr(presence, "SAME_S", 0.0)
    path, body = f"/api/jobs/{job}/urls", {"urls": [f"http://{i}.test/" for i in range(9)]}
    await web.post(path, json=body)
    await purge_job(frontier)
    assert (await web.post(path, json=body)).status_code == 404

    again = await create_job(server, job, options=rude(), layout=Layout(shards=3))

    assert (await web.post(path, json=body)).json()["new"] == 9
    assert len((await again.lease(9)).leases) == 9


async def test_options_that_change_are_obeyed(web, frontier, job):
    await web.post(f"/api/jobs/{job}/urls", json={"urls": ["http://a.test/"]})
    await change_options(frontier, {"max_pending": 1})

    answer = await web.post(f"/api/jobs/{job}/urls", json={"urls": ["http://a.test/2"]})
    assert answer.status_code == 429


@pytest.mark.parametrize("media", ["application/x-ndjson", "application/json"])
async def test_a_line_or_a_body_beyond_all_measure_is_refused(web, frontier, job, media):
    huge = b'{"urls": ["' + b"a" * (11 * 2**20)
    answer = await web.post(f"/api/jobs/{job}/urls", content=huge, headers={"content-type": media})

    assert answer.status_code == 413


async def test_who_pushes_chooses_neither_slot_nor_identity(client_with, frontier, job):
    """With a slot for each, 38 requests would go to one host at once."""
    feeder = await client_with("push")
    many = [{"url": f"http://a.test/{n}", "slot": f"s{n}", "identity": "x"} for n in range(38)]
    ordinary = {"url": "http://a.test/0", "unique": "again", "priority": 5, "meta": {"a": 1}}
    for body in ({"urls": many}, {"urls": [ordinary]}):
        assert (await feeder.post(f"/api/jobs/{job}/urls", json=body)).status_code == 202
    lines = "".join(f'{{"url": "http://a.test/{n}", "slot": "l{n}"}}\n' for n in range(9))
    headers = {"content-type": "application/x-ndjson"}
    sent = await feeder.post(f"/api/jobs/{job}/urls", content=lines, headers=headers)

    assert (sent.json()["new"], sent.json()["seen"]) == (0, 9)
    assert (await frontier.stats()).pending == 39
    first, *others = (await frontier.lease(50)).leases
    assert first.request.meta == {"a": 1}
    assert {(one.host, one.request.slot) for one in (first, *others)} == {("a.test", "")}
