"""The egress proxy: a browser's only way out, controlled by the guard.

A browser resolves names and opens connections where no hook of ours sees it: for pictures, frames,
workers, WebSockets, redirects. So it gets a proxy in this process, on loopback, as its only way
out. For each connection the name is resolved once, the guard checks every address, and one of them
is dialled; or the connection goes through the upstream proxy of its way. A *way* is one user of the
proxy (a session's context): its credentials, its upstream, its byte counts. Clients without
credentials, such as other users of the machine, are refused.

Nothing is decrypted: TLS passes through. Each plain http:// request has its own connection.
"""

from __future__ import annotations

import asyncio
import logging
from base64 import b64encode
from dataclasses import dataclass, field
from hmac import compare_digest
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from skitter.errors import (
    AddressRefused,
    BadURL,
    ConnectFailed,
    FetchError,
    FetchTimeout,
    ProxyFault,
)
from skitter.fetch.http.exchange import check_target
from skitter.fetch.http.guard import Authority, authority_of, is_address
from skitter.fetch.http.upstream import (
    END,
    HEAD_BYTES,
    Upstream,
    UpstreamError,
    Wire,
    dial,
    hang_up,
)

if TYPE_CHECKING:
    import ssl

    from skitter.fetch.http.guard import Guard, Resolver

HOST: Final = "127.0.0.1"
#: Time limit for connections that a browser opens ahead of need and never uses.
HEAD_S: Final = 120.0
BLOCK_BYTES: Final = 64 * 2**10
MAX_FAILURES: Final = 1000
#: RFC 9110 7.6.1: headers of a single connection are not passed on.
_HOP_BY_HOP: Final = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"proxy-authorization", b"te", b"upgrade"}
)
_REALM: Final = b'Proxy-Authenticate: Basic realm="skitter"\r\n'
_CLOSE: Final = b"Connection: close\r\n"
_LOG: Final = logging.getLogger("skitter.egress")


@dataclass(slots=True, eq=False)
class Way:
    """One user of the proxy."""

    upstream: Upstream | None = None  # None: directly
    user: str = field(default_factory=lambda: token_urlsafe(9))
    password: str = field(default_factory=lambda: token_urlsafe(18), repr=False)
    sent_bytes: int = 0
    received_bytes: int = 0
    #: The last failure by host and port, until a connection succeeds.
    failures: dict[str, FetchError] = field(default_factory=dict)

    @property
    def moved_bytes(self) -> int:
        return self.sent_bytes + self.received_bytes

    @property
    def credentials(self) -> bytes:
        return b"Basic " + b64encode(f"{self.user}:{self.password}".encode())

    def failure_of(self, url: str) -> FetchError | None:
        """Why the host of a URL could not be reached, if it could not."""
        return self.failures.get(authority_of(url).host_port)

    def note(self, whom: Authority, failure: FetchError | None) -> None:
        self.failures.pop(whom.host_port, None)
        if failure is not None:
            self.failures[whom.host_port] = failure
            if len(self.failures) > MAX_FAILURES:
                del self.failures[next(iter(self.failures))]


class _Head(NamedTuple):
    method: bytes
    target: bytes
    lines: list[bytes]  # the headers, unchanged

    @classmethod
    def of(cls, raw: bytes) -> _Head | None:
        first, *lines = raw[: -len(END)].split(b"\r\n")
        words = first.split(b" ")
        return cls(words[0], words[1], lines) if len(words) == 3 else None

    def value(self, name: bytes) -> bytes:
        found = (line.partition(b":") for line in self.lines)
        return next((v.strip() for n, _, v in found if n.strip().lower() == name), b"")

    @property
    def has_body(self) -> bool:
        length = self.value(b"content-length") or b"0"
        return length != b"0" or bool(self.value(b"transfer-encoding"))

    @property
    def passed_on(self) -> bytes:
        kept = (line for line in self.lines if line.partition(b":")[0].lower() not in _HOP_BY_HOP)
        return b"".join(line + b"\r\n" for line in kept) + _CLOSE


