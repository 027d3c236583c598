"""Calls of the HTTP API in the documents: a real `skitter serve` answers them as the page says."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from selectolax.lexbor import LexborHTMLParser

from chaos.servers import free_ports
from documents import PAGES, ROOT, USUAL, blocks_of, calls_http, commands_of
from needs import need
from serving import address_of, start
from waiting import Child, until

pytestmark = pytest.mark.timeout(300)

TOKEN = "skt_..."
#: A problem is an exit code.
CURLRC = "silent\nshow-error\nfail-with-body\n"
#: A stream would go on for ten minutes; what curl returns when its time is over.
STREAM_S, ENOUGH = 3, 28
#: How the page about proxies starts the server.
ALLOWING = ("--allow-host", "tools.example")
NGINX = """
daemon off; {user}
pid nginx.pid;
events {{}}
http {{
    access_log off;
    server {{
        listen 127.0.0.1:{port};
{lines}
    }}
}}
"""

LANGUAGES = ("sh", "console", "json", "python")
CALLING = [page for page in PAGES if any(map(calls_http, blocks_of(page, "sh", "console")))]


@pytest.fixture(scope="module")
def served(short_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """A server, its token, and a folder with a file of URLs."""
    directory, folder = short_dir / "http", tmp_path_factory.mktemp("http")
    (folder / "urls.txt").write_text("https://books.example/1\nhttps://books.example/2\n")
    (folder / ".curlrc").write_text(CURLRC)
    with start(directory, *ALLOWING) as process:
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


def test_a_proxy_that_is_set_up_as_the_page_says_leads_to_the_dashboard(served, tmp_path):
    page = ROOT / "docs/howto/dashboard.md"
    (block,) = blocks_of(page, "nginx")
    assert [*ALLOWING] in [words[1:] for words in commands_of(page) if words[0] == "serve"]
    lines = block.code.replace(USUAL, served.address)
    assert lines != block.code

    with behind_nginx(lines, tmp_path) as port:
        found = ask(port, "/skitter/")
        link, *_ = LexborHTMLParser(found.text).css("link[rel=stylesheet]")
        styles = link.attributes["href"]

        assert (found.status_code, ask(port, f"/skitter/{styles}").status_code) == (200, 200)
        assert ask(port, "/skitter/", host="other.example").status_code == 421
        assert ask(port, "/").status_code == 404


@contextmanager
def behind_nginx(lines: str, folder: Path) -> Iterator[int]:
    (port,) = free_ports(1)
    # A master run by root would serve as nobody, who may not enter the folder.
    user = "user root root;" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(NGINX.format(port=port, user=user, lines=lines))
    words = [need("nginx"), "-p", str(folder), "-c", "nginx.conf", "-e", "error.log"]
    with Child(words) as process:
        until(lambda: listens(port) or process.poll() is not None)
        assert process.poll() is None, (folder / "error.log").read_text()
        yield port
        process.terminate()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def ask(port: int, path: str, *, host: str = "tools.example") -> httpx.Response:
    return httpx.get(f"http://127.0.0.1:{port}{path}", headers={"host": host})
