"""Commands run in this process, as by the installed script."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

import pytest

from skitter.cli.main import run_command


@dataclass
class Answer:
    exit_code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def skitter(server_url, monkeypatch, capsys):
    """`skitter("push", "job", url)` on the server of the tests; stdin is text or nothing."""
    monkeypatch.setenv("SKITTER_REDIS_URL", server_url)
    monkeypatch.setenv("COLUMNS", "200")

    def call(*words: str, stdin: str = "") -> Answer:
        monkeypatch.setattr(sys, "argv", ["skitter", *words])
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        code: Any = 0
        try:
            copy_context().run(run_command)  # a process of its own has its own variables
        except SystemExit as stop:
            code = stop.code or 0
        captured = capsys.readouterr()
        return Answer(int(code), captured.out, captured.err)

    return call


@pytest.fixture
def skitter_here(skitter):
    """The same for tests that have a loop of their own: commands start theirs, on a thread."""

    async def call(*words: str, stdin: str = "") -> Answer:
        return await asyncio.to_thread(skitter, *words, stdin=stdin)

    return call
