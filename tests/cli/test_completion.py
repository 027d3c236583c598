"""What a shell gets at a Tab, and what it has to wait for."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from needs import need


@pytest.fixture
def tab(skitter, monkeypatch):
    """The completions of a line, as fish is given them."""

    def press(line: str) -> list[str]:
        monkeypatch.setenv("_SKITTER_COMPLETE", "fish_complete")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", line.split(" ")[-1])
        rows = skitter().out.splitlines()
        return [row.partition(",")[2].partition("\t")[0] for row in rows]

    return press


def test_commands_are_completed_from_the_menu(tab):
    assert tab("skitter stat") == ["status"]
    assert tab("skitter re") == ["rejected", "replay", "redo", "resume", "release"]
    assert {"run", "status", "demo"} < set(tab("skitter "))


def test_options_of_a_command_are_completed(tab):
    assert "--json" in tab("skitter status --")
    assert "--redis" in tab("skitter status --re")


def test_a_text_may_be_a_file(skitter, monkeypatch):
    monkeypatch.setenv("_SKITTER_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "skitter run boo")
    monkeypatch.setenv("COMP_CWORD", "2")
    assert skitter().out == "file,boo\n"


def test_a_group_completes_its_own_commands(tab):
    assert {"list", "retry"} <= set(tab("skitter dead "))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(skitter, shell):
    done = skitter("completion", shell)

    assert done.exit_code == 0
    assert f"{shell}_complete" in done.out


def test_bash_completes_a_command(skitter, tmp_path):
    """The real shell, with the script sourced, and a `skitter` on its path."""
    program = tmp_path / "skitter"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m skitter "$@"\n')
    program.chmod(0o755)
    script = skitter("completion", "bash").out
    session = f"""{script}
COMP_WORDS=(skitter stat) COMP_CWORD=1
_skitter_completion skitter
echo "${{COMPREPLY[@]}}"
COMP_WORDS=(skitter dead "") COMP_CWORD=2
_skitter_completion skitter
echo "${{COMPREPLY[@]}}"
"""
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(
        [need("bash"), "-c", session],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    first, second = done.stdout.splitlines()
    assert first == "status"
    assert "retry" in second.split()
