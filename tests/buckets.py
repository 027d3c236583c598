"""An S3 server, if moto is installed: it brings thirty packages."""

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.request import Request, urlopen

import pytest


@contextmanager
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a bucket; processes that start from now on reach it."""
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0)
    server.start()
    try:
        host, port = server.get_host_and_port()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        for name, value in [
            ("ACCESS_KEY_ID", "x"), ("SECRET_ACCESS_KEY", "y"), ("REGION", "us-east-1"),
            ("ALLOW_HTTP", "true"),
        ]:  # fmt: skip
            monkeypatch.setenv(f"AWS_{name}", value)
        urlopen(Request(f"http://{host}:{port}/bucket", method="PUT")).close()
        yield "s3://bucket"
    finally:
        server.stop()
