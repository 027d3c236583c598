"""docs/benchmarks.json: the last figures of each part, from which `make docs` writes the page."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from benchmarks.report import Finding, Machine

if TYPE_CHECKING:
    from benchmarks.report import Report

RECORD: Final = Path(__file__).parents[1] / "docs" / "benchmarks.json"


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """One part: when and where, and what was found."""

    machine: Machine
    findings: list[Finding]


#: By suite and part.
Record = dict[str, dict[str, Measured]]


def read_record(file: Path = RECORD) -> Record:
    return msgspec.json.decode(file.read_bytes(), type=Record) if file.exists() else {}


def write_record(suite: str, report: Report, file: Path = RECORD) -> None:
    """Parts that were not measured stay as they are."""
    record = read_record(file)
    for part, found in groupby(report.findings, key=lambda finding: finding.name):
        findings = [msgspec.structs.replace(one, rounds=[], peer_rounds=[]) for one in found]
        measured = Measured(machine=report.machine, findings=findings)
        record.setdefault(suite, {})[part] = measured
    file.write_bytes(msgspec.json.format(msgspec.json.encode(record)) + b"\n")
