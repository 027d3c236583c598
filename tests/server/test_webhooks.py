"""Webhooks: signed messages to a real receiver, at least once."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, get_args

import msgspec
import pytest

from skitter.crawl.watch import Overview
from skitter.errors import BadOption
from skitter.fetch import Guard
from skitter.fetch.http.guard import authority_of
from skitter.frontier.frontier import Frontier
from skitter.frontier.items import count
from skitter.frontier.records.health import TroubleKind
from skitter.frontier.records.operators import (
    LEASE_S,
    OCCASIONS,
    WebhookMessage,
    add_webhook,
    hold_lease,
    list_deliveries,
    list_webhooks,
    new_webhook,
    save_delivery,
)
from skitter.frontier.transport.connection import Server
from skitter.frontier.workers import Heartbeat, read_log, report_machine
from skitter.model import Completion, Request, State
from skitter.server import webhooks
from skitter.server.webhooks import MAX_TRIES, Message, occasions, post, wait_s
from web import Answer, Asked, serve_web


@dataclass
class Receiver:
    """Takes messages, after so many refusals."""

    url: str = ""
    refusals: int = 0
    got: list[Asked] = field(default_factory=list)

    def answer(self, asked: Asked) -> Answer:
        self.got.append(asked)
        self.refusals -= 1
        return Answer(status=503 if self.refusals >= 0 else 204)

    @property
    def said(self) -> list[str]:
        return [json.loads(one.body)["on"] for one in self.got]


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    async with serve_web(receiver.answer) as web:
        receiver.url = web.url("/hook", host="127.0.0.1")
        yield receiver


def Sender(server: Server, **how: Any) -> webhooks.Sender:
    """One whose operator allows the receiver."""
    return webhooks.Sender(server, Guard(frozenset({"127.0.0.1"})), **how)


async def hook_of(frontier: Frontier, receiver: Receiver, **how) -> str:
    hook = new_webhook(receiver.url, how.pop("on", ()), **how)
    await add_webhook(frontier, hook)
    return hook.secret


async def finish(frontier: Frontier) -> None:
    await frontier.add([Request("http://a.test/")])
    leased = await frontier.lease(1)
    await frontier.complete([Completion(lease=one) for one in leased.leases])


async def test_the_end_of_a_crawl_is_told_once_and_signed(frontier, server, job, receiver):
    secret = await hook_of(frontier, receiver)
    sender = Sender(server)
    await sender.look_at(frontier)
    assert receiver.got == []
    await finish(frontier)
    for _ in range(3):
        await sender.look_at(frontier)

    [asked] = receiver.got
    message = json.loads(asked.body)
    assert (message["on"], message["job"], message["detail"]) == (
        "finish",
        job,
        "1 page, 0 dead letters",
    )
    assert message["overview"]["done"] == 1
    assert asked.headers["skitter-delivery"] == message["id"]
    found = re.fullmatch(r"t=(\d+),v1=([0-9a-f]{64})", asked.headers["skitter-signature"])
    assert found
    said = b"%b.%b" % (found[1].encode(), asked.body)
    assert hmac.new(secret.encode(), said, hashlib.sha256).hexdigest() == found[2]


async def test_what_holds_again_is_told_again(frontier, server, receiver):
    await hook_of(frontier, receiver, on=["finish"])
    await finish(frontier)
    await Sender(server).look_at(frontier)
    await frontier.add([Request("http://a.test/more")])
    await Sender(server).look_at(frontier)
    leased = await frontier.lease(1)
    await frontier.complete([Completion(lease=one) for one in leased.leases])
    await Sender(server).look_at(frontier)

    assert receiver.said == ["finish", "finish"]


async def test_every_trouble_is_an_occasion_and_those_of_a_kind_come_in_one_message(
    frontier, server, receiver
):
    assert {*webhooks.TROUBLES} == {*get_args(TroubleKind)}
    await hook_of(frontier, receiver, on=["machine lost"])
    await frontier.add([Request("http://a.test/")])
    now = await frontier.server_time()
    for host in ("web-1", "web-2"):
        gone = Heartbeat(name=host, host=host, pid=1, started_at=now - 90, at=now - 60)
        await report_machine(frontier, gone)
    for _ in range(2):
        await Sender(server).look_at(frontier)

    [message] = [json.loads(one.body) for one in receiver.got]
    assert re.fullmatch(
        r"web-1 has been .* it held no URL: .*; web-2 has been .*", message["detail"]
    )


async def test_changes_are_told_each_once_and_not_those_before_the_webhook(
    frontier, server, job, receiver
):
    await count(frontier, changes=5)
    await hook_of(frontier, receiver, on=["change"])
    for more in (0, 2, 0, 1, 0):
        await count(frontier, changes=more)
        for _ in range(2):  # two servers
            await Sender(server).look_at(frontier)
    said = [json.loads(asked.body) for asked in receiver.got]
    assert [one["on"] for one in said] == ["change", "change"]
    assert [one["detail"] for one in said] == [
        f"2 changes: skitter changes {job}", f"1 change: skitter changes {job}",
    ]  # fmt: skip


async def test_urls_without_a_worker_and_a_server_that_is_away_are_told(frontier, server, receiver):
    await hook_of(frontier, receiver, on=["no workers", "away"])
    await frontier.add([Request("http://a.test/")])
    sender = Sender(server)
    for _ in range(2):
        await sender.look_at(frontier)
    assert receiver.said == ["no workers"]
    detail = json.loads(receiver.got[0].body)["detail"]
    assert detail.startswith("1 URL waits, and no worker is running: skitter worker SPIDER")

    await sender.tell_away("no answer", 1000.0)  # it may be a restart
    assert receiver.said == ["no workers"]
    for now in (1030.0, 1061.0, 1066.0):
        await sender.tell_away("no answer", now)
    assert receiver.said == ["no workers", "away"]
    assert "no answer" in json.loads(receiver.got[1].body)["detail"]


async def test_a_message_that_is_not_taken_is_sent_again_later(frontier, server, receiver, clock):
    receiver.refusals = 2
    await hook_of(frontier, receiver)
    await finish(frontier)
    for _ in range(2):
        await Sender(server).look_at(frontier)  # the second one is too early
    assert len(receiver.got) == 1
    for _ in range(2):
        clock.advance(60)
        await Sender(server).look_at(frontier)

    ids = {one.headers["skitter-delivery"] for one in receiver.got}
    assert (len(receiver.got), len(ids)) == (3, 1)
    assert await list_deliveries(frontier) == []
    assert "it answered 503" in (await read_log(frontier))[-1].text


async def test_another_server_goes_on_where_one_died(frontier, server, receiver, clock):
    """It died when the message was on the server, and before it was sent."""
    await hook_of(frontier, receiver)
    [hook] = await list_webhooks(frontier)
    waiting = WebhookMessage(id="d1", webhook=hook.id, on="dead", body='{"on": "dead"}')
    await save_delivery(frontier, waiting)
    assert await hold_lease(frontier, "the one that died")

    await Sender(server, name="another").look_at(frontier)
    assert receiver.got == []
    ttl = await server.command("TTL", frontier.home.keys.key("webhook_lease"))
    assert 0 < ttl <= LEASE_S
    await server.command("DEL", frontier.home.keys.key("webhook_lease"))  # its time is over
    await Sender(server, name="another").look_at(frontier)

    assert receiver.said == ["dead"]


async def test_a_message_that_nobody_ever_takes_is_given_up_and_that_is_logged(
    frontier, server, receiver
):
    receiver.refusals = 1
    await hook_of(frontier, receiver)
    [hook] = await list_webhooks(frontier)
    body = '{"on": "dead"}'
    last = WebhookMessage(id="d1", webhook=hook.id, on="dead", body=body, tries=MAX_TRIES - 1)
    await save_delivery(frontier, last)
    await Sender(server).look_at(frontier)

    assert await list_deliveries(frontier) == []
    assert "'dead' was not delivered after 20 tries" in (await read_log(frontier))[-1].text


async def test_who_writes_to_the_server_gets_neither_private_hosts_nor_a_body_of_their_own(
    frontier, server, receiver
):
    """What another server reads there may be anyone's."""
    forged = msgspec.structs.replace(new_webhook(receiver.url), private=True)
    await add_webhook(frontier, forged)
    body = '{"id": "x", "cmd": "shutdown", "job": "y", "at": 5, "detail": "d"}'
    for number, text in enumerate((body, "cmd=shutdown", '{"detail": {"a": 1}}')):
        one = WebhookMessage(id=f"d{number}", webhook=forged.id, on="dead", body=text)
        await save_delivery(frontier, one)
    odd = {"id": "a\r\nx-evil: 1", "webhook": forged.id, "on": "dead", "body": ""}
    await frontier.home.command("HSET", "deliveries", "d4", json.dumps(odd))
    await webhooks.Sender(server).look_at(frontier)

    assert receiver.got == []
    wanted = f"set SKITTER_ALLOW_HOSTS={authority_of(receiver.url).host_port}"
    assert wanted in (await read_log(frontier))[-1].text
    for one in await list_deliveries(frontier):
        await save_delivery(frontier, msgspec.structs.replace(one, next_at=0))
    await Sender(server).look_at(frontier)
    told = {one.headers["skitter-delivery"]: json.loads(one.body) for one in receiver.got}
    assert told.keys() == {"d0", "d1", "d2"}
    for number, message in told.items():
        assert message.keys() == {"id", "on", "job", "at", "detail", "overview"}
        assert (message["id"], message["job"]) == (number, frontier.job)
    assert [told[one]["detail"] for one in sorted(told)] == ["d", "", ""]


