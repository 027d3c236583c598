"""profile: where the time of a page goes, layer by layer, as py-spy samples it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec

from skitter.bench.crawl.field import begin, check_all, worker_words
from skitter.bench.crawl.processes import run_to_end
from skitter.bench.crawl.worker import Worked
from skitter.bench.peers import _environment
from skitter.bench.report import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from skitter.bench.ground import Ground

PY_SPY: Final = ("py-spy==0.4.3",)
SAMPLES_A_SECOND: Final = 500
CONCURRENT: Final = 64
LIMIT_S: Final = 180.0

#: The first that matches decides, from the innermost frame outwards: what is in a frame's name.
#: Frames that match nothing (urls.py, the standard library) belong to whoever called them.
LAYERS: Final = (
    ("_find_links (skitter/page.py", "links: select, join, requests"),
    ("follow_all (skitter/page.py", "links: select, join, requests"),
    ("_urls (skitter/page.py", "links: select, join, requests"),
    ("_find_base (skitter/page.py", "links: select, join, requests"),
    ("skitter/page.py", "parse: decode, lexbor, title"),
    ("skitter/fetch/encoding.py", "parse: decode, lexbor, title"),
    ("skitter/fetch/robots.py", "robots.txt"),
    ("skitter/worker/robots.py", "robots.txt"),
    ("_is_news (skitter/worker/attempt.py", "links: known lately?"),
    ("LinkMemory", "links: known lately?"),
    ("knows (skitter/worker/endings.py", "links: known lately?"),
    ("add (skitter/worker/endings.py", "links: known lately?"),
    ("skitter/fetch/", "fetch: client"),
    ("skitter/spider/scope.py", "scope"),
    ("skitter/spider/", "spider: handler, items"),
    ("bench/crawl/worker.py", "spider: handler, items"),
    ("skitter/frontier/", "frontier: client"),
    ("redis/", "frontier: client"),
    ("skitter/worker/", "worker"),
)
LOOP: Final = "event loop and the rest"
THREADS: Final = "fetch: wreq's own threads"


def find_py_spy() -> Path:
    """py-spy, installed if it is not yet. Raises InfrastructureError."""
    return _environment("py-spy", PY_SPY).with_name("py-spy")


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
        if "Worker.run" in frames or "work (" in frames or "run_until_complete" in frames:
            counted[layer_of(frames.split(";"))] += int(number)
    return counted


def layer_of(frames: list[str]) -> str:
    for frame in reversed(frames):
        for part, layer in LAYERS:
            if part in frame:
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
