"""What operators leave on the server: tokens, actions, webhooks."""

from __future__ import annotations

import getpass
import hashlib
import re
import secrets
import socket
import time
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, TypeVar, get_args

import msgspec

from skitter.errors import BadOption, UsageError, shorten
from skitter.frontier.transport.keys import ACTIONS, LOGOUTS, TOKENS
from skitter.frontier.transport.messages import cut, with_scores
from skitter.frontier.workers import open_entry
from skitter.redact import redact_webhook

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.transport.connection import Server


#: push does not imply read; operate implies both.
Scope = Literal["read", "push", "operate"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
#: A token: `skt_`, its id, its secret.
SHAPE = re.compile(r"skt_([0-9a-f]{12})_[\w-]{43}")
MAX_TOKENS = 1000
LONGEST_NAME = 100


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """The stored record of a token, without its secret."""

    id: str
    name: str
    scopes: list[Scope]
    created_at: float
    hash: str  # SHA-256 is enough: a 256-bit secret cannot be guessed
    #: Patterns of the jobs that it is for, and its scopes there. `scopes` is empty then, and if it
    #: expires: releases that do not know of this let it do nothing.
    jobs: list[str] = []
    job_scopes: list[Scope] = []
    until: float = 0.0  # when it expires; 0: never

    @property
    def granted(self) -> list[Scope]:
        return self.job_scopes or self.scopes

    def has_expired(self, now: float) -> bool:
        return 0 < self.until <= now

    def may(self, scope: Scope) -> bool:
        return scope in self.granted or "operate" in self.granted

    def may_see(self, job: str) -> bool:
        return not self.jobs or any(fnmatchcase(job, one) for one in self.jobs)

    @property
    def is_operators(self) -> bool:
        """Whether it may do everything, and so may know of the machines behind."""
        return "operate" in self.granted and not self.jobs

    def covers(self, pattern: str) -> bool:
        """Whether it may see all jobs that match a pattern."""
        is_name = not set(pattern) & set("*?[")
        return pattern in self.jobs or (is_name and self.may_see(pattern)) or not self.jobs


def hash_of(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


async def new_token(
    server: Server,
    *,
    name: str,
    scopes: Collection[str],
    jobs: Collection[str] = (),
    expires_s: float = 0.0,
) -> str:
    """Create a token. This is the only time that it can be shown. `jobs`: names or patterns with *
    and ?; without any, it is for all jobs. `expires_s`: after so long; 0: never."""
    if any(not job or len(job) > LONGEST_NAME for job in jobs):
        says = f"names or patterns of 1 to {LONGEST_NAME} characters"
        raise BadOption("job", ", ".join(jobs), says)
    if not scopes or not set(scopes) <= set(SCOPES):
        raise BadOption("scope", ", ".join(scopes) or "nothing", "one of " + ", ".join(SCOPES))
    if not 1 <= len(name) <= LONGEST_NAME:
        raise BadOption("name", name, f"1 to {LONGEST_NAME} characters")
    if await server.command("HLEN", TOKENS) >= MAX_TOKENS:
        raise UsageError(
            f"there are {MAX_TOKENS:,} tokens: revoke some with `skitter token revoke`."
        )
    granted = [scope for scope in SCOPES if scope in scopes]
    identity, now = secrets.token_hex(6), time.time()
    is_narrow = bool(jobs or expires_s)
    token = f"skt_{identity}_{secrets.token_urlsafe(32)}"
    record = Token(
        id=identity,
        name=name,
        scopes=[] if is_narrow else granted,
        job_scopes=granted if is_narrow else [],
        jobs=list(jobs),
        created_at=now,
        until=now + expires_s if expires_s else 0.0,
        hash=hash_of(token),
    )
    await server.command("HSET", TOKENS, identity, msgspec.json.encode(record))
    return token


async def list_tokens(server: Server) -> list[Token]:
    """All tokens, oldest first. Unreadable records are skipped, so they let nobody in."""
    found = []
    for identity, raw in (await server.command("HGETALL", TOKENS)).items():
        with suppress(msgspec.MsgspecError):
            token = msgspec.json.decode(raw, type=Token)
            if token.id.encode() == identity:
                found.append(token)
    return sorted(found, key=lambda one: (one.created_at, one.id))


async def revoke_token(server: Server, identity: str) -> None:
    """Revoke a token. Running servers refuse it within seconds."""
    if not await server.command("HDEL", TOKENS, identity):
        raise UsageError(
            f"there is no token {shorten(identity)!r}: `skitter token list` shows the ids."
        )


#: Beyond that, those that expire soonest are dropped.
MAX_LOGOUTS = 10_000


async def note_logout(server: Server, session: str, *, until: int, now: int) -> None:
    """Record the logout of a browser, for as long as its session would have lasted."""
    await server.command("ZADD", LOGOUTS, until, session)
    await server.command("ZREMRANGEBYSCORE", LOGOUTS, "-inf", now)
    await server.command("ZREMRANGEBYRANK", LOGOUTS, 0, -MAX_LOGOUTS - 1)


async def list_logouts(server: Server) -> dict[str, float]:
    """Logged-out sessions, and when they would have expired."""
    found = with_scores(await server.command("ZRANGE", LOGOUTS, 0, -1, "WITHSCORES"))
    return {session.decode(errors="replace"): float(until) for session, until in found}


ACTIONS_KEPT = 10_000
PAGE = 1000
LONGEST_DETAIL = 500


class NewAction(NamedTuple):
    """What was done. An empty job means all jobs."""

    job: str
    what: str
    detail: str = ""


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the log."""

    id: str
    at: float
    who: str
    job: str
    what: str
    detail: str = ""


def this_user() -> str:
    """The user running this process, as user@host."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


async def note_action(server: Server, who: str, action: NewAction) -> None:
    """Add a line to the action log: one per server, so it still shows who purged a job. If the
    reply gets lost, the line may be added twice."""
    said = {"who": who, **action._asdict()}
    fields = [part for name, text in said.items() for part in (name, _short(text))]
    await server.command("XADD", ACTIONS, "MAXLEN", "~", ACTIONS_KEPT, "*", *fields)


def _short(text: str) -> str:
    return shorten(cut(text), LONGEST_DETAIL)


async def read_actions(
    server: Server, job: str = "", *, before: str = "", limit: int = 100
) -> list[Action]:
    """Actions on one job or on all, newest first; `before` is the id of the last one you have."""
    found: list[Action] = []
    end = f"({before}" if before else "+"
    while len(found) < limit:
        page = await server.command("XREVRANGE", ACTIONS, end, "-", "COUNT", PAGE)
        actions = [open_entry(Action, entry, fields) for entry, fields in page]
        found += [action for action in actions if not job or action.job == job]
        if len(page) < PAGE:
            break
        end = f"({actions[-1].id}"
    return found[:limit]


Occasion = Literal[
    "finish",
    "dead",
    "failures",
    "quality",
    "blocked",
    "stuck",
    "no workers",
    "no handler",
    "machine lost",
    "output",
    "away",
    "change",
]
OCCASIONS: tuple[Occasion, ...] = get_args(Occasion)
MAX_WEBHOOKS, MAX_WAITING = 20, 1000
#: The holder of the lease sends; if it dies, another process takes over.
LEASE_S = 60

T = TypeVar("T")
Share = Annotated[float, msgspec.Meta(gt=0, le=1)]


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    """Where messages about a job go, and about what."""

    id: str
    url: str
    secret: str
    on: list[Occasion]
    dead: Annotated[int, msgspec.Meta(ge=1)] = 100  # dead letters
    failures: Share = 0.5  # of recent attempts
    blocked: Share = 0.2  # of recent responses
    private: bool = False  # read by older releases only: the sender's own settings decide
    changes: int = -1  # of the output, when they were told last; -1: never looked at
    told: list[Occasion] = []  # still true, and already sent


def without_secrets(hook: Webhook) -> Webhook:
    """To be listed: many addresses are secrets themselves."""
    return msgspec.structs.replace(hook, secret="", url=redact_webhook(hook.url))


class WebhookMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that is not delivered yet."""

    id: Annotated[str, msgspec.Meta(pattern=r"\A[\w-]{1,64}\Z")]  # goes into a header
    webhook: str
    on: Occasion
    body: str  # as of then; what is sent is built anew
    next_at: float = 0.0
    tries: int = 0


async def add_webhook(frontier: Frontier, hook: Webhook) -> None:
    """Raises UsageError if there are too many."""
    if len(await list_webhooks(frontier)) >= MAX_WEBHOOKS:
        raise UsageError(f"{frontier.job} has {MAX_WEBHOOKS} webhooks: remove one first.")
    await save_webhook(frontier, hook)


def new_webhook(url: str, on: Iterable[str] = (), **limits: float) -> Webhook:
    """A webhook with a new secret. Raises BadOption for bad values."""
    wanted = list(dict.fromkeys(on)) or list(OCCASIONS)
    if strange := set(wanted) - set(OCCASIONS):
        raise BadOption("on", ", ".join(sorted(strange)), "one of " + ", ".join(OCCASIONS))
    made = {"id": secrets.token_hex(4), "secret": f"whsec_{secrets.token_urlsafe(32)}"}
    try:
        return msgspec.convert({**made, "url": url, "on": wanted, **limits}, Webhook)
    except msgspec.ValidationError as error:
        raise BadOption("a webhook limit", str(limits), str(error)) from None


async def list_webhooks(frontier: Frontier) -> list[Webhook]:
    return await _read(frontier, "webhooks", Webhook)


async def save_webhook(frontier: Frontier, hook: Webhook) -> None:
    await frontier.home.command("HSET", "webhooks", hook.id, msgspec.json.encode(hook))


async def remove_webhook(frontier: Frontier, identity: str) -> bool:
    return bool(await frontier.home.command("HDEL", "webhooks", identity))


async def list_deliveries(frontier: Frontier) -> list[WebhookMessage]:
    """Deliveries in the order in which they are due."""
    found = await _read(frontier, "deliveries", WebhookMessage)
    return sorted(found, key=lambda message: (message.next_at, message.id))


async def save_delivery(frontier: Frontier, delivery: WebhookMessage) -> None:
    """Raises UsageError if MAX_WAITING are waiting already."""
    if await frontier.home.command("HLEN", "deliveries") >= MAX_WAITING:
        raise UsageError(f"{frontier.job} already has {MAX_WAITING:,} webhook deliveries waiting.")
    await frontier.home.command("HSET", "deliveries", delivery.id, msgspec.json.encode(delivery))


async def end_delivery(frontier: Frontier, delivery: WebhookMessage) -> None:
    await frontier.home.command("HDEL", "deliveries", delivery.id)


async def hold_lease(frontier: Frontier, who: str) -> bool:
    """Take or extend the lease. True: we are the one that sends."""
    if await frontier.home.command("SET", "webhook_lease", who, "NX", "EX", LEASE_S):
        return True
    held = await frontier.home.command("GET", "webhook_lease")
    if held != who.encode():
        return False
    await frontier.home.command("EXPIRE", "webhook_lease", LEASE_S)
    return True


async def end_lease(frontier: Frontier, who: str) -> None:
    if await frontier.home.command("GET", "webhook_lease") == who.encode():
        await frontier.home.command("DEL", "webhook_lease")


async def _read(frontier: Frontier, name: str, kind: type[T]) -> list[T]:
    """All readable records; others are skipped."""
    found = []
    for raw in (await frontier.home.command("HGETALL", name)).values():
        with suppress(msgspec.MsgspecError):
            found.append(msgspec.json.decode(raw, type=kind))
    return found
