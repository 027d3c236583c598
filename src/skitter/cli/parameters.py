"""Click's commands, made from functions whose parameters are annotated.

`limit: Annotated[int, Option(min=0, help="...")] = 20` is an option `--limit` for a whole number.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from types import NoneType
from typing import Any, TypeGuard, get_args, get_origin

import click
from click.exceptions import Exit as Exit
from click.shell_completion import CompletionItem

#: Placeholders for values, by type.
VALUES = {str: "TEXT", int: "NUMBER", float: "NUMBER", Path: "PATH"}


class Parameter:
    """What is written about a parameter beside its type and default."""

    def __init__(
        self,
        *names: str,
        help: str = "",
        metavar: str | None = None,
        min: float | None = None,
        max: float | None = None,
        show_default: bool = True,
        bare: str = "",
    ) -> None:
        self.names = names
        self.help = help
        self.metavar = metavar
        self.range = (min, max)
        self.show_default = show_default
        self.bare = bare  # the value of an option without one
        self.section = ""  # of the help; empty: the first, or the last


class Option(Parameter):
    """`--name`, or as it is named here."""


class Argument(Parameter):
    """A word without a name."""


class Made(Parameter):
    """What a function makes of options of its own: its parameters."""

    def __init__(self, make: Callable[..., Any]) -> None:
        super().__init__()
        self.make = make
        self.parameters = inspect.signature(make, eval_str=True).parameters


class _Argument(click.Argument):
    def make_metavar(self, ctx: click.Context) -> str:
        """By default, a metavar says itself whether the argument may be left out."""
        name = super().make_metavar(ctx)
        return name if self.required or name.startswith("[") else f"[{name}]"

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        name = self.metavar or self.make_metavar(ctx)
        return name, f"{self.help or ''}{'  [required]' * self.required}"


class _Option(click.Option):
    def __init__(self, *words: Any, section: str, **more: Any) -> None:
        super().__init__(*words, **more)
        self.section = section


class Command(click.Command):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """`--cache books.py` has no value: one begins with a digit, or is the same as none."""
        bare = {name: param for param in self.params if _is_bare(param) for name in param.opts}
        for place, word in enumerate(args):
            after = "".join(args[place + 1 : place + 2])
            is_value = after[:1].isdigit() or (word in bare and after == bare[word].flag_value)
            if word in bare and not is_value:
                args[place] = f"{word}={bare[word].flag_value}"
        return super().parse_args(ctx, args)

    def format_arguments(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [param.get_help_record(ctx) for param in self.params if isinstance(param, _Argument)]
        if rows:
            with formatter.section("Arguments"):
                formatter.write_dl(rows)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Options of the command itself, of each table of settings, and of every command."""
        own: list[tuple[str, str]] = []
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            if isinstance(param, _Argument) or not (row := param.get_help_record(ctx)):
                continue
            if section := getattr(param, "section", "") or (sections and "Common"):
                sections.setdefault(section, []).append(row)
            else:
                own.append(row)
        for title, rows in {"Options": own, **sections}.items():
            with formatter.section(title):
                formatter.write_dl(rows)


class Group(click.Group):
    """Commands in the order in which they are declared."""

    def __init__(self, *, help: str, **words: Any) -> None:
        super().__init__(help=help, no_args_is_help=True, **words)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def add(self, name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
        """Adds the function below as a command, and leaves it callable."""

        def decorate(function: Callable[..., None]) -> Callable[..., None]:
            self.add_command(command(function, name))
            return function

        return decorate


def _is_bare(parameter: click.Parameter) -> TypeGuard[click.Option]:
    return (
        isinstance(parameter, click.Option)
        and not parameter.is_flag
        and isinstance(parameter.flag_value, str)
    )


def command(
    function: Callable[..., None], name: str, *, settings: dict[str, Any] | None = None
) -> click.Command:
    parameters = inspect.signature(function, eval_str=True).parameters.values()
    joined = {
        parameter.name: about
        for parameter in parameters
        if isinstance(about := _about(parameter), Made)
    }
    own = (
        joined[parameter.name].parameters.values() if parameter.name in joined else [parameter]
        for parameter in parameters
    )
    made = [_made(parameter) for several in own for parameter in several]
    convert = {parameter.name: how for parameter, how in made if how}

    def call(**values: Any) -> None:
        for key, how in convert.items():
            values[key] = how(values[key])
        for key, one in joined.items():
            values[key] = one.make(**{name: values.pop(name) for name in one.parameters})
        function(**values)

    return Command(
        name,
        callback=call,
        params=[parameter for parameter, _ in made],
        help=inspect.getdoc(function),
        context_settings=settings,
    )


def _about(parameter: inspect.Parameter) -> Parameter:
    about: Parameter = get_args(parameter.annotation)[1]
    return about


def _made(
    parameter: inspect.Parameter,
) -> tuple[click.Parameter, Callable[[Any], Any] | None]:
    """Click's parameter, and what makes of its value one of the declared type."""
    annotated, about = get_args(parameter.annotation)
    kind = next((one for one in get_args(annotated) if one is not NoneType), annotated)
    if get_origin(annotated) is list:
        kind = annotated
    is_list = get_origin(kind) is list
    if is_list:
        (kind,) = get_args(kind)
    required = parameter.default is inspect.Parameter.empty
    words: dict[str, Any] = {"type": _type(kind, about), "required": required, "help": about.help}
    if not required:
        words["default"] = parameter.default
    words["metavar"] = about.metavar or VALUES.get(kind)
    if kind is str:
        words["shell_complete"] = _files
    how: Callable[[Any], Any] | None = None
    if is_list:
        how = lambda values: list(values) or None  # noqa: E731
    elif issubclass(kind, Enum):
        if isinstance(parameter.default, Enum):
            words["default"] = parameter.default.value
        how = lambda word: None if word is None else kind(word)  # noqa: E731
    if isinstance(about, Argument):
        words["nargs"] = -1 if is_list else 1
        return _Argument([parameter.name], **words), how
    return _option(parameter.name, kind, about, words | {"multiple": is_list}), how


def _option(name: str, kind: type, about: Option, words: dict[str, Any]) -> click.Option:
    spelled = name.replace("_", "-")
    if kind is bool:
        words |= {"is_flag": True, "metavar": None, "type": None}
    if about.bare:
        words |= {"is_flag": False, "flag_value": about.bare}
    default = f"--{spelled}/--no-{spelled}" if kind is bool else f"--{spelled}"
    names = about.names or (default,)
    shows = about.show_default and words.get("default") != ""
    return _Option([name, *names], section=about.section, show_default=shows, **words)


def _files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Text may be the name of a file; by default, click completes nothing."""
    return [CompletionItem(incomplete, type="file")]


def _type(kind: type, about: Parameter) -> Any:
    if issubclass(kind, Enum):
        return click.Choice([member.value for member in kind])
    if kind is Path:
        return click.Path(path_type=Path)
    if about.range != (None, None):
        kind_of: Any = click.IntRange if kind is int else click.FloatRange
        return kind_of(*about.range)
    return kind
