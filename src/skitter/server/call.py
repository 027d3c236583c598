"""One call, as passed to the function that answers it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from skitter.frontier.admin.jobs import open_job

if TYPE_CHECKING:
    from starlette.requests import Request
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

    from skitter.frontier.admin.tokens import Token
    from skitter.frontier.frontier import Frontier
    from skitter.server.caller import Caller
    from skitter.server.site import Site


class Call(msgspec.Struct):
    """The request, its caller and the site."""

    site: Site
    request: Request
    cycle: RequestResponseCycle | None = None  # None: another protocol serves it
    caller: Caller | None = None  # None: the route needs no scope
    headers: dict[str, str] = {}  # of the answer

    def path(self, name: str) -> str:
        """A part of the path, such as `job`."""
        return str(self.request.path_params[name])

    @property
    def token(self) -> Token:
        """Of a route that needs one."""
        assert self.caller is not None
        return self.caller.token

    async def frontier(self) -> Frontier:
        """Open the job named in the path."""
        return await open_job(self.site.server, self.path("job"))
