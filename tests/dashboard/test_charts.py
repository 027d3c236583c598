"""Charts: pointed at, moved along by keys, and their axes."""

from __future__ import annotations

from collections import Counter
from itertools import cycle
from typing import cast

import pytest
from playwright.async_api import expect

from dashboard.conftest import Desk
from dashboard.seeds import seed
from skitter.frontier.records.metrics import record
from skitter.frontier.transport.connection import Server
from skitter.observe.metrics import Batch

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_line_of_a_chart_is_hidden_by_its_name_and_pointing_shows_the_values(
    desk: Desk, redis: Server
) -> None:
    frontier = await seed(redis, "pointed")
    await record(frontier, Batch(counts=Counter(pages=30, items=20)))
    page = await desk.open("#/jobs/pointed/charts")
    chart = page.locator("line-chart").first
    lines = chart.locator(".line:not(.partial)")
    await expect(lines).to_have_count(3)
    await chart.get_by_role("button", name="items").click()
    await expect(lines).to_have_count(2)

    await chart.locator(".plot").hover()
    await expect(chart.locator(".readout")).to_contain_text("pages")
    await expect(chart.locator(".readout")).not_to_contain_text("items")


async def test_the_cursor_of_a_chart_moves_by_arrow_keys_and_is_read_out(
    desk: Desk, redis: Server
) -> None:
    frontier = await seed(redis, "charted")
    await record(frontier, Batch(counts=Counter(pages=30, items=20)))
    page = await desk.open("#/jobs/charted/charts")
    chart = page.locator("line-chart").first
    await expect(chart.locator(".line").first).to_be_attached()

    await chart.get_by_role("group").first.focus()
    await page.keyboard.press("End")
    await expect(chart.locator(".readout")).to_contain_text("so far")
    # To the ten seconds in which it was told; from the end again, if those were not over yet.
    keys = cycle([*["ArrowLeft"] * 12, "End"])
    while "pages 3.0, items 2.0" not in await chart.get_by_role("status").inner_text():
        await page.keyboard.press(next(keys))
    await page.keyboard.press("Home")
    await expect(chart.locator(".readout")).not_to_contain_text("so far")

    await chart.get_by_text("Table", exact=True).click()
    rows = chart.locator("tbody tr")
    assert 2 < await rows.count() <= 25
    await expect(rows.first).to_contain_text("(so far)")
    await page.get_by_role("button", name="7 d").click()
    await expect(page.locator(".plot").first).to_be_visible()
    assert "since=604800" in page.url


async def test_the_axis_of_a_chart_has_round_numbers(desk: Desk) -> None:
    async def ticks(call: str) -> list[float]:
        code = "import('./static/js/charts/scale.js').then(all => all.%s.ticks)"
        return cast("list[float]", await page.evaluate(code % call))

    page = await desk.open("#/jobs")
    kb, mb = 1024, 1024 * 1024
    assert await ticks("linear(16, [0, 1])") == [0, 5, 10, 15, 20]
    assert await ticks("linear(1600, [0, 1])") == [0, 500, 1000, 1500, 2000]
    assert await ticks("linear(0.5, [0, 1])") == pytest.approx([0, 0.2, 0.4, 0.6])
    sizes = (6e5, 1.1e6, 4e6)
    in_bytes = [await ticks(f"linear({most}, [0, 1], {{ofBytes: true}})") for most in sizes]
    assert in_bytes == [
        [0, 256 * kb, 512 * kb, 768 * kb],
        [0, 512 * kb, mb, 1.5 * mb],
        [0, mb, 2 * mb, 3 * mb, 4 * mb],
    ]
    assert await ticks("logarithmic(3, 400, [0, 1])") == [1, 10, 100, 1000]


@pytest.mark.parametrize(("minutes", "wanted"), [(5, 4), (9, 4), (20, 4), (60, 3), (10_080, 3)])
async def test_the_axis_of_a_chart_has_times_on_it(desk: Desk, minutes: int, wanted: int) -> None:
    page = await desk.open("#/jobs")
    code = f"""import('./static/js/charts/scale.js')
        .then(all => all.timeTicks(1e9, 1e9 + {60 * minutes}, {wanted}).ticks)"""

    assert 2 <= len(await page.evaluate(code)) <= wanted + 1


async def test_a_rate_falls_to_zero_when_the_last_process_stopped(desk: Desk) -> None:
    page = await desk.open("#/jobs")
    code = """import('./static/js/charts/history.js').then(({ perSecond, whileAtWork }) => {
        const pages = [null, 10, 20, ...Array(9).fill(null)];
        const over = { from: 0, step_s: 10, partial: true, series: { pages } };
        const alive = { ...over, series: { pages: [...pages.slice(0, -1), 30] } };
        const shown = [over, whileAtWork(over), whileAtWork(alive)];
        return shown.map((one) => [one.partial, perSecond(one, "pages")]);
    })"""

    whole, over, alive = await page.evaluate(code)

    assert whole == [True, [None, 1, 2, *[0] * 9]]
    assert over == [False, [None, 1, 2, 0, 0, 0]]
    assert alive == [True, [None, 1, 2, *[0] * 8, 3]]
