"""A new spider, on disk."""

from __future__ import annotations

import pytest

from disks import fill_disk, mount_disk, unmount_disk
from skitter.spider import load_spider


def test_a_spider_and_its_test_are_written_and_the_next_step_is_told(
    skitter, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    answer = skitter("new", "my-shop")

    assert answer.exit_code == 0
    assert "skitter run my_shop.py" in answer.out
    assert "python -m pytest test_my_shop.py" in answer.out
    assert "skitter test add my_shop.py URL" in answer.out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["my_shop.py", "test_my_shop.py"]
    compile((tmp_path / "test_my_shop.py").read_text(), "test_my_shop.py", "exec")


def test_somebody_without_pytest_is_told_to_install_it(skitter, tmp_path, monkeypatch):
    monkeypatch.setattr("skitter.cli.commands.prepare.find_spec", lambda name: None)

    assert "(after: pip install pytest)" in skitter("new", "shop", "--dir", str(tmp_path)).out


def test_the_spider_loads(skitter, tmp_path):
    skitter("new", "shop", "--dir", str(tmp_path))

    assert load_spider(tmp_path / "shop.py").name == "shop"


def test_a_directory_that_does_not_exist_is_made(skitter, tmp_path):
    place = tmp_path / "all my" / "spiders"
    answer = skitter("new", "shop.py", "--dir", str(place), "--json")

    assert answer.json == {
        "spider": f"{place}/shop.py",
        "test": f"{place}/test_shop.py",
        "run": f"skitter run '{place}/shop.py'",
        "check": f"python -m pytest '{place}/test_shop.py'",
        "add_page": f"skitter test add '{place}/shop.py' URL",
    }
    assert (place / "shop.py").exists()


@pytest.mark.parametrize("taken", ["shop.py", "test_shop.py"])
def test_nothing_is_overwritten_and_nothing_is_half_written(skitter, tmp_path, taken):
    (tmp_path / taken).write_text("mine")
    answer = skitter("new", "shop", "--dir", str(tmp_path))

    assert answer.exit_code == 2
    assert f"{taken} exists, and nothing was written" in answer.err.replace("\n", "")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


def test_a_full_disk_is_left_without_half_a_spider(skitter, tmp_path):
    place = tmp_path / "disk"
    if why := mount_disk(place, size="1m"):
        pytest.skip(f"cannot mount a small disk here, which takes root: {why}")
    try:
        filler = fill_disk(place)
        answer = skitter("new", "shop", "--dir", str(place))
        left = list(place.iterdir())
    finally:
        unmount_disk(place)

    assert answer.exit_code == 2
    assert "no space left on device. Choose another place with --dir." in answer.err
    assert left == [filler]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["../evil"], "is not a job name"),
        (["shop", "--dir", "/dev/null/here"], "cannot write /dev/null/here/shop.py"),
        ([], "Missing argument"),
    ],
)
def test_a_mistake_is_answered_with_a_sentence(skitter, words, says):
    answer = skitter("new", *words)

    assert answer.exit_code == 2
    assert says in answer.err
    assert "Traceback" not in answer.err
