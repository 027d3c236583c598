"""The menu of commands for click, and shell completion.

A command's module is imported when its name is called, asked about or completed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from enum import StrEnum
from importlib import import_module
from typing import Annotated, Any

import click
from click.shell_completion import CompletionItem, get_completion_class, shell_complete

from skitter.cli import tuning
from skitter.cli.lines import LINES
from skitter.cli.menu import ABOUT
from skitter.cli.parameters import Argument, Group, command

NAME, VARIABLE = "skitter", "_SKITTER_COMPLETE"
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


class Menu(Group):
    """The panels of `skitter --help`, with each command's place below skitter.cli."""

    def __init__(self, panels: Mapping[str, Mapping[str, str]]) -> None:
        super().__init__(help=ABOUT)
        self.homes = {name: home for panel in panels.values() for name, home in panel.items()}

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.homes)

    def get_command(self, ctx: Any, name: str) -> click.Command | None:
        if name in self.homes and name not in self.commands:
            module, _, attribute = self.homes[name].partition(":")
            found = getattr(import_module(f"skitter.cli.{module}"), attribute)
            if not isinstance(found, click.Command):
                found = command(found, name, settings=PASSING if name == "celery" else None)
            self.add_command(found, name)
            tuning.begin()
        return self.commands.get(name)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args[0] not in self.homes and not ctx.resilient_parsing:
            if ours := ELSEWHERE.get(args[0]):
                ctx.fail(f"No such command {args[0]!r}. Did you mean {ours!r}?")
            raise click.NoSuchCommand(args[0], possibilities=self.homes, ctx=ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """By default, click imports every command for its help: too slow for a Tab."""
        names = (name for name in self.homes if name.startswith(incomplete))
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [*(CompletionItem(name, help=LINES.get(name)) for name in names), *options]


def all_commands(panels: Mapping[str, Mapping[str, str]]) -> Menu:
    """The menu with every command loaded."""
    menu = Menu(panels)
    for name in menu.homes:
        menu.get_command(None, name)
    return menu


def call(panels: Mapping[str, Mapping[str, str]], words: list[str]) -> None:
    """Click's `main` would exit with 1 on Ctrl-C and on a broken pipe."""
    menu = Menu(panels)
    if asked := os.environ.get(VARIABLE):
        sys.exit(shell_complete(menu, {}, NAME, VARIABLE, asked))
    try:
        with menu.make_context(NAME, words) as context:
            menu.invoke(context)
    except click.exceptions.Exit as ended:
        sys.exit(ended.exit_code)
    except click.Abort:  # Ctrl-C at a question
        sys.exit("Aborted!")
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)


class Shell(StrEnum):
    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def completion(
    shell: Annotated[Shell, Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """Print a completion script for bash, zsh or fish.

    To use it in bash: source <(skitter completion bash)
    """
    script = get_completion_class(shell)
    assert script is not None
    print(script(Menu({}), {}, NAME, VARIABLE).source())
