"""What travels to workers."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from skitter.settings import FetchOptions, LogOptions, WorkerConfig, Workers, resolve
from skitter.settings.tables import overlaid


def test_a_worker_s_configuration_travels_as_json():
    config = WorkerConfig(
        job="books",
        spider="books.py",
        arguments={"pages": 3},
        fetch=FetchOptions(ca_file=Path("ca.pem"), headers={"X-Key": "hush"}, allow_hosts=("a",)),
        workers=Workers(max_memory_mb=None, stuck_s=2),
        log=LogOptions(level="debug", file=Path("x.log")),
    )

    assert WorkerConfig.from_json(config.to_json()) == config
    assert "hush" not in repr(config)


def test_what_is_asked_wins_where_it_is_not_the_default():
    own = FetchOptions(user_agent="ours", total_timeout_s=5)

    both = overlaid(own, FetchOptions(total_timeout_s=9))

    assert (both.user_agent, both.total_timeout_s) == ("ours", 9)


def test_a_worker_gets_every_table_that_it_knows():
    config = resolve({"files.folder": Path("films"), "files.concurrency": 2})
    worker = config.for_worker(job="books")

    shared = {one.name for one in fields(worker)} & {one.name for one in fields(config)}
    assert {"fetch", "files", "archive", "log", "sessions", "proxies"} <= shared
    assert all(getattr(worker, name) is getattr(config, name) for name in shared)
    assert (worker.job, worker.files.folder) == ("books", Path("films"))
