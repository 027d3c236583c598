"""The code in our Markdown: blocks of a language, commands, and the output that pages show."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [
    page
    for page in sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
    if not {"adr", "reference"} & set(page.parts)  # decisions age; references are made from code
]
_BLOCK = re.compile(
    r"^ *```(?P<language>\w*)\n(?P<code>.*?)^ *```$|(?P<indented>(?:^    [^\n]*\n|^\n)+)",
    re.DOTALL | re.MULTILINE,
)
#: Where `skitter serve` is in the pages.
USUAL = "http://127.0.0.1:8765"
_ASSIGNMENT = re.compile(r"[A-Z_]+=")


@dataclass(frozen=True)
class Block:
    language: str
    code: str


@dataclass
class Step:
    """A command, and the lines that the page shows below it; `...` stands for anything."""

    command: str
    output: list[str] = field(default_factory=list)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks_of(page: Path, *languages: str) -> list[Block]:
    found = (
        Block(one["language"] or "", one["code"] or "")
        for one in _BLOCK.finditer(page.read_text())
        if not one["indented"]
    )
    return [block for block in found if block.language in languages]


def all_blocks_of(page: Path) -> list[Block]:
    """Those of every language, and what is indented as `indented`."""
    return [
        Block("indented", one["indented"])
        if one["indented"]
        else Block(one["language"] or "", one["code"])
        for one in _BLOCK.finditer(page.read_text())
    ]


def calls_http(block: Block) -> bool:
    """tests/docs/test_http.py has a server for these."""
    return USUAL in block.code and (block.language == "python" or "curl " in block.code)


def steps_of(block: Block) -> list[Step]:
    """The commands behind `$ `, with what follows each."""
    steps: list[Step] = []
    for line in block.code.splitlines():
        if line.startswith("$ "):
            steps.append(Step(line[2:]))
        elif steps and steps[-1].command.endswith("\\"):  # goes on in the next line
            steps[-1].command += f"\n{line}"
        elif steps:
            steps[-1].output.append(line)
    return steps


def commands_of(page: Path) -> Iterator[list[str]]:
    """The words of each call of `skitter` in a block of the page, without what the shell takes."""
    for one in _BLOCK.finditer(page.read_text()):
        if one["language"] in ("", "console", "sh", None):
            for line in (one["code"] or one["indented"] or "").splitlines():
                yield from calls_in(line.strip().removeprefix("$ "))


def calls_in(line: str) -> Iterator[list[str]]:
    if "skitter " not in line:
        return
    try:
        words = shlex.split(line, comments=True)
    except ValueError:  # prose with an apostrophe
        return
    while words and _ASSIGNMENT.match(words[0]):
        words = words[1:]
    while words:
        end = next((at for at, word in enumerate(words) if word in ("|", "&", "&&", ">")), None)
        if words[0] == "skitter":
            yield words[1:end]
        words = words[end + 1 :] if end is not None else []


def spoken_of(page: Path) -> list[str]:
    """Commands within a sentence: `skitter set JOB --delay 5`."""
    prose = _BLOCK.sub("", page.read_text())
    return [" ".join(one.split()) for one in re.findall(r"`skitter ([^`]+)`", prose)]


def agrees(shown: list[str], printed: str) -> bool:
    """Whether it was printed as shown, columns as wide as they may be. `...` alone in a line: any
    lines; within one: any text."""
    lines = [r"(?:.*\n)*?" if line == "..." else _line(line) for line in shown]
    plain = "".join(f"{_narrow(line)}\n" for line in printed.splitlines())
    return re.fullmatch("".join(lines), plain) is not None


def _line(line: str) -> str:
    return re.escape(_narrow(line)).replace(r"\.\.\.", ".*") + "\n"


def _narrow(line: str) -> str:
    return re.sub("  +", "  ", line.rstrip())
