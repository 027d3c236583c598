"""The reference of the Python API, made from signatures and docstrings."""

from __future__ import annotations

import ast
import dataclasses
import enum
import functools
import inspect
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from textwrap import dedent, fill, indent
from typing import cast

import msgspec

import skitter


@dataclasses.dataclass(frozen=True)
class Chapter:
    """Names, in the order of a reader, and the page that shows how they are used."""

    names: str
    see: str = ""
    package: str = ""


CHAPTERS = {
    "What you write": Chapter(
        "Spider Page Request Response File Scope Drop Render load_spider run_handler items "
        "skitter.spider.page.form.Form skitter.crawl.script.Items",
        "[Write spiders](../howto/spiders.md)",
    ),
    "What you set": Chapter(
        "Politeness Retries Limits Visits JobOptions FetchOptions BrowserOptions SessionPool "
        "QualityOptions Layout Bloom Canonical",
        "[Change settings](../howto/settings.md), [every setting with its flag](options.md)",
    ),
    "What comes back": Chapter("Report Stats State", "[Run a fleet](../howto/fleet.md)"),
    "The queue alone": Chapter("URLQueue", "[Use the queue alone](../howto/queue.md)"),
    "The frontier in your own event loop": Chapter(
        "open_frontier Frontier Lease Added Completion Failure Ended",
        "[What it guarantees](../guarantees.md)",
    ),
    "Metrics of your own": Chapter(
        "Metrics skitter.measure.TimingStats", "[Metrics](../howto/metrics.md)"
    ),
    "Errors": Chapter(
        "SkitterError QueueFull LeaseLost", "[All errors, with their exit codes](errors.md)"
    ),
    "The HTTP API": Chapter(
        "skitter.client.Client skitter.client.AsyncClient skitter.model.Pushed",
        "[How to use it](../howto/api.md), [its routes](api.md)",
    ),
    "Outputs of your own": Chapter(
        "skitter.sinks.Sink skitter.sinks.Store skitter.model.Result",
        "[Store items](../howto/sinks.md)",
    ),
    "Stages of your own": Chapter(
        "skitter.engine.stages.Stage skitter.engine.visit.Visit",
        "[Change what a worker does with a page](../howto/stages.md)",
    ),
    "Celery": Chapter(
        "make_app register scrape scrape_many crawl map_reduce summarize status Status "
        "CelerySettings Queues app",
        "[Crawl on Celery workers](../howto/celery.md)",
        "skitter.celery",
    ),
    "Scrapy": Chapter(
        "Scheduler RFPDupeFilter RequestFingerprinter RedisPipeline ItemPipeline RedisSpider "
        "RedisCrawlSpider RedisMixin RedisStatsCollector PriorityQueue FifoQueue LifoQueue "
        "get_redis get_redis_from_settings",
        "[Run Scrapy spiders on many machines](../howto/scrapy.md), [its settings](scrapy.md)",
        "skitter.scrapy",
    ),
}
#: What Scrapy calls, not a user.
CONTRACT = {"close", "from_crawler", "next_request", "open", "open_spider", "process_item"}
CONTRACT |= {"start_requests"}
#: What is neither a class nor a function.
OBJECTS = {"skitter.celery.app": "The app of `make_app()`, made when it is first used."}
#: Signatures are for people: without the modules that types come from.
_HOMES = re.compile(r"\b(?:[a-z_]+\.)+(?=[A-Z_a-z]\w*)")
WIDTH = 116


def python_page() -> str:
    parts = [
        "# The Python API\n\nImport names from `skitter`, unless another module stands before the "
        "name.\n"
    ]
    for title, chapter in CHAPTERS.items():
        parts.append(f"\n## {title}\n\n{chapter.see}\n")
        parts += [_entry(name) for name in _names(chapter)]
    return "".join(parts)


def missing() -> set[str]:
    """Public names that no chapter has, names of chapters that are not public, and what has no
    docstring or, as a field, no comment."""
    public = set(skitter.__all__)
    for package in ("skitter.celery", "skitter.scrapy"):
        public |= {f"{package}.{name}" for name in import_module(package).__all__}
    named = {name for chapter in CHAPTERS.values() for name in _names(chapter)}
    ours = {name for name in named if "." not in name}
    ours |= {name for name in named if name.startswith(("skitter.celery.", "skitter.scrapy."))}
    return (public ^ ours) | {one for name in named for one in _undocumented(name)}


def _names(chapter: Chapter) -> list[str]:
    before = f"{chapter.package}." if chapter.package else ""
    return [before + name for name in chapter.names.split()]


def _value(name: str) -> object:
    module, _, last = name.rpartition(".")
    return getattr(import_module(module) if module else skitter, last)


