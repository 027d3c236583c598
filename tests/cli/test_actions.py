"""What operators do on the command line is in the action log."""

from __future__ import annotations

import getpass
import json

import pytest


def told(skitter, job: str) -> list[tuple[str, str]]:
    lines = skitter("logs", job, "--actions", "--json").out.splitlines()
    return [(one["what"], one["detail"]) for one in map(json.loads, lines)]


def test_every_change_is_a_line_also_after_the_job_is_gone(skitter, job):
    skitter("create", job, "--delay", "2")
    for verb in ("pause", "resume", "drain", "cancel"):
        skitter(verb, job)
    skitter("scale", job, "2")
    skitter("set", job, "--delay", "3")
    skitter("host", job, "a.test", "--delay", "9")
    skitter("schedule", "add", job, "--every", "6h")
    skitter("schedule", "remove", job)
    skitter("dead", "retry", job, "--all")
    skitter("dead", "drop", job, "--reason", "404")
    skitter("purge", job, "--yes")

    assert told(skitter, job) == [
        ("create", "delay_s=2.0"),
        *((verb, "") for verb in ("pause", "resume", "drain", "cancel")),
        ("scale", "workers=2"),
        ("set", "delay_s=3.0"),
        ("host", "a.test delay_s=9.0"),
        ("schedule", "every 6h"),
        ("unschedule", ""),
        ("retry", "all"),
        ("drop", "reason=404"),
        ("purge", ""),
    ]


@pytest.mark.parametrize("words", [["status"], ["set"], ["logs"], ["hosts"], ["audit"]])
def test_looking_is_not_a_change(skitter, job, words):
    skitter("push", job, "https://a.test/")
    skitter(words[0], job, *words[1:])

    assert told(skitter, job) == []


def test_people_see_when_who_and_what(skitter, job):
    skitter("create", job)
    skitter("pause", job)
    *_, line = skitter("logs", job, "--actions").out.splitlines()

    assert f"  {getpass.getuser()}@" in line
    assert line.endswith("  pause")


def test_a_job_that_nobody_changed_says_so(skitter):
    answer = skitter("logs", "nobody", "--actions")

    assert (answer.exit_code, answer.out) == (0, "")
    assert "nobody has changed it" in answer.err
