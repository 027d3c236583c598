"""What a command does not import, it need not wait for."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import skitter
import skitter.settings
from skitter.cli.child import WORKER
from skitter.embedded import hold
from skitter.settings import WorkerConfig

PROGRAM = """
import atexit, sys
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
from skitter.cli.main import run
run()
"""
SPIDER = """
import gc, os, sys
from skitter import Page, Spider

spider = Spider("imports", "https://a.test/")

@spider.page
def nothing(page: Page):
    pass

@spider.on_start
def show():
    print(gc.isenabled(), gc.get_freeze_count(), *sys.modules, flush=True)
    os._exit(0)
"""


def modules_of(*words: str, **environment: str) -> set[str]:
    """What `skitter WORDS` imports."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )
    return set(done.stderr.split())


def test_the_menu_imports_no_command_and_no_library_but_its_parser():
    found = modules_of("--help")

    ours = {name for name in found if name.startswith("skitter.")}
    names = {"main", "menu", "parameters", "tuning"}
    assert ours == {f"skitter.{name}" for name in ("cli", "errors", "redact")} | {
        f"skitter.cli.{name}" for name in names
    }
    assert not found & {"rich", "msgspec", "asyncio", "redis", "dataclasses"}


def test_a_look_at_a_job_imports_nothing_that_fetches_parses_or_stores(server_url):
    found = modules_of("status", "--json", SKITTER_REDIS_URL=server_url)

    assert "skitter.cli.status" in found
    assert not found & {"wreq", "selectolax", "protego", "sqlalchemy", "pydantic", "celery"}
    assert not found & {
        "skitter.cli.crawl",
        "skitter.engine.loop",
        "skitter.sinks",
        "skitter.spider.page",
    }
    assert not found & {"publicsuffixlist", "playwright"}


def test_a_look_at_a_plain_server_imports_no_client_no_loop_and_no_terminal(
    skitter, server_url, job, tmp_path, monkeypatch
):
    skitter("push", job, "https://a.test/")  # and the scripts are on the server
    skitter("status")
    monkeypatch.delenv("SKITTER_REDIS_URL")
    monkeypatch.chdir(tmp_path)

    for words in ((), (job,), (job, "--json")):
        found = modules_of("status", *words, "--redis", server_url)

        assert "skitter.crawl.watch" in found
        assert not found & {"redis", "asyncio", "ssl", "rich", "importlib.metadata"}
        assert not found & {
            "skitter.embedded",
            "skitter.settings.sources",
            "skitter.settings.fetch",
        }


def test_a_look_at_the_embedded_server_imports_no_client_either(short_dir, monkeypatch):
    monkeypatch.delenv("SKITTER_REDIS_URL", raising=False)
    monkeypatch.delenv("SKITTER_DIR", raising=False)
    (place := short_dir / "look").mkdir()
    monkeypatch.chdir(place)
    with hold(place / ".skitter"):
        modules_of("push", "books", "https://a.test/")  # and the scripts are on the server
        modules_of("status")
        found = modules_of("status", "books")

    assert "skitter.embedded" in found
    assert not found & {"redis", "asyncio", "ssl", "rich", "importlib.metadata"}


def test_a_worker_imports_nothing_that_only_people_or_databases_need(
    skitter, server_url, job, tmp_path
):
    file = tmp_path / "imports.py"
    file.write_text(SPIDER)
    skitter("create", job)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "skitter", "work", job, "--parent", str(os.getpid())],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            WORKER: WorkerConfig(spider=str(file)).to_json(),
            "SKITTER_REDIS_URL": server_url,
            "SKITTER_DIR": str(tmp_path),
        },
    )

    assert (done.returncode, done.stderr) == (0, "")
    collects, left_alone, *names = done.stdout.split()
    assert (collects, int(left_alone) > 10_000) == ("True", True)
    found = set(names)
    assert "skitter.engine.loop" in found
    assert not found & {"click", "rich", "sqlalchemy", "pydantic", "celery", "playwright"}
    assert {name for name in found if name.startswith("skitter.cli")} == {
        "skitter.cli",
        "skitter.cli.main",
        "skitter.cli.child",
        "skitter.cli.tuning",
    }
    assert not found & {"skitter.sinks", "skitter.queue", "skitter.crawl.lifecycle"}


def test_a_loader_into_a_file_imports_no_library_of_databases(tmp_path):
    program = """
import sys
import skitter.crawl.job_loader
from skitter.sinks.registry import open_store
open_store(sys.argv[1], job="books").close()
print(*sys.modules)
"""
    words = [sys.executable, "-c", program, str(tmp_path / "books.jsonl")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)

    found = set(done.stdout.split())
    assert "skitter.sinks.files.jsonl" in found
    assert not found & {"sqlalchemy", "psycopg", "pyarrow", "wreq", "selectolax", "click", "rich"}


def test_a_command_that_runs_on_collects_garbage_but_not_what_it_imported(server_url):
    program = """
import gc, sys
from skitter.cli import main, status
status.emit_json = lambda look: print(gc.isenabled(), gc.get_freeze_count(), file=sys.stderr)
sys.argv = ["skitter", "status", "--json"]
main.run()
"""
    environment = {**os.environ, "SKITTER_REDIS_URL": server_url}
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)

    collects, left_alone = done.stderr.split()
    assert (collects, int(left_alone) > 10_000) == ("True", True)


@pytest.mark.parametrize("package", [skitter, skitter.settings])
def test_what_a_type_checker_sees_of_a_package_is_what_there_is(package):
    source = Path(package.__file__).read_text()
    seen = {
        (one.module, one.names[0].name, one.names[0].asname)
        for one in ast.walk(ast.parse(source))
        if isinstance(one, ast.ImportFrom) and (one.module or "").startswith("skitter.")
    }

    assert seen == {(module, name, name) for name, module in package._HOMES.items()}
    assert all(hasattr(package, name) for name in package._HOMES)