def _undocumented(name: str) -> Iterator[str]:
    value = _value(name)
    if not inspect.getdoc(value) and name not in OBJECTS:
        yield name
    if inspect.isclass(value):
        yield from (f"{name}.{one}" for one, has in _methods(value) if not inspect.getdoc(has))
        helps = _field_helps(value)
        yield from (f"{name}.{one.name}" for one in _fields(value) if not helps.get(one.name))


def _entry(name: str) -> str:
    last = name.rpartition(".")[2]
    value = _value(name)
    text = f"\n### {name}\n\n"
    if inspect.isclass(value):
        return text + "".join(_class(value, last))
    run = getattr(value, "run", None) if not inspect.isfunction(value) else None  # a Celery task
    if callable(value) and (inspect.isfunction(value) or run is not None):
        return text + _code(_called(last, run or value)) + "\n" + _prose(value)
    return text + f"{OBJECTS[name]}\n"


def _class(cls: type, name: str) -> Iterator[str]:
    fields = list(_fields(cls))
    signature = _called(name, cls).removesuffix(" -> None")
    is_made = not issubclass(cls, enum.Enum | BaseException | skitter.Frontier)
    if is_made and not fields and "(*" not in signature:
        yield _code(signature) + "\n"
    yield _prose(cls)
    for base in _documented_bases(cls):
        link = f"[`{base.__name__}`](#{ENTRIES[base.__name__]})"
        yield f"\nIt also has the methods of {link}.\n"
    helps = _field_helps(cls)
    if issubclass(cls, enum.Enum):
        yield "\n" + "".join(_bullet(f"`{one.name}`", helps.get(one.name, "")) for one in cls)
    if fields:
        yield "\n| field | type | default | meaning |\n|---|---|---|---|\n"
        yield "".join(one.row(helps[one.name]) for one in fields)
    for number, (method, value) in enumerate(_methods(cls)):
        yield "\n" * (not number)
        yield _member(f"{name}.{method}", value)


def _methods(cls: type) -> Iterator[tuple[str, object]]:
    """In order of declaration; what a base class declares comes before."""
    seen: dict[str, object] = {}
    elsewhere = {one for base in _documented_bases(cls) for one in base.__mro__}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("skitter") and base not in elsewhere:
            seen |= {name: one for name, one in vars(base).items() if not name.startswith("_")}
    is_scrapys = cls.__module__.startswith("skitter.scrapy")
    for name, one in seen.items():
        if is_scrapys and name in CONTRACT:
            continue
        plain = one.__func__ if isinstance(one, classmethod | staticmethod) else one
        if inspect.isfunction(plain) or isinstance(plain, property | functools.cached_property):
            yield name, plain


def _documented_bases(cls: type) -> list[type]:
    return [
        base
        for base in cls.__mro__[1:]
        if base.__module__.startswith("skitter.scrapy") and base.__name__ in ENTRIES
    ]


@dataclasses.dataclass(frozen=True)
class _Field:
    name: str
    type: str
    default: str

    def row(self, meaning: str) -> str:
        plain = _HOMES.sub("", self.type)
        shown = f"`{plain}`".replace("|", "\\|")
        if link := ENTRIES.get(plain.removesuffix(" | None")):
            shown = f"[{shown}](#{link})"
        meaning = meaning.replace("|", "\\|")
        return f"| `{self.name}` | {shown} | {self.default} | {meaning} |\n"


#: What a heading is called in a link, by the name of the class.
ENTRIES = {
    name.rpartition(".")[2]: name.lower().replace(".", "")
    for chapter in CHAPTERS.values()
    for name in _names(chapter)
}


def _fields(cls: type) -> Iterator[_Field]:
    """Those that its user may give or read; a frontier is opened, not made."""
    if cls is skitter.Frontier:
        return
    if dataclasses.is_dataclass(cls):
        own = issubclass(cls, skitter.Spider)  # what decorators fill
        for one in dataclasses.fields(cls):
            if not one.name.startswith("_") and (one.init or not own):
                default = _default(one.default, one.default_factory)
                yield _Field(one.name, str(one.type), default if one.init else "")
    elif issubclass(cls, msgspec.Struct):
        for field in msgspec.structs.fields(cls):
            default = _default(field.default, field.default_factory)
            yield _Field(field.name, inspect.formatannotation(field.type), default)


