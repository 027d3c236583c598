"""What an agent offers: the spiders of its list, and what they take. Imports the user's code.
That of a Scrapy project is imported by skitter.scrapy.project.

A file without a spider is left out, and one that cannot be loaded is listed with its error.
"""

from __future__ import annotations

import inspect
import subprocess
import sys
from enum import Enum
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, get_origin

import msgspec

from skitter.errors import SpiderError
from skitter.frontier.records.agents import Argument, Offer
from skitter.spider.importing import (
    find_spider,
    hints_of,
    import_target,
    names_a_file,
    spiders_in,
    split_target,
)
from skitter.spider.source import version_of
from skitter.spider.spider import Spider

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import ModuleType


#: The file that a Scrapy project has at its top.
PROJECT: Final = "scrapy.cfg"
LOAD_S: Final = 45.0


def is_project(target: str) -> bool:
    """Whether it is a Scrapy project, or a spider of one."""
    return Path(target.partition(":")[0]).name == PROJECT


def files_of(target: str) -> list[Path]:
    """Those whose change may change what it offers; of a project, where Scrapy puts them."""
    file = Path(split_target(target)[0])
    if not is_project(target):
        return [file]
    inside = ("*/settings.py", "*/spiders/**/*.py")
    return [file, *(found for pattern in inside for found in sorted(file.parent.glob(pattern)))]


def targets_of(patterns: Sequence[str]) -> list[str]:
    """`spiders/*.py` and `scrapy.cfg` as files; modules, and names behind a colon, as they are."""
    found: dict[str, None] = {}
    for pattern in patterns:
        where, name = split_target(pattern)
        if not names_a_file(where):
            found[pattern] = None
            continue
        for file in sorted(glob(where, recursive=True)):  # noqa: PTH207 - relative, as it is given
            found[f"{file}:{name}" if name else file] = None
    return list(found)


def find_offers(patterns: Sequence[str]) -> list[Offer]:
    """One for each spider; a name that is taken is refused."""
    found: dict[str, Offer] = {}
    for target in targets_of(patterns):
        for offer in _offers(target):
            if first := found.get(offer.name):
                error = f"{first.target} has a spider of that name, too: rename one."
                offer = Offer(name=offer.target, target=offer.target, error=error)
            found[offer.name] = offer
    return list(found.values())


def _offers(target: str) -> Iterator[Offer]:
    if is_project(target):
        yield from _of_project(target)
        return
    try:
        module, where, name = import_target(target)
        yield from _of_module(module, where, name)
    except SpiderError as error:
        yield Offer(name=target, target=target, error=str(error))


def _of_project(target: str) -> Iterator[Offer]:
    """Loaded in the project's folder, by a process of its own: each has modules of its own."""
    file, _, name = target.partition(":")
    words = [sys.executable, "-P", "-m", "skitter.scrapy.project"]
    try:
        loaded = subprocess.run(
            words, cwd=Path(file).parent, capture_output=True, timeout=LOAD_S, check=False
        )
    except subprocess.TimeoutExpired:
        yield Offer(name=target, target=target, error=f"it did not load in {LOAD_S:.0f} s.")
        return
    if loaded.returncode:
        lines = loaded.stderr.decode("utf-8", "replace").strip().splitlines()
        said = lines[-1] if lines else "its process was killed."
        yield Offer(name=target, target=target, error=said.removeprefix("skitter.errors."))
        return
    for offer in msgspec.json.decode(loaded.stdout, type=list[Offer]):
        if name in ("", offer.name):
            yield msgspec.structs.replace(offer, target=f"{file}:{offer.name}")


def _of_module(module: ModuleType, where: str, name: str | None) -> Iterator[Offer]:
    spiders = {id(found): (key, found) for key, found in reversed(spiders_in(module).items())}
    if name is not None:
        spiders = {0: (name, spiders_in(module).get(name) or find_spider(module, where, name))}
    for key, found in reversed(spiders.values()):
        target = where if len(spiders) == 1 and name is None else f"{where}:{key}"
        if isinstance(found, Spider):
            yield Offer(name=found.name, job=found.name, target=target, version=version_of(found))
        else:
            yield _of_function(found, target, module)


def _of_function(function: Callable[..., Spider], target: str, module: ModuleType) -> Offer:
    """Its name is that of the spider without arguments, or else of the function."""
    arguments = _arguments(function)
    name, version, error = function.__name__, "", ""
    if all(argument.default is not None for argument in arguments):
        try:
            spider = find_spider(module, target.partition(":")[0], function.__name__)
            name, version = spider.name, version_of(spider)
        except SpiderError as problem:
            error = str(problem)
    job = name if not arguments else ""
    return Offer(
        name=name, job=job, target=target, arguments=arguments, version=version, error=error
    )


def _arguments(function: Callable[..., Spider]) -> list[Argument]:
    return list(arguments_of(function, hints_of(function)))


def arguments_of(function: Callable[..., Any], hints: Mapping[str, Any]) -> Iterator[Argument]:
    """Those that have a name of their own."""
    return (
        Argument(
            name=name,
            type=_spelled(hints.get(name, str)),
            default=None if parameter.default is parameter.empty else _text(parameter.default),
            choices=_choices(hints.get(name)),
        )
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    )


def _spelled(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")


def _choices(hint: Any) -> list[str]:
    if get_origin(hint) is Literal:
        return [str(choice) for choice in get_args(hint)]
    if hint is bool:
        return ["yes", "no"]
    is_enum = isinstance(hint, type) and issubclass(hint, Enum)
    return [str(choice.value) for choice in hint] if is_enum else []


def _text(value: Any) -> str:
    """As -a takes it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, list | tuple | set | frozenset):
        return ",".join(map(str, value))
    return str(value)
