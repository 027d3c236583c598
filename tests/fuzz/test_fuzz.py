"""Text that nobody meant well: no error but the declared ones, and an end in bounded time.

A moment of each target in `make test`; ten minutes of them all in `make chaos`, with a seed that is
printed when it finds something. Time is that of this thread's CPU: other processes do not count.
"""

from __future__ import annotations

import random
import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from fuzz.targets import TARGETS, Target

MAX_CPU_S = 2.0  # of one input of a few hundred kilobytes at the most
CHAOS_S = 600.0


def bounded(target: Target, data: Any) -> None:
    began = time.thread_time()
    with suppress(*target.errors):
        target.run(data)
    assert time.thread_time() - began < MAX_CPU_S


def fuzz(target: Target, *, examples: int, number: int) -> None:
    @seed(number)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(target.inputs)
    def run(data: Any) -> None:
        bounded(target, data)

    run()


@pytest.mark.timeout(300)  # the limit that counts is one of CPU time
@pytest.mark.parametrize("name", TARGETS)
def test_hostile_text_is_refused_and_nothing_worse(name):
    fuzz(TARGETS[name], examples=40, number=1)


@pytest.mark.chaos
@pytest.mark.timeout(CHAOS_S)
@pytest.mark.parametrize("name", TARGETS)
def test_ten_minutes_of_hostile_text(name):
    until = time.monotonic() + CHAOS_S / len(TARGETS)
    while time.monotonic() < until:
        number = random.getrandbits(32)
        try:
            fuzz(TARGETS[name], examples=100, number=number)
        except BaseException as error:
            error.add_note(f"seed {number}")
            raise
