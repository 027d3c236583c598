from __future__ import annotations

import ssl
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from needs import need
from skitter.fetch import FetchOptions, Guard, HttpFetcher
from skitter.fetch.http.guard import Resolver

OURS = Guard(frozenset({"127.0.0.1"}))
Opening = Callable[..., HttpFetcher]


@pytest.fixture(params=["wreq", "aiohttp"])
def client(request: pytest.FixtureRequest) -> str:
    """Whatever holds for a client holds for each of them."""
    return str(request.param)


@pytest.fixture
def open_fetcher(client: str) -> Opening:
    """Of a client that may talk to the site of the test, unless there is another guard."""

    def opened(
        *, guard: Guard | None = OURS, resolver: Resolver | None = None, **options: Any
    ) -> HttpFetcher:
        chosen = FetchOptions(**{"client": client, **options})
        return HttpFetcher(chosen, guard=guard, resolver=resolver)

    return opened


@pytest.fixture
async def fetcher(open_fetcher: Opening) -> AsyncIterator[HttpFetcher]:
    async with open_fetcher() as fetcher:
        yield fetcher


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For 127.0.0.1 and shop.example, signed by nobody, with its key, in one file."""
    path = tmp_path_factory.mktemp("tls") / "self-signed.pem"
    subprocess.run(
        [
            need("openssl"),
            *("req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=localhost"),
            *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *(
                "-addext",
                "subjectAltName=IP:127.0.0.1,DNS:shop.example",
                "-keyout",
                path,
                "-out",
                f"{path}.crt",
            ),
        ],
        check=True,
        capture_output=True,
    )
    path.write_bytes(path.read_bytes() + Path(f"{path}.crt").read_bytes())
    return path


@pytest.fixture
def tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    return context
