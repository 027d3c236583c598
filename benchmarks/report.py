"""What a benchmark found: values that can be rendered or encoded."""

from __future__ import annotations

import os
import platform
from datetime import date
from importlib.metadata import version
from pathlib import Path

import msgspec


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One row: what was measured, compared with what, and whether that is good enough."""

    name: str  # the measurement it belongs to
    what: str
    unit: str
    measured: float
    beside: str = ""  # what it is compared with, and how that was measured
    peer: float | None = None
    ratio: float | None = None
    goal: str = ""
    ok: bool | None = None  # None: shown for honesty, without a goal
    rounds: list[float] = []
    peer_rounds: list[float] = []


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Where it was measured."""

    date: str
    cpu: str
    cores: int
    load: float  # over the last minute, at the start: other processes make noise
    python: str
    server: str
    event_loop: str
    peer: str = ""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run."""

    machine: Machine
    quick: bool
    seconds: float
    findings: list[Finding]

    @property
    def ok(self) -> bool:
        """Whether every goal was met."""
        return all(finding.ok is not False for finding in self.findings)

    def to_json(self) -> str:
        return msgspec.json.format(
            msgspec.json.encode({"ok": self.ok} | msgspec.to_builtins(self))
        ).decode()


def describe_machine(*, server: str, peer: str = "") -> Machine:
    return Machine(
        date=date.today().isoformat(),
        cpu=_cpu_model(),
        cores=os.cpu_count() or 1,
        load=round(os.getloadavg()[0], 2),
        python=platform.python_version(),
        server=server,
        event_loop=f"uvloop {version('uvloop')}",
        peer=peer,
    )


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()
