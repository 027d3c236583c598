"""The commands that the dashboard shows beside its buttons are there, and take what is shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import skitter
from skitter.cli.menu import all_commands
from skitter.observe.report import KINDS

SCRIPTS = Path(skitter.__file__).parent / "server" / "static" / "js"
MENU = all_commands()
_QUOTED = re.compile(r"""(?:cli: |=\s|"code", \{\}, )["`](skitter [^`"]+)["`]""")
#: What the script puts in, but for verbs of which it chooses one.
_VALUE = re.compile(r"\$\{(?:[^{}]|\{[^{}]*\})*\}")

CHOSEN = {"${verb}": ("retry", "drop"), "${cli}": ("stop", "again")}


def commands() -> list[str]:
    found: list[str] = []
    for script in sorted(SCRIPTS.rglob("*.js")):
        for text in _QUOTED.findall(script.read_text()):
            [named] = [name for name in CHOSEN if name in text] or [""]
            found += [
                _VALUE.sub("1", text.replace(named, verb) if named else text)
                for verb in CHOSEN.get(named, ("",))
            ]
    return sorted(set(found))


def test_links_that_are_not_followed_have_the_words_of_the_report():
    script = (SCRIPTS / "pages" / "pipeline.js").read_text()
    kinds = script.partition("const KINDS = {")[2].partition("};")[0]

    assert dict(re.findall(r'(\w+): "(.*)"', kinds)) == KINDS


def test_there_are_commands_to_look_at():
    assert len(commands()) > 20


@pytest.mark.parametrize("shown", commands())
def test_a_command_that_is_shown_is_one(shown):
    command, words = MENU, shown.split()[1:]
    while children := getattr(command, "commands", None):
        command = children[words.pop(0)]
    known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
    assert {word for word in words if word.startswith("--")} <= known
