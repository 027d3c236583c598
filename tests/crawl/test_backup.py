"""A machine is lost while it crawls, and a backup from before goes on elsewhere."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from bookshop import expected_items, stored_items
from crawl.conftest import kill
from crawl.test_crawls import in_order
from needs import need
from skitter.demo import SPIDER
from skitter.frontier.audit.auditor import audit

TOOLS = Path(__file__).parents[2] / "deploy" / "backup"
pytestmark = pytest.mark.timeout(300)


def call(tool: str, *words: object) -> subprocess.CompletedProcess[str]:
    command = [need("bash"), str(TOOLS / tool), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_backup_of_a_running_crawl_goes_on_elsewhere_and_brings_every_row_once(
    open_shop, make_machine, until, tmp_path
):
    need("redis-cli")
    shop = open_shop(books=60, latency_s=0.05)
    lost, other = make_machine(shop), make_machine(shop)
    file, out = tmp_path / "backup.rdb", tmp_path / "rows.db"  # neither is on the machine
    words = (str(SPIDER), "--workers", "1", "--concurrency", "2", "--out", str(out))
    crawl = lost.start("run", *words, "--delay", "0.2")  # or it may be over before the backup is
    until(lambda: len(shop.log()) > 15)

    saved = call("backup", file, "-s", lost.folder / ".skitter" / "valkey.sock")
    asked = len(shop.log())
    until(lambda: len(shop.log()) > asked + 5)  # what the backup does not know
    kill(crawl.pid, *lost.children("work"), *lost.children("load"), lost.server_pid())

    assert saved.returncode == 0, saved.stderr
    restored = call("restore", file, other.folder / ".skitter")
    assert restored.returncode == 0, restored.stderr
    assert other.call("trust", ".skitter").returncode == 0
    audited = other.call("audit", "books")
    assert "Every URL is accounted for." in audited.stdout, audited.stdout + audited.stderr
    done = other.call("run", *words, "--delay", "0", "--json")
    assert done.returncode == 0, done.stderr
    assert in_order(stored_items(out)) == in_order(expected_items(shop.expected))
    assert not other.ask(audit).problems


def test_a_backup_that_fails_leaves_the_last_one_and_a_restore_overwrites_nothing(tmp_path):
    need("redis-cli")
    file = tmp_path / "backup.rdb"
    file.write_text("of yesterday")
    (tmp_path / "v" / "appendonlydir").mkdir(parents=True)

    saved = call("backup", file, "-s", tmp_path / "no.sock")
    restored = call("restore", file, tmp_path / "v")

    assert (saved.returncode, file.read_text()) == (1, "of yesterday")
    assert restored.returncode == 1
    assert "v has data" in restored.stderr
    assert not [*(tmp_path / "v" / "appendonlydir").iterdir()]
