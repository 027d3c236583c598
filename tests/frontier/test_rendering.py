"""Which shapes of URLs need a browser, as the fleet counts it."""

from __future__ import annotations

import pytest

from skitter.frontier.frontier import Frontier
from skitter.frontier.sites.learned import Rendering, Tried, read_rendering, rendering_field
from skitter.model import Completion, Feedback, Request

URL = "http://shop.example/book/{}"


@pytest.mark.parametrize(
    ("counts", "needs_browser", "is_hopeless"),
    [
        (Rendering(), False, False),
        (Rendering(browser=2), False, False),
        (Rendering(browser=3), True, False),
        (Rendering(plain=1, browser=4), False, False),
        (Rendering(plain=1, browser=5), True, False),
        (Rendering(neither=3), False, True),
        (Rendering(neither=8, browser=2), False, False),
    ],
)
def test_what_is_usual_decides(counts: Rendering, needs_browser: bool, is_hopeless: bool) -> None:
    assert (counts.needs_browser, counts.is_hopeless) == (needs_browser, is_hopeless)


async def test_outcomes_are_counted_by_shape_and_the_old_ones_fade(frontier: Frontier) -> None:
    async def tell(numbers: range, what: Tried) -> None:
        await frontier.add([Request(url=URL.format(i)) for i in numbers])
        for lease in (await frontier.lease(len(numbers))).leases:
            said = Feedback(rendering=rendering_field(lease.url, what))
            await frontier.complete([Completion(lease=lease, feedback=said)])

    await tell(range(5), "plain")
    await tell(range(5, 7), "browser")
    other = "http://shop.example/about"
    host = "shop.example"
    assert await read_rendering(frontier, host, URL.format(99)) == Rendering(5, 2, 0)
    assert await read_rendering(frontier, host, other) == Rendering()
    await tell(range(7, 69), "browser")
    assert await read_rendering(frontier, host, URL.format(99)) == Rendering(2, 32, 0)
