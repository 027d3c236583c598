"""What a changed spider changes, as `replay --against` shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import UNSET

from skitter.archive.diff import Example, is_filled
from skitter.archive.differences import both
from skitter.cli.show.output import grid, say
from skitter.observe.report import some

if TYPE_CHECKING:
    from skitter.archive.diff import Diff, FieldDiff

EXAMPLES: Final = 3


def show_diff(diff: Diff) -> None:
    fields = some(len(diff.fields), "field")
    if diff.is_same:
        say(f"Nothing differs: {some(diff.rows, 'row')}, {fields}.")
        return
    different = {name: field for name, field in diff.fields.items() if not field.is_same}
    say(
        f"{some(diff.rows, 'row')} compared, {len(diff.gone):,} gone, {len(diff.new):,} new. "
        f"{len(different):,} of {fields} differ{'s' * (len(different) == 1)}."
    )
    if different:
        say("")
        _show_counts(different)
    _show_examples("gone", [Example(url) for url in diff.gone])
    _show_examples("new", [Example(url) for url in diff.new])
    for name, field in different.items():
        _show_examples(f"{name} lost", field.lost)
        _show_examples(f"{name} changed", field.changed)
        _show_examples(f"{name} added", field.added)


def _show_counts(fields: dict[str, FieldDiff]) -> None:
    columns = ["field", "filled before", "now", "lost", "changed", "added"]
    rows = [
        [name, field.before, field.now, len(field.lost), len(field.changed), len(field.added)]
        for name, field in fields.items()
    ]
    grid(columns, rows)


def _show_examples(what: str, examples: list[Example]) -> None:
    if not examples:
        return
    say("")
    say(f"{what}: {some(len(examples), 'row')}{', such as' * (len(examples) > EXAMPLES)}")
    for example in examples[:EXAMPLES]:
        say(f"  {example.url}")
        sides = [value if is_filled(value) else UNSET for value in (example.before, example.now)]
        for line in both(*sides):
            say(f"  {line}")


def show_left_out(missing: int, failed: dict[str, int], job: str) -> None:
    if missing:
        say(f"Not compared: {some(missing, 'stored row')}, whose pages were not kept.")
    for reason, count in failed.items():
        say(f"Failed: {some(count, 'page')}: {reason}")
    if failed:
        say(f"`skitter dead list {job}` names them.")
