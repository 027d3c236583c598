"""Fixtures of spiders as tests of pytest, which finds this by the entry point `pytest11`.

Every run of pytest imports it: what it needs is imported when there is a fixture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from skitter.spider.fixtures import Checked, Checks


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> FixtureFile | None:
    if file_path.name != "page.json" or file_path.parts[-4:-3] != ("fixtures",):
        return None
    from skitter.spider.fixtures import is_fixture

    if not is_fixture(file_path.parent):
        return None
    return FixtureFile.from_parent(parent, path=file_path)


class FixtureFile(pytest.File):
    def collect(self) -> Iterator[FixtureItem]:
        yield FixtureItem.from_parent(self, name=self.path.parent.name)


class FixtureItem(pytest.Item):
    """A page, its handler, and what that should find."""

    def runtest(self) -> None:
        checked = _checks(self.config).check(self.path.parent)
        if not checked.is_same:
            raise Differs(checked)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, Differs):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, self.name


class Differs(Exception):
    def __init__(self, checked: Checked) -> None:
        from skitter.spider.fixtures import shown

        hint = f"To take the new values: skitter test accept {shown(checked.folder)}"
        super().__init__("\n".join([*checked.lines, *([] if checked.problem else [hint])]))


def _checks(config: pytest.Config) -> Checks:
    from skitter.spider.fixtures import Checks

    if not hasattr(config, "_skitter_checks"):
        config._skitter_checks = Checks()  # type: ignore[attr-defined]
    return config._skitter_checks  # type: ignore[attr-defined,no-any-return]
