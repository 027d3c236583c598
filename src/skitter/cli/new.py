"""Write a new spider: new."""

from __future__ import annotations

import re
import shlex
from importlib.resources import files as package_files
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from skitter.cli.common import Json
from skitter.cli.output import emit_json, say
from skitter.errors import UsageError
from skitter.settings import check_job_name


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The spider's name, and its job's.")],
    directory: Annotated[
        Path, typer.Option("--dir", help="Where to write it.", show_default=False)
    ] = Path(),
    as_json: Json = False,
) -> None:
    """Write a working spider and its test, for you to change."""
    files = {directory / path: text for path, text in render_new(name.removesuffix(".py")).items()}
    _write(files)
    spider, test = files
    run = f"skitter run {shlex.quote(str(spider))}"
    check = f"python -m pytest {shlex.quote(str(test))}"
    if as_json:
        emit_json({"spider": str(spider), "test": str(test), "run": run, "check": check})
        return
    say(f"Wrote {spider} and {test}.")
    say(f"Run it:   {run}")
    needs = "" if find_spec("pytest") else "   (after: pip install pytest)"
    say(f"Test it:  {check}{needs}")


def render_new(name: str) -> dict[str, str]:
    """The files of a new spider: path -> text. Raises BadJobName."""
    check_job_name(name)
    stem = re.sub(r"\W", "_", name)
    return {
        f"{stem}.py": _render("spider.py.txt", name, stem),
        f"test_{stem}.py": _render("test_spider.py.txt", name, stem),
    }


def _render(template: str, name: str, stem: str) -> str:
    text = package_files("skitter.spider").joinpath("templates", template).read_text("utf-8")
    return text.replace("%NAME%", name).replace("%STEM%", stem)


def _write(files: dict[Path, str]) -> None:
    """Write all files, or none if any of them exists."""
    if taken := [str(path) for path in files if path.exists()]:
        raise UsageError(
            f"{' and '.join(taken)} exist{'s' if len(taken) == 1 else ''}, and nothing was "
            "written: choose another name, or another place with --dir."
        )
    written: list[Path] = []
    for path, text in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                written.append(path)
                file.write(text)
        except OSError as error:
            for made in written:  # a disk that is full has room for empty files
                made.unlink(missing_ok=True)
            reason = str(error.strerror).lower()
            raise UsageError(
                f"cannot write {path}: {reason}. Choose another place with --dir."
            ) from None
