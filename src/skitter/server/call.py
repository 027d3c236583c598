"""One call: who makes it, its query, and its line in the action log."""

from __future__ import annotations

import binascii
import hmac
import logging
import time
from base64 import b64decode
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec

from skitter.errors import JobMissing, SkitterError
from skitter.fetch.http.guard import authority_of
from skitter.frontier.jobs import open_job
from skitter.frontier.records.operators import Action, NewAction, note_action, read_actions
from skitter.server.problems import Refusal
from skitter.server.route import Rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.types import Scope as ASGIScope
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.records.operators import Scope, Token
    from skitter.server.keyring import Keyring
    from skitter.server.site import Site


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
        text = _token_in(given, request)
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


def _token_in(given: str, request: Request) -> str:
    """A bearer, or the password of basic authentication, which Scrapyd's clients send. Browsers add
    a password that they know to forms of other sites, too: then they name their origin."""
    kind, _, text = given.partition(" ")
    if kind.lower() == "bearer":
        return text.strip()
    is_program = request.method in SAFE or not header(request.scope, b"origin")
    if kind.lower() != "basic" or not is_program:
        return ""
    with suppress(binascii.Error, UnicodeDecodeError):
        return b64decode(text.strip(), validate=True).decode().partition(":")[2]
    return ""


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


class Call(msgspec.Struct):
    """The request, its caller and the site."""

    site: Site
    request: Request
    cycle: RequestResponseCycle | None = None  # None: another protocol serves it
    caller: Caller | None = None  # None: the route needs no scope
    headers: dict[str, str] = {}  # of the answer
    is_later: bool = False  # 202: what was asked for is not there yet

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


T = TypeVar("T")

Limit = Annotated[int, msgspec.Meta(ge=1, le=1000)]
ENTRY = r"\d{1,18}-\d{1,18}"
#: The id of a log entry, or empty.
EntryId = Annotated[str, msgspec.Meta(pattern=rf"^({ENTRY})?$")]


class Query(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Unknown parameters are refused."""


class First(Query, frozen=True, kw_only=True):
    """`limit`: the most rows to return."""

    limit: Limit = 100


class Page(First, frozen=True, kw_only=True):
    """`after`: the `next` of the previous page."""

    after: str = ""


class Search(Page, frozen=True, kw_only=True):
    """`search`: part of the name, ignoring case; `after`: how many to skip, the `next` before."""

    search: str = ""

    @property
    def start(self) -> int:
        if self.after and not (self.after.isdecimal() and len(self.after) < 10):
            says = "`after` must be the `next` of the page before."
            raise Refusal(422, says, field="after")
        return int(self.after or 0)

    def fits(self, *texts: str) -> bool:
        words = self.search.lower()
        return any(words in text.lower() for text in texts)

    def page(self, rows: Sequence[T]) -> Rows[T]:
        """This page of all rows that match, in their order."""
        end = self.start + self.limit
        more = str(end) if end < len(rows) else None
        return Rows(rows=list(rows[self.start : end]), next=more, total=len(rows))


log = logging.getLogger("skitter.server")


class Which(First, frozen=True, kw_only=True):
    """`after`: the `next` of the previous page."""

    after: EntryId = ""


async def actions(call: Call, query: Which) -> Rows[Action]:
    """Who changed the job, when and how, newest first."""
    job, server = call.path("job"), call.site.server
    rows = await read_actions(server, job, before=query.after, limit=query.limit)
    if not call.token.is_operators:  # user@host of the command line
        rows = [msgspec.structs.replace(row, who=row.who.partition("@")[0]) for row in rows]
    return Rows(rows=rows, next=rows[-1].id if len(rows) == query.limit else None)


async def note_call(call: Call, what: str, values: Mapping[str, Any]) -> None:
    """Log a call that changed something."""
    assert call.caller
    parts = dict(call.request.path_params)
    detail = {**parts, **call.request.query_params, **_given(values.get("body"))}
    if detail.get("preview") is True or what.startswith("preview"):
        return
    job = str(detail.pop("job", ""))
    if what.startswith("webhook") and "url" in detail:
        detail["url"] = authority_of(detail["url"]).host  # its path may be a secret
    said = " ".join(f"{name}={_shown(value)}" for name, value in detail.items())
    token = call.caller.token
    try:
        await note_action(
            call.site.server, f"{token.name} ({token.id})", NewAction(job, what, said)
        )
    except SkitterError as error:  # the call itself succeeded
        log.warning("%s on %s was not written to the action log: %s", what, job, error)


def _given(body: Any) -> dict[str, Any]:
    """The fields that the body sets."""
    built = msgspec.to_builtins(body)
    return {k: v for k, v in built.items() if v is not None} if isinstance(built, dict) else {}


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
