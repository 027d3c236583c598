"""Credentials reach the origin that they are for, and nobody else."""

from __future__ import annotations

import logging
from base64 import b64encode

import pytest

from conftest import rude
from skitter.errors import BadOption
from skitter.fetch import FetchOptions
from skitter.frontier.jobs import create_job
from skitter.model import Request
from skitter.settings.sources import parse_setting, resolve
from skitter.spider import Scope, Spider
from web import Answer, serve_web

BASIC = "Basic " + b64encode("me:hünter2".encode()).decode()


async def test_basic_and_bearer_go_to_their_hosts_alone(caplog, client):
    async with serve_web(lambda asked: Answer()) as web:
        hosts = {
            "basic_auth": {f"one.test:{web.port}": "me:hünter2"},
            "bearer_auth": {f"TWO.test:{web.port}": "t0ken", "three.test": "of port 80 and 443"},
        }
        async with web.fetcher(client=client, **hosts) as fetcher:
            for name in ("one", "two", "three", "sub.one"):
                await fetcher.fetch(Request(web.url(host=f"{name}.test")))
            await fetcher.fetch(Request(web.url(host="one.test"), headers={"Authorization": "own"}))

    sent = [one.headers.get("authorization") for one in web.asked]
    assert sent == [BASIC, "Bearer t0ken", None, None, "own"]
    said = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert said == [
        f"the credentials for {name}.test are sent unencrypted: use https if it is available."
        for name in ("one", "two")
    ]


async def test_a_redirect_takes_them_nowhere_else(server, job):
    def site(asked):
        if asked.host == "one.test" and asked.path == "/":
            return Answer(status=302, headers=(("location", web.url("/end", host="two.test")),))
        return Answer("here")

    frontier = await create_job(server, job, options=rude())
    async with serve_web(site) as web:
        spider = Spider(job, start=[web.url(host="one.test")], scope=Scope(hosts=["*"]))

        @spider.page
        def show(page):
            return {"text": page.text}

        auth = {"basic_auth": {f"one.test:{web.port}": "me:hünter2"}}
        await web.crawl(frontier, spider, fetch=auth)

    assert [(one.host, one.headers.get("authorization")) for one in web.asked] == [
        ("one.test", BASIC),
        ("two.test", None),
    ]


def test_hosts_with_a_port_are_read_from_the_environment(monkeypatch):
    lines = "a.test: me:x: y\nb.test:8080: me:z\n[::1]:80: q:r"
    monkeypatch.setenv("SKITTER_FETCH_BASIC_AUTH", lines)

    found = resolve().fetch

    assert found.basic_auth == {"a.test": "me:x: y", "b.test:8080": "me:z", "[::1]:80": "q:r"}
    assert parse_setting("fetch.headers=X-T: 12: 30")[1] == {"X-T": "12: 30"}


@pytest.mark.parametrize(
    "options",
    [
        {"basic_auth": {"a.test": "hunter2"}},
        {"basic_auth": {"a.test": "me:hunter2\r\nX: y"}},
        {"basic_auth": {"https://a.test/": "me:hunter2"}},
        {"bearer_auth": {"a.test": "hunter2 \n"}},
        {"bearer_auth": {"a.test": "hunter2"}, "basic_auth": {"a.test": "me:hunter2"}},
    ],
)
def test_what_cannot_be_sent_is_refused_without_showing_it(options):
    with pytest.raises(BadOption) as caught:
        FetchOptions(**options)

    assert "hunter2" not in str(caught.value)
