"""The advice to install an extra works for how this package was installed."""

from __future__ import annotations

import json
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

import pytest

from skitter.extras import install, install_of

METADATA = """Metadata-Version: 2.4
Name: skitter
Version: 0.1.0
Requires-Dist: msgspec
Requires-Dist: pyarrow>=18 ; extra == "parquet"
Requires-Dist: brotli>=1.2 ; python_version < '3.14' and extra == "aiohttp"
"""


def installed(folder: Path, origin: dict[str, Any] | None) -> Distribution:
    """A package as pip leaves it."""
    record = folder / "skitter-0.1.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text(METADATA)
    if origin is not None:
        (record / "direct_url.json").write_text(json.dumps(origin))
    return Distribution.at(record)


def test_each_origin_has_its_command(tmp_path):
    clone, wheel = tmp_path / "my clone", tmp_path / "skitter-0.1.0-py3-none-any.whl"
    clone.mkdir()
    wheel.touch()
    vcs = {"vcs": "git", "commit_id": "0" * 40}
    commands = {
        "an index": (None, "pip install 'skitter[parquet]'"),
        "an editable clone": (
            {"url": clone.as_uri(), "dir_info": {"editable": True}},
            f"pip install -e '{clone}[parquet]'",
        ),
        "a clone": ({"url": clone.as_uri(), "dir_info": {}}, f"pip install '{clone}[parquet]'"),
        "a clone that is gone": (
            {"url": (tmp_path / "gone").as_uri(), "dir_info": {}},
            "pip install 'pyarrow>=18'",
        ),
        "a wheel": (
            {"url": wheel.as_uri(), "archive_info": {}},
            f"pip install 'skitter[parquet] @ {wheel.as_uri()}'",
        ),
        "a repository": (
            {"url": "https://git.example/skitter.git", "vcs_info": vcs},
            "pip install 'skitter[parquet] @ git+https://git.example/skitter.git'",
        ),
    }
    for number, (origin, (record, command)) in enumerate(commands.items()):
        folder = tmp_path / str(number)
        folder.mkdir()

        assert install_of("parquet", installed(folder, record)) == command, origin


def test_this_one_names_where_it_is():
    """In a clone, the path; elsewhere, what pip understands."""
    assert install("parquet").startswith("pip install ")
    assert "parquet" in install("parquet") or "pyarrow" in install("parquet")


@pytest.mark.parametrize("extra", ["aiohttp", "unknown"])
def test_what_is_gone_is_replaced_by_names(tmp_path, extra):
    package = installed(tmp_path, {"url": (tmp_path / "x.whl").as_uri(), "archive_info": {}})

    needs = {"aiohttp": "pip install 'brotli>=1.2'", "unknown": "pip install 'skitter[unknown]'"}
    assert install_of(extra, package) == needs[extra]
