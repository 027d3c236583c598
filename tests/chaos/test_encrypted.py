"""A server that speaks TLS alone, as managed ones do."""

from __future__ import annotations

import asyncio
import subprocess
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chaos.rig import assert_clean, finished, once, results, rude, until
from chaos.servers import Node, free_ports, join, running
from chaos.worker import pages
from needs import need
from skitter.errors import BadOption, ServerUnreachable, SkitterError
from skitter.frontier.feed import finish_batch, take_batch
from skitter.frontier.jobs import create_job
from skitter.frontier.transport.blocking import blocking_client
from skitter.frontier.transport.connection import connect
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


def tls(directory: Path) -> tuple[dict[str, str], str]:
    """Options of a server, and what a URL needs to trust it."""
    key, certificate = sign(directory)
    [port] = free_ports(1)
    files = {"cert": certificate, "key": key, "ca-cert": certificate}
    options = {f"tls-{name}-file": str(file) for name, file in files.items()}
    options |= {"tls-port": str(port), "tls-auth-clients": "no"}
    return options, f"ssl_ca_certs={certificate}"


@pytest.fixture
async def encrypted(tmp_path) -> AsyncIterator[str]:
    """The URL of a server whose certificate is signed by nobody but itself."""
    options, query = await asyncio.to_thread(tls, tmp_path)
    with running([Node(need("redis-server"), tmp_path / "redis", **options)]) as [one]:
        await until(one.answers, what="Redis answers", within_s=30)
        yield f"rediss://127.0.0.1:{options['tls-port']}/0?{query}"


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


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            ("certificate.pem", "nothing.pem"),
            "a file that the URL .* names .* .no such file",
        ),
        (("certificate.pem", "key.pem"), "a file that the URL .* names cannot be used"),
        (("127.0.0.1:", "127.1:"), "shows a certificate of another name"),
    ],
)
async def test_a_mistake_in_the_address_of_an_encrypted_server_is_named(encrypted, change, says):
    with pytest.raises(ServerUnreachable, match=says):
        async with connect(encrypted.replace(*change)):
            pass


async def fetch_a_feed(url: str, job: str) -> list[bytes]:
    """A crawl's first steps, and messages of a key in some slot."""
    async with connect(url) as server:
        frontier = await create_job(server, job, options=rude())
        await frontier.add([Request(url="https://a.test/")])
        assert len((await frontier.lease(1)).leases) == 1
        await server.command("LPUSH", f"{job}:start_urls", "one")
        batch = await take_batch(frontier, ["elsewhere", f"{job}:start_urls"], limit=5)
        assert batch is not None
        await finish_batch(frontier, name=batch.name, place=batch.place)
        with closing(await asyncio.to_thread(blocking_client, url)) as client:
            assert await asyncio.to_thread(client.exists, batch.place) == 0
        return batch.texts


async def test_a_cluster_over_tls(tmp_path, job):
    options, query = await asyncio.to_thread(tls, tmp_path)
    options |= {"cluster-enabled": "yes", "tls-cluster": "yes"}
    with running([Node(need("redis-server"), tmp_path / "redis", **options)]) as nodes:
        await join(nodes)

        url = f"rediss+cluster://127.0.0.1:{options['tls-port']}?{query}"

        assert await fetch_a_feed(url, job) == [b"one"]


async def test_sentinels_over_tls_with_a_password_of_their_own(tmp_path, job):
    options, query = await asyncio.to_thread(tls, tmp_path)
    server, port = need("redis-server"), options["tls-port"]
    master = Node(server, tmp_path / "redis", **options, requirepass="of-server")
    [sentinel_port] = free_ports(1)
    lines = [f"{name} {value}" for name, value in options.items() if name != "tls-port"]
    lines += [f"tls-port {sentinel_port}", "port 0", "tls-replication yes", f"dir {tmp_path}"]
    lines += ["requirepass of-sentinel", f"sentinel monitor main 127.0.0.1 {port} 1"]
    lines += ["sentinel auth-pass main of-server"]
    (tmp_path / "sentinel.conf").write_text("\n".join(lines) + "\n")
    sentinel = Node(server, tmp_path / "sentinel")
    sentinel._program = [server, str(tmp_path / "sentinel.conf"), "--sentinel"]
    url = f"rediss+sentinel://:of-server@127.0.0.1:{sentinel_port}/main"
    with running([master, sentinel]):
        await until(master.answers, what="the master answers", within_s=30)
        whole = f"{url}?{query}&sentinel_password=of-sentinel"
        await until(lambda: answers(whole), what="the sentinel knows the master", within_s=30)

        assert await fetch_a_feed(whole, job) == [b"one"]
        with pytest.raises(SkitterError, match=r"sentinel|login"):
            async with connect(f"{url}?{query}"):
                pass


async def answers(url: str) -> bool:
    try:
        async with connect(url):
            return True
    except SkitterError:
        return False


@pytest.mark.parametrize("query", ["ssl_ca_certs=/c", "sentinel_pasword=x"])
async def test_what_means_nothing_in_the_address_of_sentinels_is_refused(query):
    name = query.partition("=")[0]
    with pytest.raises(BadOption, match=f"{name} means nothing here"):
        async with connect(f"redis+sentinel://127.0.0.1:1/main?{query}"):
            pass
