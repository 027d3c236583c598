"""The HTTP server on a free port, in the test's own event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from skitter.frontier.connection import Server
from skitter.server.running import listen, serving
from skitter.server.site import Site


@pytest.fixture
def site(server: Server) -> Site:
    return Site(server)


@pytest.fixture
async def web(site: Site) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the server, on a real socket."""
    listener = listen("127.0.0.1", 0)
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with serving(site, listener), httpx.AsyncClient(base_url=address) as client:
        yield client
