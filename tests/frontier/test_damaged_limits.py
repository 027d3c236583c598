"""Limits on the server that make no sense: whoever reads them says so, in a sentence."""

from __future__ import annotations

import pytest

from skitter.errors import JobDamaged
from skitter.frontier.control import change_options
from skitter.frontier.jobs import open_job


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_pages", "inf"),
        ("max_pages", "1e300"),
        ("max_in_flight", "nan"),
        ("max_in_flight", "-1"),
        ("delay_ms", "many" * 1000),
    ],
)
async def test_a_limit_out_of_bounds_is_told_and_can_be_mended(frontier, server, field, value):
    shard = frontier.shards[0]
    await server.command("HSET", shard.keys.key("control"), field, value)

    with pytest.raises(JobDamaged, match="is damaged") as caught:
        await open_job(server, frontier.job)

    assert len(str(caught.value)) < 400
    if value in ("inf", "nan") or value.startswith("many"):
        name = {"delay_ms": "delay_s"}.get(field, field)
        assert await change_options(frontier, {name: 7})


@pytest.mark.parametrize("pattern", ["re:^(?!.*/docs/)", r"re:(a)\1", "re:(", "re:.{0,900}x"])
async def test_a_pattern_that_must_not_run_is_told_and_can_be_replaced(frontier, server, pattern):
    """An older release took it, or somebody wrote it past us."""
    await server.command("HSET", frontier.shards[0].keys.key("control"), "exclude", pattern)

    with pytest.raises(JobDamaged, match=r"`skitter set \S+ --exclude \.\.\.` replaces it"):
        await open_job(server, frontier.job)
    await change_options(
        await open_job(server, frontier.job, as_found=True), {"exclude": "/docs/*"}
    )
    assert (await open_job(server, frontier.job)).options.limits.exclude == "/docs/*"
