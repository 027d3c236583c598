"""`skitter status` reads plain words itself; click reads the rest."""

from __future__ import annotations

import random
from typing import Any

import pytest

from skitter.cli import status
from skitter.cli.group import Menu
from skitter.cli.main import PANELS
from skitter.cli.show import output


def test_it_knows_the_options_that_click_knows():
    command: Any = Menu(PANELS).get_command(None, "status")
    options = {
        word: (one.name, not one.is_flag)
        for one in command.params
        if one.param_type_name == "option"
        for word in one.opts
    }

    left_to_click = {"--watch", "-w", "--every"}
    assert {word: it for word, it in options.items() if word not in left_to_click} == (
        status._OPTIONS
    )
    assert left_to_click < options.keys()


@pytest.mark.parametrize(
    "words", [(), ("JOB",), ("JOB", "--json"), ("--json",), ("JOB", "-w", "--help")]
)
def test_the_answer_is_the_same_whoever_reads_the_words(skitter, job, monkeypatch, words):
    skitter("push", job, "https://a.test/")
    words = [job if word == "JOB" else word for word in words]
    quick = skitter("status", *words)
    monkeypatch.setattr(status, "show_plainly", lambda words: False)
    usual = skitter("status", *words)

    assert (quick.exit_code, quick.err) == (usual.exit_code, usual.err)
    assert _without_moments(quick.out) == _without_moments(usual.out)


def _without_moments(text: str) -> list[str]:
    return [line for line in text.splitlines() if '"at"' not in line and '"oldest' not in line]


@pytest.mark.parametrize(
    "words", [("--jsn",), ("a", "b"), ("--redis",), ("--redis", "--json"), ("-x",), ("--", "a")]
)
def test_what_it_cannot_read_it_leaves_to_click(monkeypatch, words):
    monkeypatch.setattr(status, "show_status", pytest.fail)

    assert not status.show_plainly(words)


@pytest.mark.parametrize("seed", range(40))
def test_a_table_for_a_file_is_laid_out_as_rich_would(monkeypatch, capsys, seed):
    chance = random.Random(seed)
    kinds = [chance.choice((_number, _share, _text)) for _ in range(chance.randint(1, 5))]
    rows = [[kind(chance) for kind in kinds] for _ in range(chance.randint(0, 5))]
    shown = []
    for is_terminal in (False, True):
        monkeypatch.setattr(output, "_is_terminal", lambda stream, said=is_terminal: said)
        output.grid([kind.__name__ for kind in kinds], rows)
        shown.append(capsys.readouterr().out)

    assert shown[0] == shown[1]


def _number(chance: random.Random) -> int:
    return chance.randint(-(10**7), 10**7)


def _share(chance: random.Random) -> float:
    return chance.random()


def _text(chance: random.Random) -> str:
    return "".join(chance.choice("ab c[]/:\x1b\t{}ü漢") for _ in range(chance.randint(0, 12)))


def test_lines_for_a_file_are_written_as_rich_would(monkeypatch, capsys):
    said = []
    for is_terminal in (False, True):
        monkeypatch.setattr(output, "_is_terminal", lambda stream, said=is_terminal: said)
        for text in ("[bold]no[/] markup", "two\nlines\t\x1b[31m", "", "a" * 300, ":x: ü"):
            output.say(text)
            output.print_progress(text)
            output.print_error(text)
            output.pairs([("name", text), ("", 1), ("a longer one", "x y " * 80)])
        said.append(capsys.readouterr())

    assert said[0] == said[1]
