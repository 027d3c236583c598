"""A directory that somebody else prepared is refused, in words that say what to do."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from skitter.crawl.printed import Output
from skitter.embedded import hold, running, start, stop
from skitter.errors import DirectoryUnusable
from skitter.trust import make_ours

PLANTED = 'port 0\nbind 0.0.0.0\nrequirepass "known"\n'


@pytest.fixture
def home():
    base = Path(tempfile.mkdtemp(prefix="sk-", dir="/tmp"))
    yield base / ".skitter"
    shutil.rmtree(base)


def refused(home: Path) -> str:
    with pytest.raises(DirectoryUnusable) as error, hold(home):
        pass
    assert running(home.parent / "nowhere") is None
    assert not (home / "valkey.sock").exists()
    return str(error.value)


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o707])
def test_a_directory_that_others_may_write_to_is_refused(home, mode):
    home.mkdir()
    home.chmod(mode)
    says = refused(home)
    assert f"other users can write to {home} (mode {mode:o})" in says
    assert f"`chmod go-w {home}`" in says


def test_the_command_in_the_message_is_the_remedy(home):
    home.mkdir()
    home.chmod(0o777)
    refused(home)
    home.chmod(0o755)
    with hold(home):
        assert running(home)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("planted", ["", "keep", "valkey.conf"])
def test_what_belongs_to_another_user_is_refused(home, planted):
    home.mkdir()
    place = home / planted
    if planted:
        place.touch()
    os.chown(place, 65534, -1)
    assert f"{place} belongs to another user (uid 65534)" in refused(home)


@pytest.mark.parametrize("name", ["valkey.log", "valkey.conf", "start.lock", "appendonlydir"])
def test_a_link_in_it_is_refused_and_what_it_points_to_is_not_touched(home, name):
    victim = home.parent / "victim"
    victim.write_text("mine")
    home.mkdir()
    (home / name).symlink_to(victim)
    assert f"{home / name} is a link, which Skitter never creates: remove it" in refused(home)
    assert victim.read_text() == "mine"


def test_a_configuration_that_came_with_a_repository_is_not_obeyed(home):
    make_ours(home)  # and was put into a directory of ours
    (home / "keep").touch()
    (home / "valkey.conf").write_text(PLANTED)
    (home / "valkey.conf").chmod(0o644)
    assert f"{home / 'valkey.conf'} is not as Skitter wrote it" in refused(home)
    with pytest.raises(DirectoryUnusable, match="remove it"):
        running(home)


def test_a_short_link_of_ours_to_a_directory_of_ours_is_used(home):
    real = home.parent / "real"
    real.mkdir()
    home.symlink_to(real)
    start(home)
    assert running(real)
    stop(home)


@pytest.mark.parametrize("link", ["logs", "logs/job.log"])
def test_what_processes_print_does_not_go_where_a_link_points(home, link):
    victim = home.parent / ("victim" if link.endswith("log") else "folder")
    victim.mkdir() if link == "logs" else victim.write_text("mine")
    home.mkdir()
    if link != "logs":
        (home / "logs").mkdir()
    (home / link).symlink_to(victim)
    with pytest.raises((DirectoryUnusable, OSError)), Output(home / "logs" / "job.log").open():
        pass
    assert [*victim.iterdir()] == [] if link == "logs" else victim.read_text() == "mine"
