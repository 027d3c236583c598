"""The HTTP server on a free port, in the test's own event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import httpx
import pytest

from skitter.frontier.records.operators import new_token
from skitter.frontier.transport.connection import Server
from skitter.server.keyring import Keyring
from skitter.server.serving import Address, listen, serving
from skitter.server.site import Site

MakeClient = Callable[..., Awaitable[httpx.AsyncClient]]


@pytest.fixture
def site(server: Server) -> Site:
    return Site(server, Keyring(server, b"of the test"))


@pytest.fixture
async def address(site: Site) -> AsyncIterator[str]:
    """Where it serves, on a real socket."""
    listener = listen(Address())
    async with serving(site, listener):
        yield Address().url(listener)


@pytest.fixture
async def client_with(address: str, server: Server) -> AsyncIterator[MakeClient]:
    """`await client_with("read")`: a client with a token of these scopes; none: without a token."""
    async with AsyncExitStack() as stack:

        async def make(*scopes: str) -> httpx.AsyncClient:
            headers = {}
            if scopes:
                token = await new_token(server, name="a test", scopes=scopes)
                headers = {"authorization": f"Bearer {token}"}
            client = httpx.AsyncClient(base_url=address, headers=headers, timeout=60)
            return await stack.enter_async_context(client)

        yield make


@pytest.fixture
async def web(client_with: MakeClient) -> httpx.AsyncClient:
    """A client that may do everything."""
    return await client_with("operate")
