"""A server that speaks TLS alone, as managed ones do."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chaos.rig import assert_clean, finished, once, results, rude, until
from chaos.servers import Node, free_ports, running
from chaos.worker import pages
from needs import need
from skitter.errors import ServerUnreachable
from skitter.frontier.admin.jobs import create_job
from skitter.frontier.connection import connect
from skitter.model import Request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.timeout(300)


def sign(directory: Path) -> tuple[Path, Path]:
    """A key and its certificate."""
    key, certificate = directory / "key.pem", directory / "certificate.pem"
    kind = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([need("openssl"), *kind, *names, *files], check=True, capture_output=True)
    return key, certificate


@pytest.fixture
async def encrypted(tmp_path) -> AsyncIterator[str]:
    """The URL of a server whose certificate is signed by nobody but itself."""
    redis = need("redis-server")
    key, certificate = await asyncio.to_thread(sign, tmp_path)
    [port] = free_ports(1)
    options = {
        "tls-port": str(port),
        "tls-cert-file": str(certificate),
        "tls-key-file": str(key),
        "tls-ca-cert-file": str(certificate),
        "tls-auth-clients": "no",
    }
    with running([Node(redis, tmp_path / "redis", **options)]) as [one]:
        await until(one.answers, what="Redis answers", within_s=30)
        yield f"rediss://127.0.0.1:{port}/0?ssl_ca_certs={certificate}"


async def test_a_crawl_over_tls(encrypted, fleet, job):
    async with connect(encrypted) as server:
        frontier = await create_job(server, job, options=rude())
        await frontier.add([Request(url=url) for url in pages(0, 200)])
        fleet.start("work", encrypted, job)
        await until(lambda: finished(frontier, fleet), what="the crawl is finished")
        await fleet.dismiss()
        assert await results(frontier) == once(pages(0, 200))
        await assert_clean(frontier)


async def test_a_certificate_that_nobody_signed_is_refused_with_a_sentence(encrypted):
    with pytest.raises(ServerUnreachable, match="certificate verify failed") as caught:
        async with connect(encrypted.partition("?")[0]):
            pass
    assert "?ssl_ca_certs=" in str(caught.value)  # it suggested redis://, in the clear
    assert "redis://" not in str(caught.value)
