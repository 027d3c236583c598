"""Runs the application under uvicorn."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING

import uvicorn

from skitter.errors import BadOption, UsageError
from skitter.server.application import application
from skitter.server.protocol import PatientProtocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from skitter.server.site import Site

#: Time for calls in flight to end at shutdown.
GRACE_S = 2
MAX_CONNECTIONS = 2000
HOST_NAME = re.compile(r"[\w.-]+")


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen, with which certificate, and the names that browsers use."""

    host: str = "127.0.0.1"
    port: int = 0
    certificate: Path | None = None
    key: Path | None = None
    aliases: tuple[str, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """The names that browsers may use besides IP addresses and localhost."""
        return frozenset(name.lower().removesuffix(".") for name in (self.host, *self.aliases))

    @property
    def is_tls(self) -> bool:
        return self.certificate is not None

    def check(self, *, insecure: bool) -> None:
        """Raises UsageError if tokens would cross a network unencrypted, or no browser could use a
        name."""
        for name in self.aliases:
            if not HOST_NAME.fullmatch(name):
                expected = "a name without scheme, port and path, such as tools.example"
                raise BadOption("--allow-host", name, expected)
        if (self.certificate is None) != (self.key is None):
            raise UsageError("TLS needs both --tls-cert and --tls-key.")
        if self.certificate is not None and self.key is not None:
            _check_certificate(self.certificate, self.key)
        if not (self.is_tls or insecure or _is_loopback(self.host)):
            raise UsageError(
                f"{self.host} can be reached from other machines, and without TLS others on the "
                "network can read the tokens: give --tls-cert and --tls-key, or listen on "
                "127.0.0.1 behind a proxy with TLS. --insecure allows it anyway."
            )

    @property
    def is_every(self) -> bool:
        """Whether it means all addresses of this machine, which no browser can open."""
        address = _ip_of(self.host)
        return address is not None and address.is_unspecified

    def url(self, listener: socket.socket) -> str:
        """The address for a browser."""
        host = self.host
        if self.is_every:
            own = "::1" if ":" in host else "127.0.0.1"
            host = next(iter(self.aliases), own)
        name = f"[{host}]" if ":" in host else host
        return f"http{'s' * self.is_tls}://{name}:{listener.getsockname()[1]}/"


def _check_certificate(certificate: Path, key: Path) -> None:
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key)
    except OSError as error:  # ssl.SSLError is one
        raise UsageError(
            f"cannot use {certificate} with {key} ({_reason(error)}): give a certificate and its "
            "private key, both as PEM."
        ) from None


def _reason(error: OSError) -> str:
    """In lower case, and without the line of OpenSSL's source code."""
    if isinstance(error, ssl.SSLError):
        return (error.reason or "not PEM").lower().replace("_", " ")
    return (error.strerror or str(error)).lower()


def _is_loopback(host: str) -> bool:
    address = _ip_of(host)
    return host == "localhost" if address is None else address.is_loopback


def _ip_of(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def listen(address: Address) -> socket.socket:
    """Open the socket first: a bad address fails before anything else starts."""
    host, port = address.host, address.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise UsageError(
            f"cannot listen on {host}, port {port}: {_reason(error)}. "
            "Choose another with --host or --port."
        ) from None
    return listener


@asynccontextmanager
async def serving(
    site: Site, listener: socket.socket, address: Address | None = None
) -> AsyncIterator[asyncio.Task[None]]:
    """Serve inside the block. The task ends earlier only if something is broken."""
    server = _Quiet(
        uvicorn.Config(
            application(site),
            http=PatientProtocol,
            limit_concurrency=MAX_CONNECTIONS,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ssl_certfile=address.certificate if address else None,
            ssl_keyfile=address.key if address else None,
            timeout_graceful_shutdown=GRACE_S,
        )
    )
    async with site.presence.watched():
        task = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield task
        finally:
            server.should_exit = True
            await task
            await site.answers.close()
            await asyncio.to_thread(site.close)


class _Quiet(uvicorn.Server):
    """Leaves signals to the process that started it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
