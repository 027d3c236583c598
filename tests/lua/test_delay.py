"""The delay of a host: what is configured, what robots.txt asks for, and how it answers."""

from __future__ import annotations

import pytest

from lua.conftest import HOST, visit, wait_ms
from skitter.frontier.delays import delay_of
from skitter.settings import Politeness


async def test_the_largest_wish_counts(polite, clock):
    raw = await polite()
    await raw.host(HOST, field="crawl_delay_ms", value=4000)
    await visit(raw, clock)
    assert await wait_ms(raw) == 4000

    await raw.host(HOST, field="delay_ms", value=5000)
    assert await wait_ms(raw) == 5000

    await raw.host(HOST, field="delay_ms", value=0)
    assert await wait_ms(raw) == 4000


@pytest.mark.parametrize(
    ("own", "seconds", "why"),
    [
        ({}, 1, "configured"),
        ({"delay_ms": 500}, 0.5, "its own"),
        ({"crawl_delay_ms": 4000}, 4, "robots.txt asks for it"),
        ({"latency_ms": 1500}, 3, "it takes 1.5 s to answer"),
        ({"latency_ms": 9_000_000}, 300, "it takes 9000.0 s to answer"),
        ({"delay_ms": 0, "latency_ms": 1500}, 0, "its own"),
        ({"raised_ms": 2100, "incident": 429}, 2.1, "it answered 429"),
        ({"raised_ms": 2100, "incident": 1}, 2.1, "it refused a connection"),
        ({"raised_ms": 2100, "incident": 2}, 2.1, "it showed a block page"),
        ({"raised_ms": 500, "incident": 2}, 1, "configured"),
    ],
)
async def test_python_tells_the_same_delay_and_the_reason(polite, clock, own, seconds, why):
    raw = await polite()
    for name, value in own.items():
        await raw.host(HOST, field=name, value=value)

    assert delay_of((await raw.known()).own, Politeness()) == (seconds, why)

    await visit(raw, clock)
    assert await wait_ms(raw) == (seconds * 1000 or 60_000)  # or it is leased, for that long
