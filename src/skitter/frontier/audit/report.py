"""The result of an audit: problems, and what it could not check."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_PROBLEMS = 1000


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """A broken rule."""

    subject: str  # a fingerprint, a host, a key or a counter
    says: str


@dataclass(slots=True, kw_only=True)
class AuditReport:
    """What was checked, what was wrong, and what could not be compared."""

    job: str
    counts: Counter[str] = field(default_factory=Counter)
    problems: set[Problem] = field(default_factory=set)
    unchecked: list[str] = field(default_factory=list)
    requests: int = 0
    hosts: int = 0
    fingerprints: int = 0

    @property
    def clean(self) -> bool:
        return not self.problems

    @property
    def exact(self) -> bool:
        """Everything was compared."""
        return not self.unchecked

    @property
    def full(self) -> bool:
        """There may be more problems than are listed."""
        return len(self.problems) >= MAX_PROBLEMS

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "job": self.job,
            "clean": self.clean,
            "exact": self.exact,
            "counts": dict(self.counts),
            "checked": {
                "requests": self.requests,
                "hosts": self.hosts,
                "fingerprints": self.fingerprints,
            },
            "unchecked": self.unchecked,
            "problems": sorted(self.problems),
        }

    def note(self, subject: str, findings: Iterable[str]) -> None:
        for says in islice(findings, max(0, MAX_PROBLEMS - len(self.problems))):
            self.problems.add(Problem(subject, says))
