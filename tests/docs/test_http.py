"""Calls of the HTTP API in the documents: a real `skitter serve` answers them as the page says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from documents import PAGES, USUAL, blocks_of, calls_http
from needs import need
from serving import address_of, start

pytestmark = pytest.mark.timeout(300)

TOKEN = "skt_..."
#: A problem is an exit code.
CURLRC = "silent\nshow-error\nfail-with-body\n"
#: A stream would go on for ten minutes; what curl returns when its time is over.
STREAM_S, ENOUGH = 3, 28


LANGUAGES = ("sh", "console", "json", "python")
CALLING = [page for page in PAGES if any(map(calls_http, blocks_of(page, "sh", "console")))]


@pytest.fixture(scope="module")
def served(short_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """A server, its token, and a folder with a file of URLs."""
    directory, folder = short_dir / "http", tmp_path_factory.mktemp("http")
    (folder / "urls.txt").write_text("https://books.example/1\nhttps://books.example/2\n")
    (folder / ".curlrc").write_text(CURLRC)
    with start(directory) as process:
        assert process.stdout
        address = address_of(process.stdout.readline())
        process.stdout.readline()  # the token is in its file by now
        token = (directory / "http-token").read_text().strip()
        yield SimpleNamespace(address=address.rstrip("/"), token=token, folder=folder)
        process.send_signal(signal.SIGINT)


def test_calls_are_answered_as_the_page_says(served):
    """In the order of the pages: the first creates the job that others look at."""
    said = ""
    for block in (one for page in CALLING for one in blocks_of(page, *LANGUAGES)):
        if calls_http(block) and block.language == "python":
            exec(block.code.replace(USUAL, served.address).replace(TOKEN, served.token), {})
        elif calls_http(block):
            said = call(block.code, served)
        elif said and block.language == "json":
            assert json.loads(said) == json.loads(block.code)
            said = ""


def call(code: str, served: SimpleNamespace) -> str:
    """What curl prints, which is at least something."""
    need("curl")
    is_stream = "curl -N" in code
    lines = "\n".join(line.removeprefix("$ ") for line in code.splitlines())
    if is_stream:
        lines += f" --max-time {STREAM_S}"
    done = subprocess.run(
        [need("bash"), "-ec", lines.replace(USUAL, served.address)],
        env={**os.environ, "CURL_HOME": str(served.folder), "TOKEN": served.token},
        cwd=served.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == (ENOUGH if is_stream else 0), done
    assert done.stdout
    return done.stdout
