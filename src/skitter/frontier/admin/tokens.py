"""Tokens of the HTTP API and their scopes. The server stores only their hashes."""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal, get_args

import msgspec

from skitter.errors import BadOption, UsageError, shorten
from skitter.frontier.keys import TOKENS

if TYPE_CHECKING:
    from collections.abc import Collection

    from skitter.frontier.connection import Server

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
    #: Patterns of the jobs that it is for, and its scopes there. `scopes` is empty then: releases
    #: that do not know of this let it do nothing.
    jobs: list[str] = []
    job_scopes: list[Scope] = []

    @property
    def granted(self) -> list[Scope]:
        return self.job_scopes if self.jobs else self.scopes

    def may(self, scope: Scope) -> bool:
        return scope in self.granted or "operate" in self.granted

    def may_see(self, job: str) -> bool:
        return not self.jobs or any(fnmatchcase(job, one) for one in self.jobs)


def hash_of(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


async def new_token(
    server: Server, *, name: str, scopes: Collection[str], jobs: Collection[str] = ()
) -> str:
    """Create a token. This is the only time that it can be shown. `jobs`: names or patterns with *
    and ?; without any, it is for all jobs."""
    if any(not one or len(one) > LONGEST_NAME for one in jobs):
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
    identity = secrets.token_hex(6)
    token = f"skt_{identity}_{secrets.token_urlsafe(32)}"
    record = Token(
        id=identity,
        name=name,
        scopes=[] if jobs else granted,
        job_scopes=granted if jobs else [],
        jobs=list(jobs),
        created_at=time.time(),
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
