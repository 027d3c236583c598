"""Write the reference pages that are generated from the code. A test fails when they drift."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields
from functools import partial
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from runpy import run_path
from textwrap import fill

import skitter
from scripts.benchmark_page import benchmarks_page, readme_commands, readme_table
from skitter import errors, settings
from skitter.cli.menu import all_commands
from skitter.engine.stages import HOOKS, STAGES, Stage
from skitter.frontier.records.exposition import PREFIX, families
from skitter.frontier.transport.keys import (
    ACTIONS,
    JOBS,
    LOGOUTS,
    PUMP_SECRET,
    PUMP_SLOTS,
    PUMPED,
    SHARD_KEYS,
    TOKENS,
)
from skitter.frontier.transport.scripts import COMMON, script, verbs
from skitter.observe.metrics import COUNTERS, TABLES, TIMINGS
from skitter.scrapy.compatibility import ATTRIBUTES, METHODS, OURS, PINNED, SETTINGS, Row
from skitter.server.api.routes import ROUTES
from skitter.urls import Canonical

ARCHITECTURE = "../architecture.md"
README = "../../README.md"
REFERENCE = Path(__file__).parent.parent / "docs" / "reference"
NOTE = "<!-- Made by `make docs` from {source}; edit that. -->\n\n"
SCRAPY_TESTS = """
## Tests of scrapy-redis

With `skitter.scrapy` in the place of the `scrapy_redis` package, 28 of the 49 tests of scrapy-redis
0.9.1 pass (Scrapy 2.19). The others pin how it works inside:

| tests | what they expect |
|---|---|
"""

SCRAPY_SETTINGS = """\
# What becomes of scrapy-redis's settings

Scrapy 2.13 to 2.19 work, with asyncio's reactor, another one of Twisted's, or none. Every item is
stored with the page that it is from; tests check that with the lowest release and the newest.

A setting is honoured, not needed, or refused with a message when the spider opens; none is
silently ignored. Skitter's own settings:

| setting | default | meaning |
|---|---|---|
{ours}

scrapy-redis's settings:

