"""The menu itself, and the package as a whole."""

from __future__ import annotations

import subprocess
import sys
import types

import skitter as package


def test_without_arguments_the_menu_is_shown(skitter):
    answer = skitter("--help")

    for command in ("push", "status", "pause", "audit", "why", "dead", "up", "doctor", "demo"):
        assert command in answer.out


def test_the_module_runs_as_a_program():
    done = subprocess.run(
        [sys.executable, "-m", "skitter", "--help"], capture_output=True, text=True, check=True
    )

    assert "every URL is accounted for" in done.stdout


def test_what_we_promise_is_what_we_export():
    exported = {
        name
        for name, value in vars(package).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }

    assert sorted(exported) == list(package.__all__)