def a_look(**counts: Any) -> Overview:
    return Overview(job="j", state=State.RUNNING, status="running", at=1.0, remaining=1, **counts)


@pytest.mark.parametrize(
    ("counts", "bad", "told"),
    [
        ({"done": 100}, [], {}),
        ({"done": 100, "dead": 5}, [], {"dead": "5 dead letters"}),
        ({"done": 10, "retried": 30}, [], {"failures": "30 of the last 40 attempts failed"}),
        ({"done": 2, "retried": 9}, [], {}),  # too few to judge
        ({"done": 30, "blocked": 10}, [], {"blocked": "10 of the last 40 were block pages"}),
        ({"done": 100}, ["title is empty"], {"quality": "title is empty"}),
    ],
)
def test_occasions_to_tell(counts, bad, told):
    hook = new_webhook("https://hook.test/", dead=5)

    assert occasions(a_look(**counts), a_look(), hook, bad) == told
    quiet = msgspec.structs.replace(hook, on=["finish"])
    assert occasions(a_look(**counts), a_look(), quiet, bad) == {}


def test_the_wait_doubles_up_to_an_hour():
    assert [wait_s(tries, 1.0) for tries in (0, 1, 2, 50)] == [5.0, 10.0, 20.0, 3600.0]
    assert wait_s(0, 0.0) == 2.5


