"""The delay of a host and the reason for it, as lua/lib/delay.lua decides it."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skitter.settings import Politeness


class Incident(IntEnum):
    """Ways of a host to say that it has had enough; else it is the status of its answer."""

    REFUSED = 1
    BLOCKED = 2


class Delay(NamedTuple):
    """Seconds between two requests, and why so many."""

    seconds: float
    why: str


def delay_of(own: Mapping[str, float], politeness: Politeness) -> Delay:
    """What few hosts have for themselves is in `own`; the others keep to the job's delay."""
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
