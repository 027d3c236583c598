"""The menu itself, and the package as a whole."""

from __future__ import annotations

import re
import subprocess
import sys
import types

import pytest

import skitter as package
from needs import need
from skitter.cli.menu import ELSEWHERE, FIRST, PANELS


def test_the_menu_fits_on_a_screen_and_explains_what_comes_first(skitter, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = skitter("--help").out

    assert len(shown.splitlines()) < 40
    assert set(re.findall(r"\w+", shown)) >= commands().keys()
    assert {name for name, line in commands().items() if explains(shown, name, line)} == {*FIRST}


def test_on_demand_the_menu_explains_all_commands(skitter):
    shown = skitter("--all")

    assert all(explains(shown.out, name, line) for name, line in commands().items())


def explains(shown, name, line):
    return f" {name} {line} " in " ".join(shown.split()) + " "


def commands():
    return {name: line for panel in PANELS.values() for name, (_, line) in panel.items()}


@pytest.mark.parametrize(
    ("words", "usage"),
    [
        (["run"], "run [OPTIONS] SPIDER"),
        (["push"], "push [OPTIONS] JOB [URL...]"),
        (["dead", "show"], "dead show [OPTIONS] JOB URL"),
        (["config"], "config [OPTIONS] [SPIDER]"),
        (["metrics"], "metrics [OPTIONS] [NAME]"),
    ],
)
def test_the_usage_of_a_command_is_as_people_type_it(skitter, words, usage):
    first, _, _ = skitter(*words, "--help").out.partition("\n")
    assert first.endswith(f"skitter {usage}")


def test_what_a_command_is_called_elsewhere_leads_to_ours():
    ours = set(commands())
    assert {one.partition(" ")[0] for one in ELSEWHERE.values()} <= ours | {"--version"}
    assert not ours & ELSEWHERE.keys()


@pytest.mark.parametrize("group", ["proxy", "schedule", "dead", "webhook", "token"])
def test_what_a_command_of_a_group_does_is_not_cut_off(skitter, group):
    _, *lines = skitter(group, "--help").out.splitlines()
    assert not [line for line in lines if line.endswith("...")]


def test_the_module_runs_as_a_program():
    done = subprocess.run(
        [sys.executable, "-m", "skitter", "--help"], capture_output=True, text=True, check=True
    )

    assert "every URL is accounted for" in done.stdout


def test_what_we_promise_is_what_we_export():
    promised = {name: getattr(package, name) for name in package.__all__}
    exported = {
        name
        for name, value in vars(package).items()
        if not (name.startswith("_") or isinstance(value, types.ModuleType))
    } - {"TYPE_CHECKING", "annotations"}

    assert exported == promised.keys()
    with pytest.raises(AttributeError, match="has no attribute 'Spidre'"):
        _ = package.Spidre  # type: ignore[attr-defined]


@pytest.mark.parametrize("closed", [">&-", "<&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_standard_stream_does_no_harm(server_url, job, closed):
    command = f"{sys.executable} -m skitter push {job} https://a.test/ --redis {server_url}"

    assert subprocess.run([need("bash"), "-c", f"{command} {closed}"]).returncode == 0


def test_a_disk_that_is_full_is_told_in_a_sentence(server_url, job):
    command = f"{sys.executable} -m skitter push {job} https://a.test/ --redis {server_url}"
    done = subprocess.run(
        [need("bash"), "-c", f"{command} --json > /dev/full"], stderr=subprocess.PIPE, text=True
    )

    assert done.returncode == 3
    assert done.stderr == (
        "skitter: cannot write all of the output: No space left on device. "
        "Make room, and run it again.\n"
    )
