"""The shop as a process of its own."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bookshop import read_log
from demo.crawler import fetch
from waiting import Child, until

COMMAND = [sys.executable, "-m", "skitter.demo.site", "--books", "60"]


def wait_for(file: Path, process: subprocess.Popen[str]) -> str:
    until(lambda: file.exists() or process.poll() is not None)
    assert process.poll() is None, process.communicate()
    return file.read_text().strip()


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_a_process_says_where_it_is_logs_and_ends_on_a_signal(tmp_path, ending):
    ready, log = tmp_path / "ready", tmp_path / "log"
    with Child(
        [*COMMAND, "--port", "0", "--ready-file", str(ready), "--log", str(log)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        url = wait_for(ready, process)
        assert fetch(url).status == 200
        assert [entry.target for entry in read_log(log)] == ["/"]
        process.send_signal(ending)
        out, err = process.communicate()

    assert (process.returncode, out, err) == (0, f"{url}\n", "")


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--books", "3"], 2, "books must be a number from 50 to 5,000, got 3."),
        (["--port", "PORT"], 3, "cannot open port PORT (Address already in use): choose another."),
    ],
)
async def test_a_process_that_cannot_open_says_why(shop, options, code, message):
    options = [option.replace("PORT", str(shop.port)) for option in options]
    done = await asyncio.to_thread(
        subprocess.run, [*COMMAND, *options], capture_output=True, text=True
    )

    assert done.returncode == code
    assert message.replace("PORT", str(shop.port)) in done.stderr
    assert done.stdout == ""
