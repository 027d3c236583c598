"""The crawl of a million pages, at a size at which it measures nothing."""

from __future__ import annotations

import pytest

from benchmarks import million
from benchmarks.million import Million
from benchmarks.suite import measure
from needs import need

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]


async def test_every_page_of_every_host_is_one_row(ground):
    need("nginx")
    findings = await measure(ground, [Million(hosts=2)])

    assert findings[0].ok
    assert findings[0].what.startswith("`skitter run`, 2,000 pages of 2 hosts")


async def test_a_crawl_that_missed_pages_is_no_result(ground, monkeypatch):
    need("nginx")
    everything = million._check

    async def check(ground, home, origins):
        await everything(ground, home, [*origins, "http://missed.example"])

    monkeypatch.setattr(million, "_check", check)
    with pytest.raises(AssertionError, match=r"1,000 rows of 1,000 pages, .* 1,000 of 2,000 done"):
        await measure(ground, [Million(hosts=1)])
