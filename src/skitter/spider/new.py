"""`skitter new NAME`: a spider that works, with comments and a test."""

from __future__ import annotations

import re
from importlib.resources import files

from skitter.settings import check_job_name


def render_new(name: str) -> dict[str, str]:
    """The files of a new spider: path -> text. Raises BadJobName."""
    check_job_name(name)
    stem = re.sub(r"\W", "_", name)
    return {
        f"{stem}.py": _render("spider.py.txt", name, stem),
        f"test_{stem}.py": _render("test_spider.py.txt", name, stem),
    }


def _render(template: str, name: str, stem: str) -> str:
    text = files("skitter.spider").joinpath("templates", template).read_text("utf-8")
    return text.replace("%NAME%", name).replace("%STEM%", stem)
