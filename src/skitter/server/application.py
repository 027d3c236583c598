"""The ASGI application: the routes, the dashboard, and the checks on every call."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import BaseRoute, Match, Mount
from starlette.routing import Route as Path_
from starlette.staticfiles import StaticFiles

from skitter.server.api.routes import ROUTES
from skitter.server.call import header
from skitter.server.endpoint import Endpoint, refuse
from skitter.server.openapi import api_page, openapi
from skitter.server.problems import Refusal
from skitter.server.route import JSON, NOT_KEPT, SECURITY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from skitter.server.route import Route
    from skitter.server.site import Site

STATIC = Path(__file__).parent / "static"
UNKNOWN_HOST = "this server does not have that name: add it with `skitter serve --allow-host NAME`"


def application(site: Site, routes: Sequence[Route] = ROUTES) -> ASGIApp:
    """Build the application that serves everything."""
    document = msgspec.json.encode(openapi(routes))
    page_of_routes = api_page(routes)

    async def api_document(_: Request) -> Response:
        return Response(document, media_type=JSON)

    async def page_of_api(_: Request) -> Response:
        return HTMLResponse(page_of_routes)

    async def page(_: Request) -> Response:
        return FileResponse(STATIC / "index.html")

    paths: list[BaseRoute] = [
        Path_(route.path, Endpoint(route, site), methods=[route.method]) for route in routes
    ]
    paths += [
        Path_("/api/openapi.json", api_document),
        Path_("/api", page_of_api),
        Path_("/", page),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    app = Starlette(routes=paths, exception_handlers={HTTPException: _refused})
    return Guarded(app, site)


async def _refused(request: Request, error: Exception) -> Response:
    """Answer what Starlette refuses: an unknown path or method."""
    assert isinstance(error, HTTPException)
    says = f"{request.method} {request.url.path}: see api/openapi.json for what there is."
    response = refuse(Refusal(error.status_code, says))
    response.headers.update(error.headers or {})
    if error.status_code == 405:
        # Starlette names the methods of one route; a path may have several.
        response.headers["allow"] = ", ".join(sorted(_methods(request)))
    return response


def _methods(request: Request) -> set[str]:
    """The methods of a path."""
    routes = [route for route in request.app.routes if isinstance(route, Path_)]
    fits = [route for route in routes if route.matches(request.scope)[0] is not Match.NONE]
    return {method for route in fits for method in route.methods or ()}


class Guarded:
    """Checks the Host header of every call and adds security headers to the answer."""

    def __init__(self, app: ASGIApp, site: Site) -> None:
        self.app, self.site = app, site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        response: ASGIApp = self.app
        if wrong := _wrong_host(scope):
            response = refuse(Refusal(400, wrong, field="Host"))
        elif not is_known_host(header(scope, b"host"), self.site.allowed_hosts):
            # DNS rebinding: a hostile page may make its own name resolve to this address.
            response = refuse(Refusal(421, UNKNOWN_HOST, field="Host"))
        await response(scope, receive, _guarded(scope, send))


def _wrong_host(scope: Scope) -> str:
    """RFC 9112 3.2: one Host, and never two, of which a proxy may have checked the other."""
    hosts = sum(name == b"host" for name, _ in scope["headers"])
    if hosts > 1:
        return "the request has more than one Host header: send one."
    if not hosts and scope["http_version"] == "1.1":
        return "the request has no Host header, which HTTP/1.1 requires: send one."
    return ""


def _guarded(scope: Scope, send: Send) -> Send:
    """Adds the headers."""
    # Files have an ETag: browsers may cache them, but must revalidate.
    is_file = scope["path"].startswith("/static/")
    extra = [*SECURITY, (b"cache-control", b"no-cache") if is_file else NOT_KEPT]

    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *extra]
        await send(message)

    return guarded


@lru_cache(maxsize=256)  # calls repeat the same few names
def is_known_host(header: str, allowed: frozenset[str]) -> bool:
    """Whether a Host header is an IP address, localhost or an allowed name."""
    host = header.rpartition(":")[0] if not header.endswith("]") and ":" in header else header
    host = host.lower().removesuffix(".")
    return host == "localhost" or host in allowed or _is_address(host)


def _is_address(host: str) -> bool:
    try:
        return bool(ip_address(host.strip("[]")))
    except ValueError:
        return False
