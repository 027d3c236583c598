"""What an agent offers: the spiders of its list, and what they take. Imports the user's code.

A file without a spider is left out, and one that cannot be loaded is listed with its error.
"""

from __future__ import annotations

import inspect
from enum import Enum
from glob import glob
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

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
    from collections.abc import Callable, Iterator, Sequence
    from types import ModuleType


def targets_of(patterns: Sequence[str]) -> list[str]:
    """`spiders/*.py` as files; modules, and names behind a colon, as they are."""
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
    try:
        module, where, name = import_target(target)
        yield from _of_module(module, where, name)
    except SpiderError as error:
        yield Offer(name=target, target=target, error=str(error))


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
    hints = hints_of(function)
    return [
        Argument(
            name=name,
            type=_spelled(hints.get(name, str)),
            default=None if parameter.default is parameter.empty else _text(parameter.default),
            choices=_choices(hints.get(name)),
        )
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]


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
