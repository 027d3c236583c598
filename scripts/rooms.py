"""The index of each room: the docstring of its __init__.py ends with its modules and rooms, each
with the first sentence of its own docstring. Written by `make docs`; a test says when it drifts."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

HOUSE = Path(__file__).resolve().parents[1] / "src" / "skitter"
WIDTH = 100
#: A line of an index: a name, two spaces or more, and what it is.
_LINE = re.compile(r"[a-z_]\w*/? {2,}\S.*")


def rooms() -> list[Path]:
    """Every __init__.py."""
    return sorted(HOUSE.rglob("__init__.py"))


def with_index(init: Path) -> str:
    """What the file should contain."""
    text = init.read_text("utf-8")
    _, doc, rest = text.split('"""', 2)
    head = [line for line in doc.rstrip().splitlines() if not _LINE.fullmatch(line)]
    index = "\n".join(_index(init.parent))
    before = re.sub(r"\n{3,}", "\n\n", "\n".join(head)).rstrip()
    return f'"""{before}\n\n{index}\n"""{rest}'


def _index(room: Path) -> Iterator[str]:
    files = [one for one in room.glob("*.py") if not one.name.startswith("__")]
    inner = [one for one in room.iterdir() if (one / "__init__.py").exists()]
    found = {one.stem: one for one in files}
    found |= {f"{one.name}/": one / "__init__.py" for one in inner}
    width = max(map(len, found)) + 2
    for name, file in sorted(found.items()):
        yield f"{name:<{width}}{_summary(file, WIDTH - width)}"


def _summary(file: Path, room: int) -> str:
    """The first sentence of a docstring, or as many of its clauses as there is room for."""
    tree = ast.parse(file.read_text("utf-8"))
    kinds = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    nodes = [tree, *(node for node in tree.body if isinstance(node, kinds))]
    doc = next(filter(None, map(ast.get_docstring, nodes)))
    line = " ".join(doc.partition("\n\n")[0].split())
    sentence = re.split(r"\.(?: |$)", line)[0]
    while len(sentence) > room:
        cut = max(sentence.rfind(mark, 0, room) for mark in (", ", ": ", "; ", " ("))
        sentence = sentence[:cut] if cut > 0 else sentence[: sentence.rfind(" ", 0, room)]
    return sentence.rstrip(",:;")


def main() -> None:
    for init in rooms():
        init.write_text(with_index(init), "utf-8")


if __name__ == "__main__":
    main()