@pytest.mark.parametrize("wrong", [{"on": ["never"]}, {"dead": 0}, {"failures": 2.0}])
def test_a_webhook_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(BadOption):
        new_webhook("https://hook.test/", wrong.pop("on", ()), **wrong)


async def test_what_goes_wrong_is_told_without_the_address_which_may_be_a_secret():
    word = "s3cr3t" * 5
    hook = new_webhook(f"http://127.0.0.1:1/services/{word}?key={word}")
    one = WebhookMessage(id="1", webhook=hook.id, on="finish", body="{}")
    allowed = Guard(frozenset({"127.0.0.1"}))
    problem = await post(Message(hook, one, a_look()), allowed, at=1)
    assert problem.startswith("127.0.0.1: ")
    assert word not in problem


async def test_webhooks_over_http(web, frontier, job):
    url = "https://hook.test/x/a-long-word-that-is-secret"
    added = await web.post(f"/api/jobs/{job}/webhooks", json={"url": url})
    assert (added.status_code, added.json()["on"]) == (201, list(OCCASIONS))
    assert added.json()["secret"].startswith("whsec_")

    [row] = (await web.get(f"/api/jobs/{job}/webhooks")).json()["rows"]
    assert (row["id"], row["secret"]) == (added.json()["id"], "")
    assert row["url"] == "https://hook.test/x/***"  # to read is not to post there
    private = await web.post(f"/api/jobs/{job}/webhooks", json={"url": "http://127.0.0.1:1/"})
    assert (private.status_code, private.json()["field"]) == (422, "url")
    query = {"id": row["id"]}
    assert (await web.delete(f"/api/jobs/{job}/webhooks", params=query)).json() == {"removed": True}
    assert (await web.delete(f"/api/jobs/{job}/webhooks", params=query)).status_code == 404
    removed, told = (await web.get(f"/api/jobs/{job}/actions")).json()["rows"]
    assert (told["what"], removed["what"]) == ("webhook_add", "webhook_remove")
    assert "url=hook.test" in told["detail"]
    assert "a-long-word" not in told["detail"]
