"""Loads a spider from a file or a module, with its arguments.

An error in the user's file is reported with its line there, without our frames.
"""

from __future__ import annotations

import inspect
import re
import sys
from contextlib import contextmanager
from enum import Enum
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from inspect import signature, unwrap
from pathlib import Path
from types import NoneType, SimpleNamespace, UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

import msgspec

from skitter.errors import SpiderError, did_you_mean, shorten
from skitter.settings.option import KINDS, NO_LIMIT, TRUTHS, options_of
from skitter.settings.tables import TABLES
from skitter.spider.source import describe, source_line
from skitter.spider.spider import Spider

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import ModuleType


def makes_spiders(found: object) -> bool:
    """Whether it is a function annotated to return a spider."""
    returns = getattr(found, "__annotations__", {}).get("return")
    return inspect.isfunction(found) and returns in (Spider, "Spider", "skitter.Spider")


def typed_arguments(
    function: Callable[..., Spider], given: Mapping[str, Any], where: str
) -> dict[str, Any]:
    """The arguments to call the function with, converted to the declared types of its parameters.

        def spider(category: str = "all", pages: int = 3) -> Spider: ...

    `skitter run books.py -a pages=5` calls that with the given values. Raises SpiderError for an
    unknown or missing name, or a value of the wrong type.
    """
    parameters = inspect.signature(function).parameters
    for name in given:
        if name not in parameters:
            hint = did_you_mean(name, parameters) or f"it takes {_listed(parameters)}."
            raise SpiderError(f"the spider in {where} has no argument {name!r}: {hint}")
    for name, parameter in parameters.items():
        if parameter.default is parameter.empty and name not in given:
            raise SpiderError(f"the spider in {where} needs an argument: add -a {name}=VALUE.")
    hints = hints_of(function)
    for name in given:
        if isinstance(kind := hints.get(name), str):
            raise SpiderError(
                f"the spider in {where} has an argument {name} of type {kind}, which is not known "
                "when it runs: import it outside of `if TYPE_CHECKING`."
            )
    return {name: _convert(name, value, hints.get(name, str)) for name, value in given.items()}


def hints_of(function: Callable[..., Spider]) -> dict[str, Any]:
    """The types of its arguments; as text, if they are imported for type checkers only."""
    names, found = getattr(unwrap(function), "__globals__", {}), dict[str, Any]()
    for name, hint in function.__annotations__.items():
        try:
            one = SimpleNamespace(__annotations__={name: hint})
            found |= get_type_hints(one, names, {"Spider": Spider})
        except (NameError, AttributeError, TypeError):
            found[name] = hint
    return found


def _convert(name: str, value: Any, hint: Any) -> Any:
    spelled = _spelled(value, hint) if isinstance(value, str) else value
    try:
        return msgspec.convert(spelled, hint, strict=False, dec_hook=lambda kind, one: kind(one))
    except (msgspec.ValidationError, ValueError, TypeError):
        said = f"must be {_expected(hint)}, got {shorten(repr(value))}."
        raise SpiderError(f"the spider's argument {name} {said}") from None


def _spelled(text: str, hint: Any) -> Any:
    """Parses text like a setting: yes and no, none, comma-separated lists."""
    kinds = _kinds(hint)
    if NoneType in kinds and text.lower() == NO_LIMIT:
        return None
    if bool in kinds:
        return TRUTHS.get(text.lower(), text)
    if any((get_origin(kind) or kind) in (list, tuple, set, frozenset) for kind in kinds):
        return [part.strip() for part in text.split(",") if part.strip()]
    return text


