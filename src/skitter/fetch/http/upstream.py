"""Opens a connection, directly or through an upstream proxy.

Upstreams are http, https and SOCKS5 (RFC 1928), each with or without credentials. The operator
names them, so they may have a private address. An upstream gets the name of the target, not an
address: it may see other addresses than we do, and needs the name for its own rules.
"""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final, Self
from urllib.parse import unquote, urlsplit

from skitter.errors import BadOption

#: Limit on the head of a request or response.
HEAD_BYTES: Final = 64 * 2**10
FAREWELL_S: Final = 2.0
END: Final = b"\r\n\r\n"
DEFAULT_PORTS: Final = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}
_SOCKS: Final = 5
_NO_CREDENTIALS, _PASSWORD = 0, 2
_REFUSALS: Final = {
    1: "it failed",
    2: "its rules forbid it",
    3: "it has no route to that network",
    4: "it has no route to that host",
    5: "nothing listens on that port",
    6: "it took too long",
}
_TARGETS: Final = (4, 5, 6)  # those that are not the proxy's fault

Wire = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class UpstreamError(OSError):
    """The upstream proxy does not answer, or refuses."""


class TargetUnreachable(UpstreamError):
    """The proxy works but cannot reach the target. SOCKS5 tells them apart (RFC 1928 6)."""


@dataclass(frozen=True, slots=True)
class Upstream:
    """A proxy that the operator named."""

    scheme: str
    host: str
    port: int
    user: str = ""
    password: str = field(default="", repr=False)
    tls: ssl.SSLContext | None = field(default=None, repr=False)  # for an https proxy

    @classmethod
    def of(cls, url: str, *, tls: ssl.SSLContext | None = None) -> Self:
        """Raises BadOption if it is not the URL of a proxy."""
        try:
            parts = urlsplit(url)
            usual = DEFAULT_PORTS[parts.scheme]
            port = parts.port or usual
        except (ValueError, KeyError):
            parts, port = urlsplit(""), 0
        if not parts.hostname:
            expected = "a proxy's URL: http://, https:// or socks5://, host and port"
            raise BadOption("proxy", "(hidden)", expected)
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        return cls(parts.scheme, parts.hostname, port, user, password, tls)

    @property
    def is_http(self) -> bool:
        """Whether it takes plain requests for http:// URLs, and CONNECT for the rest."""
        return self.scheme in ("http", "https")

    @property
    def credentials(self) -> bytes:
        """The header line with the credentials; empty: none."""
        if not self.user:
            return b""
        pair = b64encode(f"{self.user}:{self.password}".encode())
        return b"Proxy-Authorization: Basic " + pair + b"\r\n"

    async def open(self) -> Wire:
        """A connection to the proxy itself."""
        secure = (self.tls or ssl.create_default_context()) if self.scheme == "https" else None
        try:
            return await asyncio.open_connection(self.host, self.port, limit=HEAD_BYTES, ssl=secure)
        except ConnectionRefusedError as error:
            raise UpstreamError("the proxy does not listen on its port") from error
        except OSError as error:
            raise UpstreamError("the proxy does not answer") from error

    async def tunnel(self, host: str, port: int) -> Wire:
        """A connection through it; `host` without the brackets of an IPv6 address."""
        wire = await self.open()
        try:
            await (self._connect if self.is_http else self._socks)(wire, host, port)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError) as error:
            await hang_up(wire[1])
            raise UpstreamError("the proxy hung up") from error
        except BaseException:
            await hang_up(wire[1])
            raise
        return wire

    async def _connect(self, wire: Wire, host: str, port: int) -> None:
        reader, writer = wire
        whom = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        writer.write(f"CONNECT {whom} HTTP/1.1\r\nHost: {whom}\r\n".encode())
        writer.write(self.credentials + b"\r\n")
        status = (await reader.readuntil(END)).split(b" ", 2)[1:2]
        if status != [b"200"]:
            said = status[0][:3].decode("latin-1") if status else "nothing"
            if said == "407":
                raise UpstreamError("the proxy rejects our credentials (407)")
            raise UpstreamError(f"the proxy answered {said}")

    async def _socks(self, wire: Wire, host: str, port: int) -> None:
        reader, writer = wire
        method = _PASSWORD if self.user else _NO_CREDENTIALS
        writer.write(bytes((_SOCKS, 1, method)))
        if await reader.readexactly(2) != bytes((_SOCKS, method)):
            raise UpstreamError("the proxy rejects our credentials")
        if method == _PASSWORD:
            writer.write(b"\x01" + _counted(self.user) + _counted(self.password))
            if (await reader.readexactly(2))[1]:
                raise UpstreamError("the proxy rejects our credentials")
        writer.write(bytes((_SOCKS, 1, 0)) + _socks_address(host) + port.to_bytes(2))
        _, refused, _, kind = await reader.readexactly(4)
        if refused:
            refusal = TargetUnreachable if refused in _TARGETS else UpstreamError
            raise refusal(f"the proxy says: {_REFUSALS.get(refused, 'no')}")
        await reader.readexactly({1: 4, 4: 16}.get(kind) or (await reader.readexactly(1))[0])
        await reader.readexactly(2)


def _counted(text: str) -> bytes:
    data = text.encode()[:255]
    return bytes((len(data),)) + data


def _socks_address(host: str) -> bytes:
    try:
        address = ip_address(host)
    except ValueError:
        return b"\x03" + _counted(host)
    return (b"\x01" if address.version == 4 else b"\x04") + address.packed


async def dial(addresses: tuple[str, ...], port: int) -> Wire:
    """A direct connection to the first address that answers."""
    refused: OSError = ConnectionRefusedError()
    for address in addresses:
        try:
            return await asyncio.open_connection(address, port, limit=HEAD_BYTES)
        except OSError as error:
            refused = error
    raise refused


async def hang_up(writer: asyncio.StreamWriter) -> None:
    """Close it, after sending what was written if that is quick."""
    try:
        async with asyncio.timeout(FAREWELL_S):
            writer.close()
            await writer.wait_closed()
    except (OSError, TimeoutError, AttributeError):  # AttributeError: Python 3.11.2, TLS, gone
        pass
    finally:
        with suppress(AttributeError):
            writer.transport.abort()
