"""Authenticate a call by bearer token or session; check its scope and its CSRF token."""

from __future__ import annotations

import hmac
import time
from typing import TYPE_CHECKING

import msgspec

from skitter.errors import JobMissing
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
        address, now = address_of(request), time.monotonic()
        keyring.strangers.check(address, now)
        keyring.strangers.note(address, now)
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


def address_of(request: Request) -> str:
    return request.client.host if request.client else ""


def check_job(caller: Caller, job: str) -> None:
    """A job that the token is not for is one that is not there."""
    if not caller.token.may_see(job):
        raise JobMissing(job, [])


def check_all_jobs(caller: Caller) -> None:
    if caller.token.jobs:
        says = "this shows all jobs, and your token is for some of them."
        raise Refusal(403, says, hint="`skitter token new` without --job creates one for all.")


def check_scope(caller: Caller, scope: Scope) -> None:
    if not caller.token.may(scope):
        has = ", ".join(caller.token.granted)
        says = f"this needs a token with the scope {scope!r}; this one has {has}."
        raise Refusal(403, says, hint=f"`skitter token new --scope {scope}` creates one.")


NEW = "`skitter token new` creates a token."
