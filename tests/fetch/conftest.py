from __future__ import annotations

import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from needs import need
from skitter.fetch import FetchOptions, Guard, HttpFetcher

HERE = frozenset({"127.0.0.1"})


@asynccontextmanager
async def opened(**options: Any) -> AsyncIterator[HttpFetcher]:
    """A client that may talk to the site of the test."""
    async with HttpFetcher(FetchOptions(**options), guard=Guard(HERE)) as fetcher:
        yield fetcher


@pytest.fixture
async def fetcher() -> AsyncIterator[HttpFetcher]:
    async with opened() as fetcher:
        yield fetcher


@pytest.fixture
def open_fetcher():
    return opened


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
