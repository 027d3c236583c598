"""profile: where the time per page goes, layer by layer, as sampled by py-spy."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from benchmarks.contest import Contender, Figure, Part, Row, take_turns
from benchmarks.crawl.job import crawl_all
from benchmarks.peers import environment
from skitter.errors import InfrastructureError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from benchmarks.contest import Sample
    from benchmarks.ground import Ground
    from benchmarks.worker import Worked

PY_SPY: Final = ("py-spy==0.4.3",)
SAMPLES_A_SECOND: Final = 500
LIMIT_S: Final = 180.0

LINKS: Final = "links: select, join, make requests"
PARSE: Final = "parse: decode, lexbor, select the title"
KNOWN: Final = "links: is it news?"
ROBOTS: Final = "robots.txt"
HANDLER: Final = "spider: run the handler, check items"
FRONTIER: Final = "frontier: encode, send, decode"
WORKER: Final = "worker: slots, batches, verdicts"
#: (function, or "" for any; the end of a file or a folder in its path; layer). The first match
#: decides, from the innermost frame outwards: frames that match nothing, such as those of urls.py
#: and the standard library, belong to their caller.
LAYERS: Final = (
    ("links", "skitter/spider/page/document.py", LINKS),
    ("_hrefs", "skitter/spider/page/document.py", LINKS),
    ("links", "skitter/spider/page/page.py", LINKS),
    ("follow_all", "skitter/spider/page/page.py", LINKS),
    ("_urls", "skitter/spider/page/page.py", LINKS),
    ("", "skitter/spider/page/", PARSE),
    ("", "skitter/fetch/html/", PARSE),
    ("", "skitter/fetch/robots.py", ROBOTS),
    ("", "skitter/engine/caches.py", ROBOTS),
    ("", "skitter/engine/stages/allowed.py", ROBOTS),
    ("", "skitter/fetch/", "fetch: the client"),
    ("", "skitter/spider/scope.py", "scope"),
    ("_take", "skitter/spider/run.py", KNOWN),
    ("_without_known", "skitter/engine/delivery.py", KNOWN),
    ("", "skitter/spider/", HANDLER),
    ("titles", "benchmarks/worker.py", HANDLER),
    ("", "skitter/frontier/", FRONTIER),
    ("", "site-packages/redis/", FRONTIER),
    ("", "skitter/engine/", WORKER),
)
LOOP: Final = "event loop and the rest"
THREADS: Final = "fetch: wreq's own threads"


def find_py_spy() -> Path:
    """py-spy, installed if necessary. Raises InfrastructureError."""
    return environment("py-spy", PY_SPY).with_name("py-spy")


@dataclass(frozen=True, kw_only=True)
class Profile(Part):
    """The main thread's CPU time, split in proportion to the samples; and wreq's threads'."""

    name: ClassVar[str] = "profile"
    pages: int = 5000

    async def measure(self, ground: Ground) -> list[Row]:
        worker = Contender(f"{self.pages:,} pages", partial(self._crawl, ground))
        try:
            await take_turns(ground, [worker], part=self.name, rounds=1)
        except InfrastructureError as error:  # no package index, or no permission to trace
            ground.progress(f"no profile: {error}")
            return []
        return make_rows(worker)

    async def _crawl(self, ground: Ground) -> Sample:
        stacks = ground.directory / "stacks.txt"
        py_spy = [str(await asyncio.to_thread(find_py_spy)), "record", "--full-filenames"]
        py_spy += ["--rate", str(SAMPLES_A_SECOND), "--format", "raw", "--output", str(stacks)]
        worked = await crawl_all(
            ground,
            ground.publish(self.pages),
            pages=self.pages,
            limit_s=LIMIT_S,
            before=[*py_spy, "--"],
        )
        return split_time(count_layers(stacks.read_text().splitlines()), worked)


def count_layers(stacks: Iterable[str]) -> Counter[str]:
    """Samples by layer, from lines such as `outer (file:1);inner (file:2) 17`."""
    counted: Counter[str] = Counter()
    for line in stacks:
        frames, _, number = line.rpartition(" ")
        if "<frozen importlib" not in frames:  # before the crawl
            counted[layer_of(frames.split(";"))] += int(number)
    return counted


def layer_of(frames: list[str]) -> str:
    """The layer of a stack, outermost frame first."""
    for frame in reversed(frames):
        name, _, place = frame.partition(" (")
        for function, path, layer in LAYERS:
            if path in place and function in name:
                return layer
    return LOOP


def split_time(samples: Counter[str], worked: Worked) -> Sample:
    """Microseconds per page, by layer."""
    total = sum(samples.values()) or 1
    main_us = worked.main_thread_cpu_s / worked.pages * 1e6
    shares = {layer: main_us * number / total for layer, number in samples.items()}
    shares[THREADS] = (worked.cpu_s - worked.main_thread_cpu_s) / worked.pages * 1e6
    return {Figure("us", name=layer): [us] for layer, us in shares.items()}


def make_rows(worker: Contender) -> list[Row]:
    """Largest first."""
    whole = sum(map(worker.best, worker.series))
    return [
        Row(
            what=f"CPU of a page: {layer.name}",
            figure=layer,
            ours=worker,
            beside=f"{worker.best(layer) / whole:.0%} of {whole:,.0f} us",
        )
        for layer in sorted(worker.series, key=worker.best, reverse=True)
    ]
