"""What a changed spider changes, as `replay --against` shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skitter.cli.show.output import grid, say
from skitter.errors import shorten
from skitter.observe.report import some

if TYPE_CHECKING:
    from skitter.archive.diff import Diff, Example

EXAMPLES: Final = 3


def show_diff(diff: Diff) -> None:
    if diff.is_same:
        say(f"Nothing differs: {some(diff.rows, 'row')}, {some(len(diff.fields), 'field')}.")
        return
    say(f"{some(diff.rows, 'row')} compared, {len(diff.gone):,} gone, {len(diff.new):,} new.")
    different = {name: one for name, one in diff.fields.items() if not one.is_same}
    if different:
        columns = ["field", "filled before", "now", "added", "lost", "changed"]
        numbers = {
            name: (one.before, one.now, len(one.added), len(one.lost), len(one.changed))
            for name, one in different.items()
        }
        grid(columns, [[name, *(f"{n:,}" for n in row)] for name, row in numbers.items()])
    for kind, urls in (("gone", diff.gone), ("new", diff.new)):
        for url in urls[:EXAMPLES]:
            say(f"{kind}  {url}")
    for name, one in different.items():
        for how, examples in (("lost", one.lost), ("changed", one.changed), ("added", one.added)):
            for example in examples[:EXAMPLES]:
                _show_example(name, how, example)


def show_left_out(missing: int, failed: dict[str, int], job: str) -> None:
    if missing:
        say(f"Not compared: {some(missing, 'stored row')}, whose pages were not kept.")
    for reason, count in failed.items():
        say(f"Failed: {some(count, 'page')}: {reason}")
    if failed:
        say(f"`skitter dead list {job}` names them.")


def _show_example(name: str, how: str, example: Example) -> None:
    say(f"{name} {how}  {example.url}")
    if how != "added":
        say(f"  - {shorten(repr(example.before))}")
    if how != "lost":
        say(f"  + {shorten(repr(example.now))}")