def _field_helps(cls: type) -> dict[str, str]:
    """What each field means: the help of an option, or the comment above it or beside it."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("skitter"):
            found |= _comments(base)
    if dataclasses.is_dataclass(cls):
        declared = [(one.name, one.metadata.get("option")) for one in dataclasses.fields(cls)]
        found |= {name: option.help for name, option in declared if option}
    return found


def _comments(cls: type) -> dict[str, str]:
    lines = dedent(inspect.getsource(cls)).splitlines()
    [definition] = ast.parse("\n".join(lines)).body
    found = {}
    for node in definition.body if isinstance(definition, ast.ClassDef) else ():
        match node:
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                above: list[str] = []
                row = node.lineno - 2
                while lines[row].lstrip().startswith("#: ") or (above and "# " in lines[row][:6]):
                    above.insert(0, lines[row].lstrip(" #:"))
                    row -= 1
                end = (node.end_lineno or node.lineno) - 1
                beside = lines[end].encode()[node.end_col_offset or 0 :].decode()
                text = " ".join(above) or beside.partition("# ")[2]
                found[name] = text and f"{text[0].upper()}{text[1:].rstrip('.')}."
    return found


def _default(default: object, factory: object) -> str:
    nothing = (dataclasses.MISSING, msgspec.NODEFAULT)
    if default not in nothing:
        return f"`{default!r}`"
    if factory in nothing:
        return "required"
    name = getattr(factory, "__name__", "")
    is_plain = name.isidentifier() and "environment" not in name and name != "find_server"
    return f"`{name}()`" if is_plain else "from the environment"


def _called(name: str, value: object) -> str:
    """The call, as a user reads it."""
    found = _signature(value)
    waits = inspect.iscoroutinefunction(value) or "-> Coroutine[Any, Any, " in found
    found = re.sub(r"-> Coroutine\[Any, Any, (.*)\]$", r"-> \1", found)
    return f"{'async ' * waits}{name}{found}"


def _signature(value: object) -> str:
    try:
        found = inspect.signature(_maker(value))
    except (TypeError, ValueError):
        return "(...)"
    kept = [
        one.replace(annotation=_typed(one.annotation), default=_shown(one.default))
        for one in found.parameters.values()
        if one.name not in ("self", "cls") and not one.name.startswith("_")
    ]
    return str(found.replace(parameters=kept, return_annotation=_typed(found.return_annotation)))


def _maker(value: object) -> Callable[..., object]:
    """What is called: of a class its own `__init__`, which Python 3.11.2 hides behind `__new__`."""
    for cls in inspect.getmro(value) if inspect.isclass(value) else ():
        if inspect.isfunction(init := vars(cls).get("__init__")):
            return init
        if "__new__" in vars(cls) or "__signature__" in vars(cls):
            break
    return cast(Callable[..., object], value)


@dataclasses.dataclass(frozen=True)
class _Text:
    """Shows itself without quotes."""

    text: str

    def __repr__(self) -> str:
        return self.text


def _typed(annotation: object) -> object:
    """The type for people: without the modules that its parts come from."""
    if annotation is inspect.Signature.empty:
        return annotation
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return _Text(_HOMES.sub("", text.strip("'")))


def _shown(default: object) -> object:
    unnamed = type(default) is object  # stands for "not given"
    return _Text("...") if unnamed else default


def _code(called: str) -> str:
    if len(called) > WIDTH:
        start, _, rest = called.partition("(")
        cut = rest.rindex(") -> ") if ") -> " in rest else rest.rindex(")")
        # A line never ends inside a parameter.
        glued = re.sub(r"(?<!,) ", "\0", re.sub(r"\[[^]]*\]", _glue, rest[:cut]))
        rows = fill(glued, WIDTH - 4, break_long_words=False, break_on_hyphens=False)
        called = f"{start}(\n{indent(rows, '    ')},\n{rest[cut:]}".replace("\0", " ")
    return f"```text\n{called}\n```\n"


def _glue(found: re.Match[str]) -> str:
    return found[0].replace(" ", "\0")


def _member(name: str, value: object) -> str:
    says = " ".join((inspect.getdoc(value) or "").split())
    if isinstance(value, property | functools.cached_property):
        return _bullet(f"`{name}`", says)
    called = _called(name, value).removesuffix(" -> None")
    if len(called) <= WIDTH - 6:
        return _bullet(f"`{called}`", says)
    text = fill(says, WIDTH - 2, break_on_hyphens=False)
    return f"- `{name}`:\n\n{indent(_code(called) + chr(10) + text, '  ')}\n\n"


def _bullet(head: str, text: str) -> str:
    text = f"- {head}: {text}" if text else f"- {head}"
    return fill(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False) + "\n"


def _prose(value: object) -> str:
    paragraphs = (inspect.getdoc(value) or "").split("\n\n")
    return (
        "\n\n".join(
            text
            if text.startswith("  ")
            else fill(" ".join(text.split()), WIDTH, break_on_hyphens=False)
            for text in paragraphs
        )
        + "\n"
    )
