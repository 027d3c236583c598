"""profile: where the time of a page goes, layer by layer, as py-spy samples it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec

from benchmarks.crawl.field import begin, check_all, worker_words
from benchmarks.crawl.processes import run_to_end
from benchmarks.crawl.tasks import Worked
from benchmarks.peers import environment
from benchmarks.report import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from benchmarks.ground import Ground

PY_SPY: Final = ("py-spy==0.4.3",)
SAMPLES_A_SECOND: Final = 500
CONCURRENT: Final = 64
LIMIT_S: Final = 180.0

LINKS: Final = "links: select, join, make requests"
PARSE: Final = "parse: decode, lexbor, select the title"
KNOWN: Final = "links: is it news?"
ROBOTS: Final = "robots.txt"
HANDLER: Final = "spider: run the handler, check items"
FRONTIER: Final = "frontier: encode, send, decode"
WORKER: Final = "worker: slots, batches, verdicts"
#: (function, or "" for any; the end of a file or a folder in its path; layer). The first that
#: matches decides, from the innermost frame outwards: frames that match nothing, such as those of
#: urls.py and of the standard library, belong to whoever called them.
LAYERS: Final = (
    ("_find_links", "skitter/page.py", LINKS),
    ("_find_base", "skitter/page.py", LINKS),
    ("_urls", "skitter/page.py", LINKS),
    ("follow_all", "skitter/page.py", LINKS),
    ("", "skitter/page.py", PARSE),
    ("", "skitter/fetch/encoding.py", PARSE),
    ("", "skitter/fetch/robots.py", ROBOTS),
    ("", "skitter/worker/robots.py", ROBOTS),
    ("", "skitter/fetch/", "fetch: the client"),
    ("", "skitter/spider/scope.py", "scope"),
    ("_Run.sort", "skitter/spider/run.py", KNOWN),
    ("", "skitter/spider/", HANDLER),
    ("titles", "benchmarks/crawl/worker.py", HANDLER),
    ("LinkMemory", "skitter/engine/memory.py", KNOWN),
    ("", "skitter/frontier/", FRONTIER),
    ("", "site-packages/redis/", FRONTIER),
    ("", "skitter/worker/", WORKER),
)
LOOP: Final = "event loop and the rest"
THREADS: Final = "fetch: wreq's own threads"


def find_py_spy() -> Path:
    """py-spy, installed if it is not yet. Raises InfrastructureError."""
    return environment("py-spy", PY_SPY).with_name("py-spy")


async def measure_profile(ground: Ground, seed: str, py_spy: Path, *, pages: int) -> list[Finding]:
    """The CPU time of the main thread, split as the samples are; and that of wreq's threads."""
    ground.tell(f"profile: {pages:,} pages")
    frontier = await begin(ground, seed)
    stacks = ground.directory / "stacks.txt"
    words = [str(py_spy), "record", "--rate", str(SAMPLES_A_SECOND), "--format", "raw"]
    words += ["--output", str(stacks), "--full-filenames", "--"]
    words += worker_words(ground, seed, concurrency=CONCURRENT)
    worked = msgspec.convert(await run_to_end(words, limit_s=LIMIT_S), Worked)
    await check_all(frontier, pages)
    await ground.clear()
    samples = count_layers(stacks.read_text().splitlines())
    return make_findings(samples, worked)


def count_layers(stacks: Iterable[str]) -> Counter[str]:
    """Samples by layer, of lines such as `outer (file:1);inner (file:2) 17`."""
    counted: Counter[str] = Counter()
    for line in stacks:
        frames, _, number = line.rpartition(" ")
        if "<frozen importlib" not in frames:  # before the crawl
            counted[layer_of(frames.split(";"))] += int(number)
    return counted


def layer_of(frames: list[str]) -> str:
    """Of a stack, the outermost frame first."""
    for frame in reversed(frames):
        name, _, place = frame.partition(" (")
        for function, path, layer in LAYERS:
            if path in place and function in name:
                return layer
    return LOOP


def make_findings(samples: Counter[str], worked: Worked) -> list[Finding]:
    total = sum(samples.values()) or 1
    main_us = worked.main_thread_cpu_s / worked.pages * 1e6
    shares = {layer: main_us * number / total for layer, number in samples.most_common()}
    shares[THREADS] = (worked.cpu_s - worked.main_thread_cpu_s) / worked.pages * 1e6
    whole = sum(shares.values())
    return [
        Finding(
            name="profile",
            what=f"CPU of a page: {layer}",
            unit="us",
            measured=us,
            beside=f"{us / whole:.0%} of {whole:,.0f} us",
        )
        for layer, us in sorted(shares.items(), key=lambda one: -one[1])
    ]
