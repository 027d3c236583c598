"""The delay of a host and the reason for it, by the rules of lua/lib/delay.lua."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skitter.settings import Politeness


class Incident(IntEnum):
    """Signs of an overloaded host; other values of `incident` are HTTP statuses."""

    REFUSED = 1
    BLOCKED = 2


class Delay(NamedTuple):
    """Seconds between two requests, and the reason."""

    seconds: float
    why: str


def delay_of(own: Mapping[str, float], politeness: Politeness) -> Delay:
    """The longest of all delays that apply. `own` holds values of this host, which most lack."""
    delay_s = politeness.delay_s if "delay_ms" not in own else own["delay_ms"] / 1000
    found = [Delay(delay_s, "its own" if "delay_ms" in own else "configured")]
    if "crawl_delay_ms" in own:
        found.append(Delay(own["crawl_delay_ms"] / 1000, "robots.txt asks for it"))
    if "latency_ms" in own and any(one.seconds for one in found):
        found.append(_by_latency(own, politeness))
    if "raised_ms" in own:
        found.append(Delay(own["raised_ms"] / 1000, f"it {_what_it_did(own)}"))
    return max(found, key=lambda one: one.seconds)


def _by_latency(own: Mapping[str, float], politeness: Politeness) -> Delay:
    latency_s = own["latency_ms"] / 1000
    at_once = own.get("max_in_flight", politeness.max_in_flight)
    seconds = min(politeness.latency_factor * latency_s / at_once, politeness.max_delay_s)
    return Delay(seconds, f"it takes {latency_s:.1f} s to answer")


def _what_it_did(own: Mapping[str, float]) -> str:
    code = int(own.get("incident", 0))
    if code == Incident.REFUSED:
        return "refused a connection"
    return "showed a block page" if code == Incident.BLOCKED else f"answered {code}"
