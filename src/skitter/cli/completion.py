"""Shell completion: `skitter completion bash` prints a script that calls us at each Tab.

Command names come from the menu, and options from importing that one command: importing all of
them would be too slow for a Tab.
"""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from typing import Annotated, Any

import typer
from typer._completion_classes import completion_init
from typer._completion_shared import get_completion_script

from skitter.cli.group import Panels, group_of, names_of

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
