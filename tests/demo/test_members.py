"""The members' corner: a form, a token, cookies; and the demo's spiders for what is not plain."""

from __future__ import annotations

import pytest

from demo.raw import Wire, head
from skitter.demo import MEMBERS
from skitter.demo.site.special import EDITIONS, PASSWORD, TOKEN, USER
from skitter.spider.importing import load_spider


@pytest.fixture
async def wire(shop):
    async with Wire(shop.port) as opened:
        yield opened


async def log_in(wire, body: str, *, cookie: str = f"visit={TOKEN}"):
    data = body.encode()
    wire.send(
        head("/members/login", method="POST", content_length=str(len(data)), cookie=cookie) + data
    )
    return await wire.read()


async def test_a_stranger_is_sent_to_the_form(wire):
    reply = await wire.get("/members/3")
    assert (reply.status, reply.headers["location"]) == (302, "/members/login")
    form = await wire.get("/members/login")
    assert TOKEN in form.body.decode()
    assert form.headers["set-cookie"].startswith(f"visit={TOKEN}")


async def test_who_logs_in_gets_a_cookie_that_opens_the_door(wire):
    reply = await log_in(wire, f"token={TOKEN}&user={USER}&password={PASSWORD}")
    assert (reply.status, reply.headers["location"]) == (303, "/members/")
    cookie = reply.headers["set-cookie"].partition(";")[0]
    assert (await wire.get("/members/3", cookie=cookie)).status == 200
    assert (await wire.get(f"/members/{EDITIONS}", cookie=cookie)).status == 404


@pytest.mark.parametrize(
    ("body", "cookie"),
    [
        (f"token={TOKEN}&user={USER}&password=wrong", f"visit={TOKEN}"),
        (f"user={USER}&password={PASSWORD}", f"visit={TOKEN}"),
        (f"token={TOKEN}&user={USER}&password={PASSWORD}", ""),  # the form of another visit
        ("\xff&;=%%", "=;;\\"),
    ],
)
async def test_who_does_not_know_the_word_sees_the_form_again(wire, body, cookie):
    assert (await log_in(wire, body, cookie=cookie)).status == 403


async def test_the_price_of_a_signed_copy_is_not_in_its_html(wire):
    page = (await wire.get("/signed/2")).body.decode()
    assert '<p class="price"></p>' in page
    assert "<script>" in page


async def test_the_demos_spider_logs_in_and_finds_all_editions(shop, tmp_path, monkeypatch):
    monkeypatch.setenv("SKITTER_DEMO_URL", shop.url)
    monkeypatch.setenv("SKITTER_DIR", str(tmp_path / "v"))
    monkeypatch.chdir(tmp_path)
    report = await load_spider(MEMBERS).run("editions.jsonl")
    assert report.pages == EDITIONS + 1
    assert len((tmp_path / "editions.jsonl").read_text().splitlines()) == EDITIONS
    asked = [entry.target for entry in shop.log.entries]
    assert asked.count("/members/login") == 2  # the form, and what was filled in: once
