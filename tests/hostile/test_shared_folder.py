"""In a folder where others may write, such as /tmp, they cannot have our files written elsewhere,
and cannot set our settings."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from sinks.making import JOB, copy, lines_of, records_of, result, write
from skitter.errors import UsageError
from skitter.settings import resolve
from skitter.sinks import SinkAway
from skitter.sinks.export import Target
from skitter.sinks.registry import open_store

BROWSER = '[browser]\nexecutable = "/tmp/theirs"\n[[proxy]]\nname = "theirs"\nurl = "http://h:1"\n'


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_the_draft_of_an_export_follows_no_link(tmp_path: Path, link: Callable[[Path, Path], None]):
    victim, target = tmp_path / "victim", Target(tmp_path / "o.csv")
    victim.write_text("precious")
    write(tmp_path / "x.db", [result(0, {"n": 1})])
    link(victim, target.lock)

    if link is os.symlink:
        with pytest.raises(SinkAway, match=r"\.o\.csv\.draft is a link, .* remove it"):
            copy(tmp_path / "x.db", target.path)
        target.lock.unlink()
    copy(tmp_path / "x.db", target.path)

    assert victim.read_text() == "precious"
    assert [row["n"] for row in records_of(target.path)] == ["1"]
    assert {one.name for one in tmp_path.iterdir()} == {"victim", "x.db", "o.csv"}


def test_drafts_have_names_that_nobody_can_guess_and_those_of_killed_exports_are_removed(tmp_path):
    target = Target(tmp_path / "o.csv")
    assert target.new_draft() != target.new_draft()
    write(tmp_path / "x.db", [result(0, {"n": 1})])
    target.new_draft().write_text("half of it")
    others = [tmp_path / ".o.csv.draft-notes", tmp_path / ".other.csv.draft-0123456789abcdef"]
    for one in others:
        one.touch()

    copy(tmp_path / "x.db", target.path)

    assert {*tmp_path.iterdir()} == {target.path, tmp_path / "x.db", *others}


def test_a_loader_that_compacts_its_file_follows_no_link(tmp_path: Path):
    victim, target = tmp_path / "victim", tmp_path / "o.jsonl"
    victim.write_text("precious")
    with closing(open_store(str(target), job=JOB)) as store:
        for n in (1, 2):
            store.write([result(0, {"n": n})])
        (tmp_path / ".o.jsonl.draft").symlink_to(victim)

    assert [row["n"] for row in lines_of(target)] == [2]
    assert victim.read_text() == "precious"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("name", ["skitter.toml", "pyproject.toml"])
def test_the_settings_of_another_user_in_a_folder_for_all_are_refused(tmp_path, monkeypatch, name):
    tmp_path.chmod(0o1777)
    monkeypatch.chdir(tmp_path)
    text = BROWSER.replace("[browser]", "[tool.skitter.browser]")
    text = text.replace("[[proxy]]", "[[tool.skitter.proxy]]")
    Path(name).write_text(BROWSER if name == "skitter.toml" else text)
    os.chown(name, 65534, -1)

    with pytest.raises(UsageError, match="belongs to another user") as refused:
        resolve()

    assert "theirs" not in str(refused.value)
    Path(name).unlink()
    (tmp_path / "mine.toml").write_text(BROWSER)
    Path("skitter.toml").symlink_to("mine.toml")
    os.lchown("skitter.toml", 65534, -1)  # their link to a file of ours
    with pytest.raises(UsageError, match="belongs to another user"):
        resolve()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_strangers_file_is_not_even_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Path("skitter.toml").open("wb") as endless:
        endless.truncate(2**40)
    os.chown("skitter.toml", 65534, -1)
    with pytest.raises(UsageError, match="belongs to another user"):
        resolve()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_with_sudo_the_settings_of_whoever_ran_it_count(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("skitter.toml").write_text("[workers]\nconcurrency = 7\n")
    os.chown("skitter.toml", 65534, -1)
    for who in ("1000", "65534x", ""):
        monkeypatch.setenv("SUDO_UID", who)
        with pytest.raises(UsageError, match="belongs to another user"):
            resolve()
    monkeypatch.setenv("SUDO_UID", "65534")
    assert resolve().workers.concurrency == 7


def test_a_file_that_is_nested_too_deeply_is_no_toml(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("skitter.toml").write_text("a = " + "[" * 100_000)
    with pytest.raises(UsageError, match="is not TOML"):
        resolve()
    Path("skitter.toml").unlink()
    Path("pyproject.toml").write_text("[tool.skitter]\na = " + "[" * 100_000)
    assert resolve().browser.executable is None
