"""The typer application, with one command or with all, and shell completion.

The typer application, with one command or with all.

Shell completion: `skitter completion bash` prints a script that calls us at each Tab.

Command names come from the menu, and options from importing that one command: importing all of
them would be too slow for a Tab.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from importlib import import_module
from typing import Annotated, Any

import typer
from typer._completion_classes import completion_init
from typer._completion_shared import get_completion_script
from typer.core import TyperGroup
from typer.main import get_command

from skitter.cli import tuning
from skitter.cli.menu import ABOUT

Panels = Mapping[str, Mapping[str, str]]
#: Placeholders for option values, the same as in flags of settings.
VALUES = {"str": "TEXT", "int": "NUMBER", "int range": "NUMBER", "float": "NUMBER", "path": "PATH"}
#: Celery parses its own options, including --help.
PASSING = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}

#: What commands are called elsewhere, where the name does not resemble ours.
ELSEWHERE = {
    "items": "export",
    "jobs": "status",
    "list": "status",
    "ls": "status",
    "monitor": "status -w",
    "stats": "status",
    "pop": "shell",
    "start": "run",
    "stop": "cancel",
    "delete": "purge",
    "rm": "purge",
    "add": "push",
    "enqueue": "push",
    "retry": "dead retry",
    "init": "new",
    "genspider": "new",
    "dashboard": "serve",
    "ui": "serve",
    "settings": "config",
    "version": "--version",
}


class ReaderGone(BaseException):
    """The reader of our output (head, less) has closed the pipe: not an error, but the end."""


class Group(TyperGroup):
    """By default, Typer exits with 1 when a pipe breaks, and suggests only similar names."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands and (ours := ELSEWHERE.get(args[0])):
            ctx.fail(f"No such command {args[0]!r}. Did you mean {ours!r}?")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise ReaderGone from None


def call(panels: Panels, name: str) -> None:
    """Run the command of that name with this process's arguments."""
    try:
        command = get_command(group_of(panels, only=name))
        _name_values(command)
        tuning.begin()
        command()
    except ReaderGone:
        raise BrokenPipeError from None


def _name_values(command: Any) -> None:
    """By default, Typer shows <str> and <int range>, and {JOB} where a job is required."""
    for one in command.params:
        if one.param_type_name == "argument":
            one.get_usage_pieces = partial(_usage_of, one)
        elif one.metavar is None and not one.is_flag:
            one.metavar = VALUES.get(one.type.name)
    for child in getattr(command, "commands", {}).values():
        _name_values(child)


def _usage_of(argument: Any, ctx: Any) -> list[str]:
    name = argument.make_metavar(ctx)
    return [name if argument.required or name.startswith("[") else f"[{name}]"]


def group_of(panels: Panels, *, only: str = "") -> typer.Typer:
    """Loads one command, or all if there is none of that name, so that typer can suggest a similar
    one."""
    homes = names_of(panels)
    group = typer.Typer(
        name="skitter",
        cls=Group,
        help=ABOUT,
        callback=lambda: None,  # else a group of one command becomes that command
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # plain text like the menu, without importing Rich
    )
    for name in [only] if only in homes else homes:
        _add(group, name, _load(homes[name]))
    return group


def names_of(panels: Panels) -> dict[str, str]:
    """Every command, and the place of its code."""
    return {name: home for commands in panels.values() for name, home in commands.items()}


def _load(home: str) -> typer.Typer | Callable[..., None]:
    module, _, name = home.partition(":")
    found: typer.Typer | Callable[..., None] = getattr(import_module(f"skitter.cli.{module}"), name)
    return found


def _add(group: typer.Typer, name: str, command: typer.Typer | Callable[..., None]) -> None:
    if isinstance(command, typer.Typer):
        group.add_typer(command, name=name)
    else:
        group.command(name, context_settings=PASSING if name == "celery" else None)(command)


NAME, VARIABLE = "skitter", "_SKITTER_COMPLETE"


class Shell(StrEnum):
    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def completion(
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """Print a completion script for bash, zsh or fish.

    To use it in bash: source <(skitter completion bash)
    """
    names = {"prog_name": NAME, "complete_var": VARIABLE, "shell": str(shell)}
    sys.stdout.write(f"{get_completion_script(**names)}\n")


def complete(panels: Panels) -> None:
    """Answer the script, which passes the line so far in the environment."""
    completion_init()
    command = _first_word()
    known = command in names_of(panels)
    group: Any = group_of(panels, only=command) if known else _menu(panels)
    group(prog_name=NAME)  # typer sees the variable, answers and exits


def _first_word() -> str:
    """The command, if it is typed in full."""
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    words = line.split() + [""] * line[-1:].isspace()
    return words[1] if len(words) > 2 else ""


def _menu(panels: Panels) -> typer.Typer:
    """The commands by name and help line, without their code."""
    from skitter.cli.lines import LINES

    group = typer.Typer(name=NAME, callback=lambda: None, add_completion=False)
    for name in names_of(panels):
        group.command(name, help=LINES.get(name, ""))(lambda: None)
    return group
