"""A request leaves once: whoever repeats one asks the clock of its host first."""

from __future__ import annotations

import pytest

from fetch.site import Exchange, reply, serve, then_close
from skitter.errors import BadResponse, ConnectRefused
from skitter.model import Request

CONNECTIONS = {"a new connection": ["/gone"], "a used one": ["/", "/gone"]}
# Kinds of frames and codes of errors of HTTP/2: RFC 9113 6 and 7.
SETTINGS, HEADERS, RESET, GO_AWAY = 4, 1, 3, 7
REFUSED_STREAM, ENHANCE_YOUR_CALM = (7).to_bytes(4), (11).to_bytes(4)
NOTHING, NO_ERROR = (0).to_bytes(4), (0).to_bytes(4)


@pytest.mark.parametrize("method", ["GET", "PUT"])
@pytest.mark.parametrize("paths", CONNECTIONS.values(), ids=CONNECTIONS)
async def test_no_request_leaves_without_asking_though_its_connection_ends(fetcher, paths, method):
    left: list[str] = []

    async def leave() -> None:
        left.append("once")

    async with serve({"/": reply(b"here"), "/gone": then_close(b"")}) as site:
        requests = [Request(url=site.url(path), method=method) for path in paths]
        for one in requests[:-1]:
            await fetcher.fetch(one, leave=leave)
        with pytest.raises(BadResponse):
            await fetcher.fetch(requests[-1], leave=leave)

        assert len(left) == len(site.paths)
        assert method == "GET" or site.paths == paths


def frame(kind: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3) + bytes([kind, 0]) + stream.to_bytes(4) + payload


class Refusing:
    """Speaks HTTP/2 as far as each request, and answers it with a frame."""

    def __init__(self, kind: int, payload: bytes):
        self.kind, self.payload, self.requests = kind, payload, 0

    async def __call__(self, exchange: Exchange) -> None:
        await exchange.reader.readexactly(6)  # the rest of the preface
        await exchange.send(frame(SETTINGS, 0))
        while True:
            head = await exchange.reader.readexactly(9)
            await exchange.reader.readexactly(int.from_bytes(head[:3]))
            if head[3] == HEADERS:
                self.requests += 1
                stream = int.from_bytes(head[5:]) if self.kind == RESET else 0
                await exchange.send(frame(self.kind, stream, self.payload))


@pytest.mark.parametrize("client", ["wreq"])  # aiohttp has no HTTP/2
@pytest.mark.parametrize(
    ("page", "error", "requests"),
    [
        # wreq repeats these twice, at once, as the server did nothing about the request (RFC 9113
        # 8.7). Its Python side cannot switch that off; docs/howto/politeness.md says so.
        (Refusing(RESET, REFUSED_STREAM), ConnectRefused, 3),
        (Refusing(GO_AWAY, NOTHING + NO_ERROR), BadResponse, 3),
        (Refusing(RESET, ENHANCE_YOUR_CALM), ConnectRefused, 1),
        (Refusing(GO_AWAY, NOTHING + ENHANCE_YOUR_CALM), ConnectRefused, 1),
    ],
    ids=["stream refused", "going away", "stream: calm down", "connection: calm down"],
)
async def test_a_server_that_refuses_a_request_of_http2_has_had_enough(
    open_fetcher, tls, certificate, page, error, requests
):
    tls.set_alpn_protocols(["h2"])
    async with serve({"*": page}, tls=tls) as site, open_fetcher(ca_file=certificate) as fetcher:
        with pytest.raises(error, match="the server") as caught:
            await fetcher.fetch(Request(url=site.url(scheme="https")))

    assert type(caught.value) is error
    assert page.requests == requests
