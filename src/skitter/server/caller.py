"""Authenticate a call by bearer token or session; check its scope and its CSRF token."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

import msgspec

from skitter.server.problems import Refusal

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Scope as ASGIScope

    from skitter.frontier.admin.tokens import Scope, Token
    from skitter.server.keyring import Keyring

SAFE = frozenset({"GET", "HEAD"})


class Caller(msgspec.Struct, frozen=True):
    """The caller's token, and the session cookie if there is one."""

    token: Token
    session: str = ""


def header(scope: ASGIScope, name: bytes) -> str:
    """Its value, or "". Starlette's `headers` costs more than all the checks here together."""
    for one, value in scope["headers"]:
        if one == name:
            return str(value, "latin-1")
    return ""


async def identify(request: Request, keyring: Keyring) -> Caller:
    """Raises Refusal: 401 without a valid token or session, 403 without the CSRF token."""
    if given := header(request.scope, b"authorization"):
        kind, _, text = given.partition(" ")
        text = text.strip() if kind.lower() == "bearer" else ""
        if token := keyring.proven(text) or await keyring.by_token(text):
            return Caller(token)
        raise Refusal(401, "this token is unknown, or was revoked.", hint=NEW)
    cookie = request.cookies.get(cookie_name(request), "")
    token = await keyring.by_session(cookie) if cookie else None
    if not token:
        raise Refusal(401, "log in, or send `authorization: Bearer TOKEN`.", hint=NEW)
    if request.method not in SAFE:
        sent = header(request.scope, b"x-csrf-token")
        if not hmac.compare_digest(sent.encode(), keyring.csrf(cookie).encode()):
            says = "send the `csrf` value of the log-in with every change."
            raise Refusal(403, says, field="X-CSRF-Token")
    return Caller(token, cookie)


def cookie_name(request: Request) -> str:
    """Named after the port: browsers send a host's cookies to all of its ports."""
    server = request.scope.get("server")
    return f"skitter_session_{server[1] if server else ''}"


def check_scope(caller: Caller, scope: Scope) -> None:
    if not caller.token.may(scope):
        has = ", ".join(caller.token.scopes)
        says = f"this needs a token with the scope {scope!r}; this one has {has}."
        raise Refusal(403, says, hint=f"`skitter token new --scope {scope}` creates one.")


NEW = "`skitter token new` creates a token."