"""


def keys_page() -> str:
    rows = "\n".join(
        f"| `{spec.stored or name}{f':<{spec.family}>' if spec.family else ''}` "
        f"| {spec.type} | {spec.holds} |"
        for name, spec in SHARD_KEYS.items()
    )
    return (
        NOTE.format(source="src/skitter/frontier/transport/keys.py")
        + "# The key space\n\n"
        + f"These belong to no job: `{JOBS}`, a hash of all jobs (name -> JSON of the layout); "
        f"`{PUMPED}` and `{PUMP_SLOTS}`, hashes of the jobs and workers of Celery; "
        f"`{PUMP_SECRET}`, which signs callbacks where the broker is the same server; `{TOKENS}`, "
        f"the tokens of the HTTP API; `{ACTIONS}`, the log of who did what; `{LOGOUTS}`, browser "
        "sessions that were ended; and the keys below whose description says so. Every other key "
        "belongs to one shard of one job and begins with `skitter:{job:shard}:`. The braces put a "
        "shard into one cluster slot."
        "\n\n| key | type | holds |\n|---|---|---|\n" + rows + "\n"
    )


def scripts_page() -> str:
    parts = [NOTE.format(source="the headers in src/skitter/frontier/lua/"), "# The scripts\n"]
    for verb in verbs():
        header = script(verb).header
        takes = ", ".join(name for name, _ in header.argv if name not in ("now", "seq"))
        each = ", ".join(name for name, _ in header.each)
        says = header.summary.partition(": ")[2]
        parts.append(f"\n## {verb}\n\n{says[0].upper()}{says[1:]}\n\n")
        parts.append(f"- keys: {', '.join(f'`{key}`' for key in header.keys)}\n")
        parts += [f"- takes: {takes}\n"] if takes else []
        parts += [f"- takes for each item: {each}\n"] if each else []
        parts += [f"- then: {header.rest}\n"] if header.rest else []
        parts.append(f"- answers: {header.reply.partition(' ')[2].strip()}\n")
        parts.append(f"- cost: {header.cost}\n")
        parts += [f"- flags: {header.flags}\n"] if header.flags else []
    return "".join(parts)


def errors_page() -> str:
    for module in walk_packages(skitter.__path__, "skitter."):
        if not module.name.endswith("__main__"):  # which would run
            import_module(module.name)  # __subclasses__ knows only what was imported

    def tree(cls: type[errors.SkitterError]) -> Iterator[type[errors.SkitterError]]:
        yield cls
        for child in sorted(cls.__subclasses__(), key=lambda one: one.__name__):
            if child.__module__.startswith("skitter.") and not child.__name__.startswith("_"):
                yield from tree(child)

    rows = "\n".join(
        f"| `{cls.__name__}` | `{cls.__base__.__name__ if cls.__base__ else ''}` "
        f"| {(inspect.getdoc(cls) or '').splitlines()[0]} | {cls.exit_code} "
        f"| {'yes' if cls.retryable else ''} |"
        for cls in tree(errors.SkitterError)
    )
    return (
        NOTE.format(source="the classes of errors")
        + "# Errors and exit codes\n\nExit codes of all commands: 0 success, 1 refused, or a check "
        "failed, 2 wrong usage, 3 infrastructure, 130 interrupted; of `run` and `crawl` also "
        f"{errors.HELD}: the crawl has ended, but URLs that look like a [trap](../howto/traps.md) "
        "are held.\n\n"
        "| error | is a | when | exit code | may work later |\n|---|---|---|---|---|\n"
        + rows
        + "\n"
    )


def settings_page() -> str:
    intro = (
        "Each setting has a key in `skitter.toml`, an environment variable and, where one is "
        "named, a flag; `-s key=value` sets any of them. [How to change settings]"
        "(../howto/settings.md). `politeness`, `retries` and `limits` belong to a job and may "
        "change while it runs (`skitter set`)."
    )
    parts = [NOTE.format(source="src/skitter/settings/"), f"# Settings\n\n{fill(intro, 116)}\n"]
    for name, table in settings.TABLES.items():
        parts.append(f"\n## [{name}]\n\n{inspect.getdoc(table)}\n\n")
        parts += [_setting(one) for one in settings.options_of(table, name)]
    parts.append(f"\n## [[proxy]]\n\n{inspect.getdoc(settings.Route)}\n\n")
    parts += [_route_field(one) for one in settings.options_of(settings.Route)]
    parts.append(
        "\n# Layout of a job\n\nFixed when the job is created: `Spider(canonical=...)`, `skitter "
        "create`.\n"
    )
    for cls in (settings.Layout, settings.Bloom, Canonical):
        parts.append(
            f"\n## {cls.__name__}\n\n{inspect.getdoc(cls)}\n\n| option | default |\n|---|---|\n"
        )
        parts += [f"| `{one.name}` | {_default(one)} |\n" for one in fields(cls)]
    return "".join(parts)


def _setting(one: settings.Option) -> str:
    flags = one.declared.flag.replace("/", " ").split() or (
        [one.flag] if one in settings.JOB_OPTIONS else []
    )
    names = ", ".join(f"`{name}`" for name in (one.variable, *flags))
    takes = f"Takes {one.expected}; default {_shown(one.default)}."
    return (
        fill(
            f"- `{one.name}`: {one.declared.help} {takes} {names}.",
            116,
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        + "\n"
    )


def _route_field(one: settings.Option) -> str:
    takes = f"Takes {one.expected}; default {_shown(one.default)}."
    text = f"- `{one.name}`: {one.declared.help} {takes}"
    return fill(text, 116, subsequent_indent="  ", break_on_hyphens=False) + "\n"


def _shown(default: object) -> str:
    if isinstance(default, float):
        return f"`{default:.15g}`"
    if default == "":
        return "empty"
    if default is None:
        return "none"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    return f"`{default}`" if default not in ((), {}) else "empty"


def _default(one: object) -> str:
    default = getattr(one, "default", MISSING)
    factory = getattr(one, "default_factory", MISSING)
    if default is not MISSING:
        return "none" if default is None else f"`{default}`"
    return f"`{factory.__name__}()`" if factory is not MISSING else "required"


def cli_page() -> str:
    parts = [
        NOTE.format(source="src/skitter/cli/"),
        "# Commands\n\nCommands that need a server take `--redis URL` (or `SKITTER_REDIS_URL`) and "
        "`--dir` (or `SKITTER_DIR`); commands that print data take `--json`. Data goes to stdout, "
        "everything else to stderr.\n",
    ]
    for path, command in _commands(all_commands(), "skitter"):
        parts.append(f"\n## {path}\n\n{(command.help or '').strip()}\n\n")
        needs_server = any(one.name == "redis" for one in command.params)
        for one in command.params:
            if one.name in ("redis", "as_json", "help"):
                continue
            if one.name == "directory" and needs_server:  # that of the embedded server
                continue
            names = (
                ", ".join(f"`{name}`" for name in (*one.opts, *one.secondary_opts))
                if one.opts[0][0] == "-"
                else (f"`{one.metavar or (one.name or '').upper()}`")
            )
            parts.append(f"- {names}: {getattr(one, 'help', None) or ''}\n")
    return "".join(parts)


def _commands(command: object, path: str) -> Iterator[tuple[str, object]]:
    children = getattr(command, "commands", None)
    if children is None:
        yield path, command
        return
    for name, child in children.items():
        yield from _commands(child, f"{path} {name}")


def _first(text: str | None) -> str:
    return " ".join((text or "").split("\n\n")[0].split())


def scrapy_page() -> str:
    def table(rows: tuple[Row, ...], what: str) -> str:
        lines = "\n".join(f"| `{row.name.replace(', ', '`, `')}` | {row.becomes} |" for row in rows)
        return f"| {what} | here |\n|---|---|\n{lines}\n"

    return (
        NOTE.format(source="src/skitter/scrapy/compatibility.py")
        + SCRAPY_SETTINGS.format(
            ours="\n".join(
                f"| `{name}` | {default} | {meaning} |" for name, (default, meaning) in OURS.items()
            )
        )
        + table(SETTINGS, "setting")
        + "\n## Spiders\n\n"
        + table(ATTRIBUTES, "attribute or method")
        + "\n## Functions and other classes\n\n"
        + table(METHODS, "name")
        + SCRAPY_TESTS
        + "".join(f"| {row.name} | {row.becomes} |\n" for row in PINNED)
    )


def verbs_stub() -> str:
    """The types of the methods of Verbs, in a form that `ruff format` leaves alone."""
    types = {"int": "int", "ints": "list[int]", "list": "list[Any]", "bytes": "bytes"}
    types |= {"text": "Text", "any": "Any"}
    lines = [
        "# Made by `make docs` from the headers in lua/; edit those.",
        "from collections.abc import Iterable, Sequence",
        "from typing import Any",
        "",
        "Text = str | bytes",
        "",
        "class Verbs:",
        "    async def call(self, verb: str, each: Any = ..., **values: Any) -> Any: ...",
    ]
    for verb in verbs():
        header = script(verb).header
        kinds = [types[kind] for _, kind in header.each]
        row = kinds[0] if len(kinds) == 1 else f"tuple[{', '.join(kinds)}]"
        named = [f"{name}: {types[kind]}" for name, kind in header.argv if name not in COMMON]
        named += ["rest: Iterable[object] = ..."] if header.rest else []
        named += ["strict: bool = ..."] if "allow-oom" in header.flags else []
        named += ["replicated: bool = ..."] if "recent" in header.keys else []
        words = ["self", *([f"each: Sequence[{row}]"] if kinds else [])]
        words += ["*", *named] if named else []
        reply = types[header.reply.split()[0]].replace("Text", "bytes")
        line = f"    async def {verb}({', '.join(words)}) -> {reply}: ..."
        exploded = [f"    async def {verb}(", *(f"        {word}," for word in words)]
        lines += [line] if len(line) <= 100 else [*exploded, f"    ) -> {reply}: ..."]
    return "\n".join(lines) + "\n"


def api_reference() -> str:
    parts = [
        NOTE.format(source="src/skitter/server/api/routes.py"),
        "# The HTTP API\n\n[How to use it](../howto/api.md). Scopes: `read`, `push`, and "
        "`operate`, which includes both.\nA running server shows types and fields at `/api` and "
        "`/api/openapi.json`.\n\n",
    ]
    for route in ROUTES:
        summary = " ".join(route.summary.split())
        needs = f"scope `{route.scope}`" if route.scope else "for everybody"
        text = f"- `{route.method} {route.path}` ({needs}): {summary}"
        if names := getattr(route.query, "__struct_fields__", ()):
            text += f" Query: {', '.join(f'`{name}`' for name in names)}."
        parts.append(fill(text, 116, subsequent_indent="  ", break_on_hyphens=False) + "\n")
    return "".join(parts)


def metrics_page() -> str:
    def rows(names: dict[str, str]) -> str:
        return "".join(f"| `{name}` | {text} |\n" for name, text in names.items())

    exposed = "".join(
        f"| `{PREFIX}{one.name}` | {one.kind} | {one.help} |\n" for one in families([])
    )
    return (
        NOTE.format(source="src/skitter/observe/metrics.py")
        + "# Figures of a crawl\n\nHow to see them: [the how-to](../howto/metrics.md).\n\n"
        "## Counters\n\nIn slots of 10 s for a day, and of a minute for 7 days.\n\n"
        "| name | counts |\n|---|---|\n" + rows(COUNTERS) + "\n## Timings\n\n"
        "In log buckets of base 2^(1/16), from 8 µs to 4.6 hours; by minute for a day, and by "
        "hour for 7 days.\n\n| name | times |\n|---|---|\n" + rows(TIMINGS) + "\n## Tables\n\n"
        "Requests that went well and those that failed, their bytes and their ms; by hour for 2 "
        "days. The 100 busiest are told apart.\n\n| name | rows |\n|---|---|\n"
        + rows(TABLES)
        + "\n## Prometheus\n\nAt `/metrics` of `skitter serve`, of all jobs; the label `crawl` is "
        "the job.\n\n| metric | type | meaning |\n|---|---|---|\n" + exposed
    )


def room_indexes() -> dict[str, Callable[[], str]]:
    made = run_path(str(Path(__file__).with_name("rooms.py")))
    return {
        f"../../{init.relative_to(REFERENCE.parents[1])}": partial(made["with_index"], init)
        for init in made["rooms"]()
    }


def python_page() -> str:
    reference = run_path(str(Path(__file__).with_name("python_reference.py")))
    return NOTE.format(source="docstrings") + str(reference["python_page"]())


def decisions_page() -> str:
    folder = REFERENCE.parent / "adr"
    titles = {one.name: one.read_text("utf-8").partition("\n")[0] for one in folder.glob("0*.md")}
    rows = "".join(f"- [{titles[name].lstrip('# ')}]({name})\n" for name in sorted(titles))
    return (
        "# Decisions\n\n" + NOTE.format(source="the pages beside it") + "Each page here is one "
        "decision: what the problem was, what was decided, what else was tried, and what\n"
        "follows from it. They are numbered in the order in which they were made; a decision that "
        "no longer\nholds says so at its top.\n\n" + rows
    )


def architecture_page() -> str:
    """The page, with the list of stages as it is."""
    page = (REFERENCE / ARCHITECTURE).read_text("utf-8")
    rows = "".join(_stage(one) for one in STAGES)
    table = f"| stage | what it does | hooks | needs |\n|---|---|---|---|\n{rows}"
    between = r"(?s)(?<=engine/stages/ -->\n).*(?=<!-- end of stages)"
    return re.sub(between, f"\n{table}\n", page)


def readme_page() -> str:
    """The page, with the last figures of the benchmarks."""
    page = (REFERENCE / README).read_text("utf-8")
    between = r"(?s)(?<=<!-- make bench -->\n).*(?=<!-- end of make bench -->)"
    return re.sub(between, f"\n{readme_table()}\n{readme_commands()}\n", page)


def _stage(stage: type[Stage]) -> str:
    file = f"stages/{stage.__module__.rpartition('.')[2]}.py"
    hooks = " ".join(f"`{name}`" for name in HOOKS if hasattr(stage, name))
    return f"| `{stage.__name__}` | {_first(stage.__doc__)} `{file}` | {hooks} | {stage.needs} |\n"


PAGES = {
    ARCHITECTURE: architecture_page,
    README: readme_page,
    "../benchmarks.md": benchmarks_page,
    "../adr/index.md": decisions_page,
    "api.md": api_reference,
    "python.md": python_page,
    "../../src/skitter/frontier/transport/verbs.pyi": verbs_stub,
    **room_indexes(),
    "scrapy.md": scrapy_page,
    "keys.md": keys_page,
    "metrics.md": metrics_page,
    "scripts.md": scripts_page,
    "errors.md": errors_page,
    "options.md": settings_page,
    "commands.md": cli_page,
}


def main() -> None:
    REFERENCE.mkdir(parents=True, exist_ok=True)
    for name, make in PAGES.items():
        (REFERENCE / name).write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    main()
