"""How much memory the embedded server takes when nobody said."""

from __future__ import annotations

import pytest

from skitter.embedded import ServerOptions, hold
from skitter.embedded.program import MAX_MEMORY, cgroup_limits, default_max_memory_mb, read
from skitter.errors import BadOption


def test_half_of_the_machine_at_most_and_never_nothing():
    default = default_max_memory_mb("")
    assert default is not None
    assert 8 <= default < 10**7


@pytest.mark.parametrize(("said", "means"), [("64", 64), ("0", None), ("8", 8)])
def test_the_environment_decides(said, means):
    assert default_max_memory_mb(said) == means


@pytest.mark.parametrize("said", ["7", "-1", "lots", "1.5"])
def test_nonsense_in_the_environment_is_refused(said):
    with pytest.raises(BadOption, match=MAX_MEMORY):
        default_max_memory_mb(said)


@pytest.mark.parametrize(
    ("files", "lines", "limits"),
    [
        ({"a/b/memory.max": "200", "a/memory.max": "100"}, ["0::/a/b"], [200, 100]),
        ({"memory.max": "100"}, ["0::/docker/of/the/host"], [100]),
        ({"a/memory.max": "max"}, ["0::/a"], []),
        ({"memory/a/memory.limit_in_bytes": "50"}, ["4:cpu:/x", "5:memory:/a"], [50]),
        ({}, [], []),
    ],
)
def test_the_limits_of_a_container_are_found(tmp_path, files, lines, limits):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    assert cgroup_limits(tmp_path, lines) == limits


def test_a_server_has_the_bound_unless_it_was_asked_for_another(short_dir, monkeypatch):
    monkeypatch.setenv(MAX_MEMORY, "77")
    with hold(short_dir / "bounded") as server:
        assert read(server.config).max_memory_mb == 77
    with hold(short_dir / "bounded", ServerOptions(max_memory_mb=33)) as server:
        assert read(server.config).max_memory_mb == 33
    monkeypatch.delenv(MAX_MEMORY)
    with hold(short_dir / "bounded") as server:
        assert read(server.config).max_memory_mb == default_max_memory_mb()
