"""Log browsers in and out."""

from __future__ import annotations

import time

import msgspec

from skitter.extras import RELEASE
from skitter.frontier.records.operators import Scope
from skitter.server.call import NEW, Call, Caller, address_of, cookie_name, identify
from skitter.server.keyring import SESSION_S
from skitter.server.problems import Refusal


class Credentials(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A token, or the code from a log-in link."""

    token: str


class Me(msgspec.Struct, frozen=True, kw_only=True):
    """Who is logged in, and to which server."""

    name: str
    scopes: list[Scope]
    jobs: list[str]  # patterns of the jobs that the token is for; empty: all
    csrf: str  # empty for a bearer token, which needs none
    server: str  # its address, for those who operate all of its jobs; to others: empty
    version: str


class LoggedOut(msgspec.Struct, frozen=True):
    ok: bool = True


async def log_in(call: Call, body: Credentials) -> Me:
    """Log a browser in: sets a session cookie."""
    keyring, now = call.site.keyring, time.monotonic()
    address = address_of(call.request)
    keyring.failures.check(address, now)
    token = await keyring.log_in(body.token)
    if not token:
        keyring.failures.note(address, now)
        says = "this token is unknown or was revoked, or its link was used already."
        raise Refusal(401, says, field="token", hint=NEW)
    session = keyring.new_session(token)
    call.headers["set-cookie"] = _cookie(call, session, SESSION_S)
    return _me(call, Caller(token, session))


async def log_out(call: Call) -> LoggedOut:
    """End the session: removes the cookie and refuses copies of it."""
    if cookie := call.request.cookies.get(cookie_name(call.request)):
        await call.site.keyring.end_session(cookie)
    call.headers["set-cookie"] = _cookie(call, "", 0)
    return LoggedOut()


async def me(call: Call) -> Me:
    """Who you are, what you may do, and the CSRF token that browsers send with every change."""
    return _me(call, await identify(call.request, call.site.keyring))


def _me(call: Call, caller: Caller) -> Me:
    return Me(
        name=caller.token.name,
        scopes=caller.token.granted,
        jobs=caller.token.jobs,
        csrf=call.site.keyring.csrf(caller.session) if caller.session else "",
        server=call.site.server.where if caller.token.is_operators else "",
        version=RELEASE,
    )


def _cookie(call: Call, session: str, age_s: int) -> str:
    secure = "; Secure" if call.site.is_tls else ""
    name = cookie_name(call.request)
    return f"{name}={session}; Max-Age={age_s}; Path=/; HttpOnly; SameSite=Strict{secure}"
