"""Text of PDF files, by a program of its own: the library reads what strangers wrote, and a worker
stays small. Needs the extra `pdf`. As that program, this file imports nothing of Skitter.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from threading import get_ident
from typing import Final

CPU_S: Final = 60
MEMORY_BYTES: Final = 2**30
TEXT_BYTES: Final = 100 * 2**20


def has_library() -> bool:
    """Whether the library is installed."""
    return find_spec("pypdfium2") is not None


def write_text(pdf: Path, to: Path) -> str:
    """Write the text of its pages, unless it is there. Returns why that cannot be done, or nothing.
    It takes time: call it in a thread."""
    if to.exists():
        return ""
    to.parent.mkdir(parents=True, exist_ok=True)
    draft = to.with_name(f".{to.stem}.{os.getpid()}.{get_ident()}")  # two files may be one content
    found = find_spec("pypdfium2")
    if found is None or found.origin is None:
        return "pypdfium2 is not installed"
    # -I: nothing from the environment or the working folder.
    library = str(Path(found.origin).parents[1])
    command = [sys.executable, "-I", "-S", __file__, library, str(pdf), str(draft)]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, errors="replace", timeout=10 * CPU_S
    )
    if done.returncode == 0:
        draft.replace(to)
        return ""
    draft.unlink(missing_ok=True)
    if said := done.stderr.strip().splitlines():
        return said[-1].rpartition("Error: ")[2]
    return f"it takes more than {CPU_S} s, or too much memory"


def _write(pdf: str, to: str) -> None:
    import pypdfium2  # type: ignore[import-untyped]

    with Path(to).open("w", encoding="utf-8", errors="replace") as file:
        for page in pypdfium2.PdfDocument(pdf):
            text = page.get_textpage().get_text_bounded()
            file.write("\n".join(text.splitlines()).strip() + "\n\n")
        file.flush()
        os.fsync(file.fileno())


def _limit() -> None:
    sizes = (resource.RLIMIT_CPU, CPU_S), (resource.RLIMIT_AS, MEMORY_BYTES)
    for what, most in (*sizes, (resource.RLIMIT_FSIZE, TEXT_BYTES), (resource.RLIMIT_CORE, 0)):
        with suppress(ValueError, OSError):  # less is allowed already, or it has no such limit
            resource.setrlimit(what, (most, most))


if __name__ == "__main__":
    sys.path.append(sys.argv[1])
    _limit()
    _write(*sys.argv[2:])
