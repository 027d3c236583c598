"""What `set --preview` says of requests in flight, after a crawl of hosts that take their time."""

from __future__ import annotations

import asyncio
import re

import pytest

from skitter import Spider
from skitter.frontier.control import change_options, replaced
from skitter.frontier.jobs import create_job
from skitter.frontier.records.preview import preview
from skitter.model import Request
from skitter.settings import JobOptions, Limits, Politeness
from web import Answer, Asked, serve_web

SLOW_S = 0.2


async def slow(asked: Asked) -> Answer:
    await asyncio.sleep(SLOW_S)
    return Answer("<p>x</p>")


@pytest.mark.parametrize("delay_s", [0.0, 0.05])
async def test_more_requests_in_flight_take_less_time_if_answers_are_what_takes_it(
    server, job, delay_s
):
    politeness = Politeness(delay_s=delay_s, max_in_flight=1, latency_factor=0)
    limits = Limits(max_pages=5)
    frontier = await create_job(
        server, job, options=JobOptions(politeness=politeness, limits=limits)
    )
    spider = Spider("slow")
    spider.page(_nothing)
    async with serve_web(slow) as web:
        await frontier.add([Request(web.url(f"/{n}")) for n in range(105)])
        await web.crawl(frontier, spider)
    await change_options(frontier, {"max_pages": None})

    [effect] = await preview(frontier, replaced(frontier.options, {"max_in_flight": 4}))

    assert (effect.option, effect.was, effect.becomes, effect.urls) == ("max_in_flight", 1, 4, 100)
    says = re.fullmatch(
        r"known URLs would take at least (\d+) s, as \S+ has 100 of them, and it takes 0.\d s to "
        r"answer; now, at least (\d+) s, as \S+ has 100 of them, and it takes 0.\d s to answer",
        effect.says,
    )
    assert says, effect.says
    assert int(says[2]) >= 100 * SLOW_S
    assert int(says[1]) == pytest.approx(int(says[2]) / 4, abs=1)


async def _nothing(page) -> None:
    return None
