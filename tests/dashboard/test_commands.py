"""The commands that the dashboard shows beside its buttons are there, and take what is shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import skitter
from skitter.cli.menu import all_commands

SCRIPTS = Path(skitter.__file__).parent / "server" / "static" / "js"
MENU = all_commands()
_QUOTED = re.compile(r"""(?:cli: |=\s|"code", \{\}, )["`](skitter [^`"]+)["`]""")
#: What the script puts in, but for the verb of dead letters, which it chooses.
_VALUE = re.compile(r"\$\{(?:[^{}]|\{[^{}]*\})*\}")


def commands() -> list[str]:
    found: list[str] = []
    for script in sorted(SCRIPTS.rglob("*.js")):
        for text in _QUOTED.findall(script.read_text()):
            verbs = ("retry", "drop") if "${verb}" in text else ("",)
            found += [_VALUE.sub("1", text.replace("${verb}", verb)) for verb in verbs]
    return sorted(set(found))


def test_there_are_commands_to_look_at():
    assert len(commands()) > 20


@pytest.mark.parametrize("shown", commands())
def test_a_command_that_is_shown_is_one(shown):
    command, words = MENU, shown.split()[1:]
    while children := getattr(command, "commands", None):
        command = children[words.pop(0)]
    known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
    assert {word for word in words if word.startswith("--")} <= known
