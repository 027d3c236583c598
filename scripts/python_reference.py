"""The reference of the Python API, made from signatures and docstrings."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from textwrap import fill

import msgspec

import skitter

#: Every public name, in the order of a reader.
CHAPTERS = {
    "What you write": "Spider Page Request Response Scope Drop Render load_spider run_handler "
    "items",
    "What you set": "Politeness Retries Limits Visits JobOptions FetchOptions BrowserOptions "
    "SessionPool QualityOptions Layout Bloom Canonical",
    "What comes back": "Report Stats State",
    "The queue alone": "URLQueue",
    "The frontier in your own event loop": "open_frontier Frontier Lease Added Completion Failure "
    "Ended",
    "Figures of your own": "Metrics",
    "Errors": "SkitterError QueueFull LeaseLost",
    "The HTTP API": "skitter.client.Client skitter.client.AsyncClient",
    "Outputs of your own": "skitter.sinks.Sink",
    "Stages of your own": "skitter.engine.stages.Stage skitter.engine.visit.Visit",
    "Celery": "skitter.celery.make_app skitter.celery.register skitter.celery.scrape "
    "skitter.celery.scrape_many skitter.celery.crawl skitter.celery.map_reduce "
    "skitter.celery.summarize skitter.celery.status skitter.celery.Status "
    "skitter.celery.CelerySettings skitter.celery.Queues skitter.celery.app",
}
#: What is neither a class nor a function.
OBJECTS = {"skitter.celery.app": "The app of `make_app()`, made when it is first used."}
#: Signatures are for people: without the modules that types come from.
_HOMES = re.compile(r"\b(?:[a-z_]+\.)+(?=[A-Z_a-z]\w*)")
WIDTH = 116


def python_page() -> str:
    parts = [
        "# The Python API\n\n`from skitter import ...` unless a name has its module before it. "
        "How things are used:\n[write spiders](../howto/spiders.md), "
        "[the queue alone](../howto/queue.md), [Celery](../howto/celery.md), "
        "[HTTP](../howto/api.md).\n"
    ]
    for chapter, names in CHAPTERS.items():
        parts.append(f"\n## {chapter}\n")
        parts += [_entry(name) for name in names.split()]
    return "".join(parts)


def missing() -> set[str]:
    """Public names that no chapter has, and names of chapters that are not public."""
    celery = {f"skitter.celery.{name}" for name in import_module("skitter.celery").__all__}
    named = {name for names in CHAPTERS.values() for name in names.split()}
    public = {*skitter.__all__, *celery}
    return public ^ {one for one in named if "." not in one or one.startswith("skitter.celery.")}


def _entry(name: str) -> str:
    module, _, last = name.rpartition(".")
    value = getattr(import_module(module) if module else skitter, last)
    text = f"\n### {name}\n\n"
    if inspect.isclass(value):
        return text + "".join(_class(value, last))
    run = getattr(value, "run", None) if not inspect.isfunction(value) else None  # a Celery task
    if callable(value) and (inspect.isfunction(value) or run is not None):
        return text + _code(last, run or value) + _prose(value)
    return text + f"{OBJECTS[name]}\n"


def _class(cls: type, name: str) -> Iterator[str]:
    rows = list(_fields(cls))
    if not rows and not issubclass(cls, enum.Enum | BaseException):
        yield _code(name, cls)
    yield _prose(cls)
    if issubclass(cls, enum.Enum):
        yield "".join(f"- `{member.name}`\n" for member in cls)
    if rows:
        yield "\n| field | type | default |\n|---|---|---|\n" + "".join(rows)
    for number, (method, value) in enumerate(_methods(cls)):
        yield "\n" * (not number)
        if isinstance(value, property):
            yield _member(f"`{name}.{method}`", value)
        else:
            yield _member(f"`{name}.{method}{_signature(value)}`", value)


def _methods(cls: type) -> Iterator[tuple[str, object]]:
    """In order of declaration; what a base class declares comes before."""
    seen: dict[str, object] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("skitter"):
            seen |= {name: one for name, one in vars(base).items() if not name.startswith("_")}
    for name, one in seen.items():
        plain = one.__func__ if isinstance(one, classmethod | staticmethod) else one
        if (inspect.isfunction(plain) or isinstance(plain, property)) and inspect.getdoc(plain):
            yield name, plain


def _fields(cls: type) -> Iterator[str]:
    if dataclasses.is_dataclass(cls):
        for one in dataclasses.fields(cls):
            if not one.name.startswith("_"):
                yield _row(one.name, str(one.type), _default(one.default, one.default_factory))
    elif issubclass(cls, msgspec.Struct):
        for field in msgspec.structs.fields(cls):
            declared = inspect.formatannotation(field.type)
            yield _row(field.name, declared, _default(field.default, field.default_factory))


def _row(name: str, declared: str, default: str) -> str:
    shown = _HOMES.sub("", declared).replace("|", "\\|")
    return f"| `{name}` | `{shown}` | {default} |\n"


def _default(default: object, factory: object) -> str:
    nothing = (dataclasses.MISSING, msgspec.NODEFAULT)
    if default not in nothing:
        return f"`{default!r}`"
    if factory in nothing:
        return "required"
    name = getattr(factory, "__name__", "")
    is_plain = name.isidentifier() and "environment" not in name and name != "find_server"
    return f"`{name}()`" if is_plain else "from the environment"


def _signature(value: object) -> str:
    try:
        found = inspect.signature(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return "(...)"
    kept = [
        one.replace(annotation=_typed(one.annotation), default=_shown(one.default))
        for one in found.parameters.values()
        if one.name not in ("self", "cls") and not one.name.startswith("_")
    ]
    return str(found.replace(parameters=kept, return_annotation=_typed(found.return_annotation)))


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


def _code(name: str, value: object) -> str:
    text = f"{name}{_signature(value)}"
    if len(text) > WIDTH:
        text = text.replace("(", "(\n    ", 1).replace(", ", ",\n    ")
    return f"```text\n{text}\n```\n\n"


def _member(head: str, value: object) -> str:
    text = " ".join((inspect.getdoc(value) or "").split())
    return fill(f"- {head}: {text}", WIDTH, subsequent_indent="  ", break_on_hyphens=False) + "\n"


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
