"""The menu has the first lines of all helps; tables are the same without a terminal; status says
nothing twice."""

from __future__ import annotations

import random

import pytest

from skitter.cli.menu import PANELS, all_commands
from skitter.cli.show import output
from skitter.cli.status import more_notes
from skitter.frontier.records.health import OF_NOTES, Trouble


def test_every_command_of_the_menu_is_there_with_the_first_line_of_its_help():
    commands = all_commands().commands
    lines = {name: line for panel in PANELS.values() for name, (_, line) in panel.items()}

    assert lines == {
        name: " ".join((one.help or "").partition("\n\n")[0].split())
        for name, one in commands.items()
    }


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


NO_LOADER, NO_HANDLER = OF_NOTES["output away"], OF_NOTES["no handler"]


@pytest.mark.parametrize(
    ("kind", "says", "note"),
    [
        ("output away", f"7 items wait {NO_LOADER}", f"9 items wait {NO_LOADER}: that of h"),
        ("output away", "the database is away", "loader: the database is away"),
        (
            "no handler",
            f"2 URLs wait: {NO_HANDLER} 'a'",
            f"worker: {NO_HANDLER} 'a': its pages wait",
        ),
    ],
)
def test_a_note_of_what_is_told_with_its_command_is_not_told_again(kind, says, note):
    other = "worker: the disk is full"
    assert more_notes([note, other], [Trouble(kind=kind, says=says)]) == [other]
