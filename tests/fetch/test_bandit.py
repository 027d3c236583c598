"""The choice of a route, simulated: chance is an argument, so that each run is the same again."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from skitter.engine.proxies.bandit import Aims, Arms, Price, choose

DIRECT, CHEAP, DEAR = "direct", "cheap", "dear"
PRICES = {DIRECT: Price(), CHEAP: Price(0.001), DEAR: Price(0.008)}
SEEDS = range(40)


def simulate(
    seed: int,
    rates: Callable[[int], dict[str, float]],
    *,
    requests: int,
    aims: Aims | None = None,
    prices: dict[str, Price] = PRICES,
    seconds: dict[str, float] | None = None,
) -> list[str]:
    """The routes that were taken."""
    chance, known, taken = Random(seed), Arms(), []
    for number in range(requests):
        route = choose(prices, known, aims or Aims(), chance=chance)
        good = chance.random() < rates(number)[route]
        known.learn(route, is_good=good, seconds=(seconds or {}).get(route, 0.2), mb=0.05, now_ms=0)
        taken.append(route)
    return taken


def moved_after(taken: list[str], route: str, start: int = 0) -> int:
    """Requests until 16 of 20 in a row take the route."""
    for at in range(start, len(taken) - 20):
        if taken[at : at + 20].count(route) >= 16:
            return at - start
    return len(taken)


def share(taken: list[str], route: str) -> float:
    return taken.count(route) / len(taken)


def quantile(values: list[int], part: float) -> int:
    return sorted(values)[int(part * (len(values) - 1))]


def banned_for_a_while(number: int) -> dict[str, float]:
    return {DIRECT: 0.02 if 500 <= number < 1200 else 0.98, CHEAP: 0.9, DEAR: 0.97}


def test_traffic_leaves_a_banned_route_within_200_requests_and_comes_back_within_150():
    runs = [simulate(seed, banned_for_a_while, requests=1700) for seed in SEEDS]
    left = [moved_after(taken, CHEAP, 500) for taken in runs]
    back = [moved_after(taken, DIRECT, 1200) for taken in runs]
    assert max(left) <= 200
    assert quantile(back, 0.5) <= 100
    assert quantile(back, 0.9) <= 150


def test_the_dear_route_is_bought_where_nothing_else_is_good_enough():
    rates = {DIRECT: 0.02, CHEAP: 0.3, DEAR: 0.97}
    runs = [simulate(seed, lambda _: rates, requests=600) for seed in SEEDS]
    assert min(share(taken[200:], DEAR) for taken in runs) > 0.85


def test_the_cheapest_that_is_good_enough_is_taken_also_if_a_dear_one_is_better():
    rates = {DIRECT: 0.02, CHEAP: 0.85, DEAR: 0.99}
    runs = [simulate(seed, lambda _: rates, requests=600) for seed in SEEDS]
    assert min(share(taken[200:], CHEAP) for taken in runs) > 0.7


@pytest.mark.parametrize(("value", "best"), [(0.05, DEAR), (0.006, CHEAP)])
def test_a_value_per_page_says_what_is_worth_its_price(value, best):
    rates = {DIRECT: 0.02, CHEAP: 0.5, DEAR: 0.97}
    aims = Aims(page_value=value)
    runs = [simulate(seed, lambda _: rates, requests=600, aims=aims) for seed in SEEDS]
    assert min(share(taken[200:], best) for taken in runs) > 0.75


def test_of_equals_the_fast_one_wins():
    same = {"fast": Price(), "slow": Price()}
    seconds = {"fast": 0.02, "slow": 0.5}
    for seed in SEEDS:
        taken = simulate(
            seed, lambda _: dict.fromkeys(same, 1.0), requests=300, prices=same, seconds=seconds
        )
        assert share(taken[100:], "fast") > 0.9


def test_an_hour_halves_what_is_known():
    known = Arms(at=0.0)
    for _ in range(30):
        known.learn("a", is_good=False, seconds=1, mb=0, now_ms=0)
    before = known.arms["a"].bad
    known.learn("b", is_good=True, seconds=1, mb=0, now_ms=3_600_000)
    assert known.arms["a"].bad == pytest.approx(before * 0.995 / 2)


def test_a_gigabyte_has_its_price_by_the_pages_that_came():
    known = Arms()
    for _ in range(30):
        known.learn("by_gb", is_good=True, seconds=0.1, mb=5, now_ms=0)
        known.learn("by_page", is_good=True, seconds=0.1, mb=5, now_ms=0)
    prices = {"by_gb": Price(per_mb=0.008), "by_page": Price(0.01)}
    taken = {choose(prices, known, Aims(), chance=Random(seed)) for seed in SEEDS}
    assert taken == {"by_page"}
