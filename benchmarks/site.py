"""The site that contenders crawl: static pages behind a private nginx."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from benchmarks.pages import PAGE_BYTES, random_links, write_page
from benchmarks.processes import end
from scripts.programs import advice, find_program
from skitter.errors import InfrastructureError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

START_S: Final = 10.0

_CONFIG: Final = """\
{user}
daemon off;
worker_processes 1;
pid nginx.pid;
error_log error.log;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000;
    open_file_cache max=10000;
    client_body_temp_path tmp; proxy_temp_path tmp; fastcgi_temp_path tmp;
    uwsgi_temp_path tmp; scgi_temp_path tmp;
    types {{ text/html html; }}
    server {{ listen 127.0.0.1:{port}; root www; }}
    server {{
        listen 127.0.0.1:{tls_port} ssl; root www;
        ssl_certificate site.crt; ssl_certificate_key site.key;
    }}
}}
"""


@dataclass(frozen=True, slots=True)
class Site:
    """Sites of different sizes on one server: a folder each."""

    origin: str
    tls_origin: str
    ca_file: Path  # for TLS clients
    www: Path
    server: str  # name and version

    def publish(self, pages: int, *, size_bytes: int = PAGE_BYTES) -> str:
        """The path of the first of this many pages, which are written once."""
        folder = self.www / (f"p{pages}" if size_bytes == PAGE_BYTES else f"p{pages}x{size_bytes}")
        if not folder.is_dir():
            folder.mkdir()
            for number in range(pages):
                links = random_links(number, pages)
                page = write_page(number, links, folder=folder.name, size_bytes=size_bytes)
                (folder / f"{number}.html").write_bytes(page)
        return f"/{folder.name}/0.html"


@asynccontextmanager
async def open_site(directory: Path) -> AsyncIterator[Site]:
    """nginx with one worker process on a free loopback port; removed at the end."""
    program = find_nginx()
    www = directory / "www"
    www.mkdir(parents=True)
    port, tls_port = free_ports(2)
    await _certify(directory)
    async with nginx(
        directory, _CONFIG.format(port=port, tls_port=tls_port, user=user_line()), port
    ):
        yield Site(
            origin=f"http://127.0.0.1:{port}",
            tls_origin=f"https://127.0.0.1:{tls_port}",
            ca_file=directory / "site.crt",
            www=www,
            server=await _version(program),
        )


@asynccontextmanager
async def nginx(directory: Path, config: str, port: int) -> AsyncIterator[None]:
    """Runs in that directory until the end of the block; `port` is one of those it listens on."""
    (directory / "nginx.conf").write_text(config)
    words = [find_nginx(), "-p", str(directory), "-c", "nginx.conf", "-e", "error.log"]
    process = await asyncio.create_subprocess_exec(*words)
    try:
        await _wait_for(port, process, directory / "error.log")
        yield
    finally:
        await end(process)


def user_line() -> str:
    """A master run by root would serve as nobody, who may not enter our directory."""
    return "user root root;" if os.geteuid() == 0 else ""


def find_nginx() -> str:
    """Its path. Raises InfrastructureError."""
    if found := find_program("nginx"):
        return found
    raise InfrastructureError(
        f"nginx serves the pages of this benchmark, and it is not installed: {advice('nginx')}."
    )


async def _certify(directory: Path) -> None:
    """Make a self-signed certificate and its key."""
    words = [
        find_openssl(),
        *("req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=localhost"),
        *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
        *("-addext", "subjectAltName=IP:127.0.0.1"),
        *("-keyout", str(directory / "site.key"), "-out", str(directory / "site.crt")),
    ]
    process = await asyncio.create_subprocess_exec(*words, stderr=asyncio.subprocess.PIPE)
    _, said = await process.communicate()
    if process.returncode:
        raise InfrastructureError(f"openssl made no certificate: {said.decode().strip()}")


def find_openssl() -> str:
    """Its path. Raises InfrastructureError."""
    if found := find_program("openssl"):
        return found
    raise InfrastructureError(
        f"openssl certifies the site of this benchmark, and is not here: {advice('openssl')}."
    )


def free_ports(how_many: int) -> list[int]:
    """Held together: one that was just let go may be found again."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(how_many)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


async def _wait_for(port: int, process: asyncio.subprocess.Process, log: Path) -> None:
    try:
        async with asyncio.timeout(START_S):
            while process.returncode is None:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    await asyncio.sleep(0.02)
                    continue
                writer.close()
                return
    except TimeoutError:
        pass
    raise InfrastructureError(f"nginx did not start: {_last_words(log)}")


def _last_words(log: Path) -> str:
    return (log.read_text().strip() if log.exists() else "") or "it says nothing."


async def _version(program: str) -> str:
    process = await asyncio.create_subprocess_exec(program, "-v", stderr=asyncio.subprocess.PIPE)
    _, said = await process.communicate()
    return said.decode().strip().rpartition(" ")[2].replace("/", " ")