def _kinds(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _expected(hint: Any) -> str:
    return " or ".join(map(_named, _kinds(hint)))


def _named(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(map(str, get_args(kind)))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return " or ".join(str(member.value) for member in kind)
    if kind is NoneType:
        return NO_LIMIT
    return KINDS.get(kind, getattr(kind, "__name__", "")) if not get_origin(kind) else str(kind)


def _listed(parameters: Mapping[str, Any]) -> str:
    return ", ".join(parameters) or "none"


_UNKNOWN = re.compile(r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'")


def load_spider(target: str | Path, arguments: Mapping[str, Any] | None = None) -> Spider:
    """The spider that the target names, created with the arguments. Raises SpiderError.

    The target is `file.py`, `file.py:name`, `package.module` or `package.module:name`.
    """
    return find_spider(*import_target(target), arguments)


def import_target(target: str | Path) -> tuple[ModuleType, str, str | None]:
    """The target's module, the file or module name as given, and the name inside it, if any."""
    where, name = split_target(str(target))
    module = _import_file(Path(where)) if names_a_file(where) else _import_module(where)
    return module, where, name


def find_spider(
    module: ModuleType, where: str, name: str | None, arguments: Mapping[str, Any] | None = None
) -> Spider:
    found = _choose(module, where, name)
    if isinstance(found, Spider):
        if arguments:
            raise SpiderError(
                f"the spider in {where} takes no arguments: create it in a function, such as "
                f"`def spider({next(iter(arguments))}: str) -> Spider:`."
            )
        spider = found
    else:
        spider = _make(found, where, arguments or {})
    _check(spider, where)
    return spider


def _make(function: Callable[..., Spider], where: str, arguments: Mapping[str, Any]) -> Spider:
    typed = typed_arguments(function, arguments, where)
    try:
        spider = function(**typed)
    except (Exception, SystemExit) as error:
        raise _broken(error, where) from None
    if not isinstance(spider, Spider):
        raise SpiderError(f"{function.__name__} in {where} must return a Spider, not {spider!r}.")
    return spider


def split_target(target: str) -> tuple[str, str | None]:
    where, colon, name = target.rpartition(":")
    if not colon or "/" in name:
        return target, None
    if not where or not name:
        raise SpiderError(
            f"{target!r} does not name a spider: write file.py:name or package.module:name."
        )
    return where, name


def names_a_file(where: str) -> bool:
    return where.endswith(".py") or "/" in where or Path(where).exists()


# --- importing ------------------------------------------------------------------------------------


def _import_file(path: Path) -> ModuleType:
    if str(path).startswith(("http:/", "https:/")):
        raise SpiderError("a spider is a Python file. `skitter crawl URL` needs none.")
    if not path.exists():
        raise SpiderError(
            f"there is no file {path}: check the path, or write one with `skitter new`."
        )
    if not path.is_file():
        raise SpiderError(f"{path} is not a file: name the Python file of a spider.")
    path = path.resolve()
    # Not its own name: a spider called json.py must not shadow json for everyone.
    name = f"_skitter_spider_{path.stem}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise SpiderError(f"{path} is not a Python file: name one that ends in .py.")
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and msgspec resolve annotations there
    try:
        with _looking_in(path.parent):  # like `python file.py`, for modules next to it
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _broken(error, str(path)) from None
    return module


def _import_module(where: str) -> ModuleType:
    try:
        with _looking_in(Path.cwd()):
            return import_module(where)
    except ModuleNotFoundError as error:
        if error.name and (where == error.name or where.startswith(f"{error.name}.")):
            raise SpiderError(
                f"there is no module {error.name!r} here: check the name, or give the path of a "
                "Python file."
            ) from None
        raise _broken(error, where) from None
    except (Exception, SystemExit) as error:
        raise _broken(error, where) from None


@contextmanager
def _looking_in(directory: Path) -> Iterator[None]:
    """Put it first on sys.path while the spider loads, and last afterwards: handlers may import
    from there, and a file called redis.py does not shadow redis for everyone."""
    place = str(directory)
    if place in sys.path:
        yield
        return
    sys.path.insert(0, place)
    try:
        yield
    finally:
        sys.path.remove(place)
        sys.path.append(place)


def _broken(error: BaseException, file: str) -> SpiderError:
    place = source_line(error, file) or file
    return SpiderError(
        f"the spider cannot be loaded.\n  {place}\n  {describe(error)}{_hint(error)}"
    )


def _hint(error: BaseException) -> str:
    """For an option of another table, as in Spider(max_depth=3), and for one that is misspelled."""
    found = _UNKNOWN.search(str(error)) if isinstance(error, TypeError) else None
    if not found:
        return ""
    called, name = found.groups()
    for table in [table for table in TABLES if table in Spider.__dataclass_fields__]:
        if called == "Spider" and name in {option.name for option in options_of(TABLES[table])}:
            return f"\n  write {table}={TABLES[table].__name__}({name}=...)"
    question = did_you_mean(name, _parameters(called, error))
    return f"\n  {question}" if question else ""


def _parameters(called: str, error: BaseException) -> list[str]:
    """Of the class, as the line that called it knows it; none if it is not a name there."""
    last = error.__traceback__
    while last and last.tb_next:
        last = last.tb_next
    kind = last.tb_frame.f_globals.get(called) if last else None
    return list(signature(kind).parameters) if isinstance(kind, type) else []


# --- choosing -------------------------------------------------------------------------------------


def _choose(module: ModuleType, where: str, name: str | None) -> Spider | Callable[..., Spider]:
    """A spider, or the function that creates it."""
    found = spiders_in(module)
    if name is not None:
        return _spider_named(found, where, name)
    different = {id(one): one for one in found.values()}
    if len(different) == 1:
        return next(iter(different.values()))
    if not different:
        raise SpiderError(
            f"there is no spider in {where}: it needs `spider = Spider(...)`, or a function "
            "`def spider() -> Spider` that returns one."
        )
    raise SpiderError(
        f"there are {len(different)} spiders in {where}: choose one with "
        f"{' or '.join(f'{where}:{key}' for key in found)}."
    )


def spiders_in(module: ModuleType) -> dict[str, Spider | Callable[..., Spider]]:
    """Spiders, and functions that create them, by their names there."""
    return {key: value for key, value in vars(module).items() if _is_one(value, module)}


def _is_one(value: object, module: ModuleType) -> bool:
    if isinstance(value, Spider):
        return True
    return makes_spiders(value) and getattr(value, "__module__", "") == module.__name__


def _spider_named(found: dict[str, Any], where: str, name: str) -> Spider | Callable[..., Spider]:
    if name in found:
        return cast("Spider | Callable[..., Spider]", found[name])
    for spider in found.values():
        if isinstance(spider, Spider) and spider.name == name:
            return spider
    raise SpiderError(
        f"there is no spider {name!r} in {where}; it has {', '.join(found) or 'none'}."
    )


def _check(spider: Spider, where: str) -> None:
    if not spider.handlers:
        raise SpiderError(
            f"spider {spider.name!r} in {where} has no handler: decorate a function with "
            "@spider.page."
        )
    for seed in spider.known_seeds:
        spider.handler_of(seed)
