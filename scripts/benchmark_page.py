"""docs/benchmarks.md and the table in README.md, made from docs/benchmarks.json."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from textwrap import fill

from benchmarks.contest import Part
from benchmarks.record import Measured, Record, read_record
from benchmarks.render import number
from benchmarks.report import Finding
from benchmarks.suites import SUITES

INTRO = """\
# Benchmarks

How fast and how small Skitter is beside scrapy-redis, Crawlee, Celery, Scrapy and FastAPI, measured
against goals that were set beforehand. Goals that were missed are in **bold**.

    make bench                                         # every suite, in a clone
    .venv/bin/python -m benchmarks crawl --only speed  # one part of one suite
    .venv/bin/python -m benchmarks --help              # --quick: a twentieth

Peers are installed into environments of their own. All contenders of a part take turns in one run,
and each keeps its best round. A suite exits with 1 if it misses a goal. No figure on this page is
written by hand: `--keep` writes what was measured to docs/benchmarks.json, and `make docs` this
page.

**How to read this.** Look at ratios first, then at CPU time. Everything (crawler, server, web site)
ran on one machine, which other programs used too: the load at the start is given with each part.
Work beside it hurts those most that use both cores, as Skitter does. Small pages from a web server
on the same machine show what the software costs; on the real web, the network and politeness
decide, and every tool here is fast enough for one host.
"""


def benchmarks_page() -> str:
    record = read_record()
    return INTRO + "".join(text for suite in SUITES for text in _suite(suite, record))


def _suite(name: str, record: Record) -> Iterator[str]:
    kept = record.get(name, {})
    parts = [part for part in SUITES[name].full if part.name in kept]
    if not parts:
        return
    title, _, more = (SUITES[name].about or "").partition("\n\n")
    single = [part.name for part in parts] == [name]
    yield f"\n## {_sentence(title, name).rstrip('.')}\n"
    yield f"\n{more}\n" if more and not single else ""
    for part in parts:
        yield from _part(name, part, kept[part.name], single=single)


def _part(suite: str, part: Part, measured: Measured, *, single: bool) -> Iterator[str]:
    about = sys.modules[type(part).__module__].__doc__ or ""
    title, _, more = about.partition("\n\n")
    if not single:
        yield f"\n### {part.name}\n\n{_sentence(title, part.name)}\n"
    more = "\n\n".join(one for one in (more.strip(), inspect.getdoc(type(part))) if one)
    yield f"\n{more}\n" if more else ""
    yield "\n| measured | Skitter | beside it | ratio | goal |\n|---|---|---|---|---|\n"
    yield "".join(map(_row, measured.findings))
    machine = measured.machine
    only = "" if single else f" --only {part.name}"
    text = (
        f"{machine.date}, load {machine.load:g} at the start, {machine.cores} cores "
        f"({machine.cpu}), Python {machine.python}, {machine.server}: `python -m benchmarks "
        f"{suite}{only}`"
    )
    yield f"\n{fill(text, 116, break_on_hyphens=False)}\n"


def _sentence(title: str, name: str) -> str:
    """What the first line of a docstring says, without the name before it."""
    text = " ".join(title.removeprefix(f"{name}: ").split())
    return text[0].upper() + text[1:]


def _row(one: Finding) -> str:
    beside = "" if one.peer is None else f"{number(one.peer)} {one.unit}"
    cells = (
        one.what,
        f"{number(one.measured)} {one.unit}",
        ", ".join(part for part in (beside, one.beside) if part),
        "" if one.ratio is None else f"{one.ratio:.2f}",
        f"**{one.goal}: missed**" if one.ok is False else one.goal,
    )
    return f"| {' | '.join(cells)} |\n"


def readme_table() -> str:
    """Pages/s of one process, and how many times as fast as each peer that is."""
    found = read_record()["crawl"]["speed"].findings
    ours, peers = found[0].measured, [one for one in found if one.what.startswith("the same")]
    rows = "".join(
        f"| {one.what.removeprefix('the same worker beside ').partition(', 64')[0]} "
        f"| {number(one.peer or 0)} | {ours / (one.peer or 1):.0f} times as fast |\n"
        for one in peers
    )
    return (
        "| 5,000 pages, one process, 2 cores | pages/s | Skitter is |\n|---|---|---|\n"
        f"| Skitter | {number(ours)} | |\n{rows}"
    )


def readme_commands() -> str:
    """Whole commands, start-up included."""
    crawl = read_record()["crawl"]
    shop = next(one for one in crawl["shop"].findings if "269" in one.what)
    plain, crawlee = crawl["catalogue"].findings
    return (
        f"Start-up included, `skitter run` crawls a shop of 269 pages in {number(shop.measured)} s "
        f"(plain Scrapy\n{number(shop.peer or 0)} s), and a catalogue of 10,500 pages into CSV in "
        f"{number(plain.measured)} s (plain Scrapy {number(plain.peer or 0)} s,\nCrawlee "
        f"{number(crawlee.peer or 0)} s).\n"
    )
