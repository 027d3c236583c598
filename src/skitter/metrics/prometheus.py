"""Prometheus's text format: metrics become families, families become text. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from skitter.metrics.histogram import Histogram

PREFIX: Final = "skitter_"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
#: In seconds. Fetches: up to two minutes, as long as gateways retry; waits: up to a day.
FETCH_BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
WAIT_BOUNDS: Final = (0.05, 0.25, 1, 5, 15, 60, 300, 900, 1800, 7200, 86_400)
WORK_BOUNDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 10, 60)

Kind = Literal["counter", "gauge", "histogram"]
Labels = dict[str, str]


@dataclass(slots=True)
class Family:
    """One metric, with a sample for each set of labels."""

    name: str
    kind: Kind
    help: str
    samples: list[tuple[str, Labels, float]] = field(default_factory=list)  # suffix, labels, value

    def add(self, value: float, **labels: str) -> None:
        self.samples.append(("", labels, value))

    def add_histogram(self, histogram: Histogram, bounds: Sequence[float], **labels: str) -> None:
        for bound in bounds:
            up_to = histogram.count_up_to(1000 * bound)
            self.samples.append(("_bucket", {**labels, "le": f"{bound:g}"}, up_to))
        self.samples.append(("_bucket", {**labels, "le": "+Inf"}, histogram.count))
        self.samples.append(("_sum", labels, histogram.sum_ms / 1000))
        self.samples.append(("_count", labels, histogram.count))

    def lines(self) -> Iterable[str]:
        name = PREFIX + self.name
        yield f"# HELP {name} {_escape(self.help)}"
        yield f"# TYPE {name} {self.kind}"
        for suffix, labels, value in self.samples:
            yield f"{name}{suffix}{_spell(labels)} {_number(value)}"


def render(families: Iterable[Family]) -> str:
    return "".join(f"{line}\n" for one in families for line in one.lines())


def _spell(labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{name}="{_escape_value(value)}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _escape_value(text: str) -> str:
    return _escape(text).replace('"', r"\"")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))