class Egress:
    """Use it as `async with Egress(guard, resolver) as egress`, and open ways."""

    def __init__(
        self,
        guard: Guard,
        resolver: Resolver,
        *,
        connect_timeout_s: float = 10.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._guard, self._resolver, self._tls = guard, resolver, tls
        self._connect_timeout_s = connect_timeout_s
        self._ways: dict[bytes, Way] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, HOST, 0, limit=HEAD_BYTES)
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._server is not None
        self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        assert self._server is not None, "use it in `async with`"
        return f"http://{HOST}:{self._server.sockets[0].getsockname()[1]}"

    def open_way(self, upstream: str | None = None) -> Way:
        """Credentials for a new user. `upstream`: the URL of a proxy. Raises BadOption."""
        way = Way(Upstream.of(upstream, tls=self._tls) if upstream else None)
        self._ways[way.credentials] = way
        return way

    def close_way(self, way: Way) -> None:
        self._ways.pop(way.credentials, None)

    # --- a connection -----------------------------------------------------------------------------

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Our own tasks: asyncio's server logs an error for each one cancelled at the end.
        task = asyncio.create_task(self._serve((reader, writer)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, browser: Wire) -> None:
        try:
            await self._answer(browser)
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            pass  # the browser or the site hung up
        except Exception:
            _LOG.exception("the egress proxy failed")
        finally:
            await hang_up(browser[1])

    async def _answer(self, browser: Wire) -> None:
        reader, writer = browser
        while True:
            async with asyncio.timeout(HEAD_S):
                head = _Head.of(await reader.readuntil(END))
            if head is None:
                return _say(writer, b"400 Bad Request")
            if way := self._way_of(head):
                break
            # RFC 9110 15.5.8: it may try again on the same connection, unless a body follows.
            _say(writer, b"407 Proxy Authentication Required", _REALM + _CLOSE * head.has_body)
            if head.has_body:
                return None
        try:
            url, port = _whom(head)
            whom = authority_of(url)
        except (BadURL, ValueError):
            return _say(writer, b"400 Bad Request")
        site = await self._reach(way, head, url, port)
        if isinstance(site, FetchError):
            way.note(whom, site)
            refused = isinstance(site, AddressRefused)
            return _say(writer, b"403 Forbidden" if refused else b"502 Bad Gateway")
        way.note(whom, None)
        try:
            await self._exchange(way, head, browser, site)
        finally:
            await hang_up(site[1])

    def _way_of(self, head: _Head) -> Way | None:
        said = head.value(b"proxy-authorization")
        return next((way for key, way in self._ways.items() if compare_digest(key, said)), None)

    async def _reach(self, way: Way, head: _Head, url: str, port: int) -> Wire | FetchError:
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                if way.upstream is None:
                    return await dial(await self._addresses(url), port)
                self._guard.check_url(url)
                await check_target(self._guard, self._resolver, url, authority_of(url))
                if way.upstream.is_http and head.method != b"CONNECT":
                    return await way.upstream.open()
                return await way.upstream.tunnel(authority_of(url).name, port)
        except TimeoutError:
            return FetchTimeout(url, f"no connection within {self._connect_timeout_s:g} s")
        except FetchError as error:
            return error
        except UpstreamError as error:
            return ProxyFault(url, str(error))
        except OSError:
            return ConnectFailed(url, "the connection failed")

    async def _addresses(self, url: str) -> tuple[str, ...]:
        """Every address of the host, all checked."""
        whom = authority_of(url)
        self._guard.check_url(url)
        if is_address(whom.name):
            return (whom.name,)
        try:
            addresses = await self._resolver.resolve(whom.name)
        except (OSError, UnicodeError):
            raise ConnectFailed(url, "the name does not resolve") from None
        for address in addresses:
            self._guard.check_address(url, address)
        return addresses

    async def _exchange(self, way: Way, head: _Head, browser: Wire, site: Wire) -> None:
        if head.method == b"CONNECT":
            browser[1].write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            site[1].write(request := _request(way, head))
            way.sent_bytes += len(request)
        ways = (
            asyncio.create_task(_relay(browser[0], site[1], way, "sent_bytes")),
            asyncio.create_task(_deliver(head, site[0], browser[1], way)),
        )
        try:  # browsers do not half-close: if one direction ends, both do
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in ways:
                task.cancel()
            await asyncio.gather(*ways, return_exceptions=True)


def _whom(head: _Head) -> tuple[str, int]:
    """A URL for the target, and its port. Raises BadURL and ValueError."""
    target = head.target.decode("ascii")
    if head.method == b"CONNECT":
        port = int(target.rpartition(":")[2])
        return f"https://{target}/", port
    if not target.lower().startswith("http://"):
        raise ValueError(target)
    return target, int(authority_of(target).host_port.rpartition(":")[2])


def _request(way: Way, head: _Head) -> bytes:
    """The request to send: with the path for a site, with the whole URL for an http proxy."""
    if way.upstream and way.upstream.is_http:
        target, more = head.target, way.upstream.credentials
    else:
        authority, slash, path = head.target[len("http://") :].partition(b"/")
        query = authority.partition(b"?")[1:] if not slash else ()
        target, more = slash + path or b"/" + b"".join(query), b""
    return b" ".join((head.method, target, b"HTTP/1.1\r\n")) + head.passed_on + more + b"\r\n"


async def _pass_heads(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Way) -> None:
    """Pass on the head of a response, with Connection: close, as the next request may be for
    another host. Interim ones (100, 103) are dropped."""
    while True:
        raw = await reader.readuntil(END)
        way.received_bytes += len(raw)
        head = _Head.of(raw) or _Head(b"", b"", raw[: -len(END)].split(b"\r\n")[1:])
        status = raw.split(b" ", 2)[1:2]
        if not status or not status[0].startswith(b"1"):
            break
    writer.write(raw.partition(b"\r\n")[0] + b"\r\n" + head.passed_on + b"\r\n")


async def _deliver(
    head: _Head, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Way
) -> None:
    if head.method != b"CONNECT":
        await _pass_heads(reader, writer, way)
    await _relay(reader, writer, way, "received_bytes")


async def _relay(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Way, count: str
) -> None:
    while block := await reader.read(BLOCK_BYTES):
        setattr(way, count, getattr(way, count) + len(block))
        writer.write(block)
        await writer.drain()


def _say(writer: asyncio.StreamWriter, status: bytes, headers: bytes = b"") -> None:
    writer.write(b"HTTP/1.1 " + status + b"\r\n" + headers + b"Content-Length: 0\r\n\r\n")
