"""Tokens and browser sessions, failed log-ins, and the operator's own token."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import os
import secrets
import socket
import time
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from skitter.errors import DirectoryUnusable
from skitter.frontier.records.operators import (
    SHAPE,
    Token,
    hash_of,
    list_logouts,
    list_tokens,
    new_token,
    note_logout,
)
from skitter.server.problems import Refusal
from skitter.trust import read_private, state_dir

if TYPE_CHECKING:
    from skitter.frontier.transport.connection import Server


#: A revoked token is refused within this time.
FRESH_S = 2.0
#: Unknown tokens make us read the list again, at most this often.
UNKNOWN_S = 0.2
#: If the frontier's server takes longer to answer, the tokens read last stay valid.
AWAY_S = 1.0
SESSION_S = 86_400
ONE_TIME_S = 900.0
FAILURES, FAILURES_S, MAX_ADDRESSES = 10, 60.0, 1000


class Session(NamedTuple):
    """A browser's log-in: with which token, and until when."""

    token: str  # its id
    until: int
    nonce: str


@dataclass(slots=True)
class Keyring:
    """A copy of the server's tokens, and the sessions. Sessions are signed, so only those that
    ended early are stored."""

    server: Server
    key: bytes  # signs sessions
    owner: str = ""  # id of the token that a one-time code stands for
    failures: Failures = field(default_factory=lambda: Failures())
    #: Unknown bearer tokens. Apart from log-ins: a program with an old token, behind the same
    #: proxy, must not lock people out.
    strangers: Failures = field(default_factory=lambda: Failures())
    _tokens: dict[str, Token] = field(default_factory=dict)
    _proven: dict[str, Token] = field(default_factory=dict)  # by text; checked since the last read
    _ended: dict[str, float] = field(default_factory=dict)  # session nonce -> expiry
    _read_at: float = -FRESH_S
    _asked_at: float = 0.0
    _reading: asyncio.Task[None] | None = None
    _codes: dict[str, float] = field(default_factory=dict)  # hash of a one-time code -> expiry

    def proven(self, text: str) -> Token | None:
        """The token with this text, if a call had it since the last read, which was just now."""
        is_fresh = time.monotonic() - self._read_at < FRESH_S / 2
        return _unless_expired(self._proven.get(text)) if is_fresh else None

    async def by_token(self, text: str) -> Token | None:
        """The token with this text; None if unknown."""
        await self._refresh(FRESH_S)
        if known := self._proven.get(text):
            return _unless_expired(known)
        found = SHAPE.fullmatch(text)
        token = await self.by_id(found[1]) if found else None
        if not token or not hmac.compare_digest(token.hash, hash_of(text)):
            return None
        self._proven[text] = token
        return token

    async def by_id(self, identity: str) -> Token | None:
        await self._refresh(FRESH_S)
        if identity not in self._tokens:  # perhaps created after the last read
            await asyncio.sleep(max(0.0, self._read_at + UNKNOWN_S - time.monotonic()))
            await self._refresh(UNKNOWN_S / 2)
        return _unless_expired(self._tokens.get(identity))

    async def _refresh(self, older_than_s: float) -> None:
        age_s = time.monotonic() - self._read_at
        if age_s < older_than_s / 2:
            return
        if self._reading is None or self._reading.done():
            self._asked_at = time.monotonic()
            self._reading = asyncio.create_task(self._read())
            self._reading.add_done_callback(lambda task: task.cancelled() or task.exception())
        if age_s < older_than_s:
            return  # read ahead of time: nobody waits
        reading = self._reading  # another may have replaced it when the wait ends
        late_s = max(0.0, self._asked_at + AWAY_S - time.monotonic())
        done, _ = await asyncio.wait({reading}, timeout=late_s if self._tokens else None)
        if done and (failure := reading.exception()) and not self._tokens:
            raise failure

    async def _read(self) -> None:
        asked_at = time.monotonic()
        tokens, ended = await list_tokens(self.server), await list_logouts(self.server)
        self._tokens, self._proven = {token.id: token for token in tokens}, {}
        now = time.time()  # keep the sessions ended here meanwhile
        self._ended = {one: end for one, end in (self._ended | ended).items() if end > now}
        self._read_at = asked_at

    # --- browsers ---------------------------------------------------------------------------------

    def one_time_code(self) -> str:
        """For a link that logs a browser in once, within ONE_TIME_S."""
        code = secrets.token_urlsafe(24)
        self._codes[hash_of(code)] = time.monotonic() + ONE_TIME_S
        return code

    async def log_in(self, text: str) -> Token | None:
        """Log in with a token or a one-time code."""
        void_at = self._codes.pop(hash_of(text), None)
        if void_at is not None:
            return await self.by_id(self.owner) if time.monotonic() < void_at else None
        return await self.by_token(text)

    def new_session(self, token: Token) -> str:
        """A cookie: token id, expiry, nonce and our signature."""
        facts = f"{token.id}.{int(time.time()) + SESSION_S}.{secrets.token_hex(8)}"
        return f"{facts}.{self._sign('session', facts)}"

    async def by_session(self, cookie: str) -> Token | None:
        session = self._session(cookie)
        if not session or session.until < time.time():
            return None
        token = await self.by_id(session.token)
        return None if session.nonce in self._ended else token

    async def end_session(self, cookie: str) -> None:
        """Refuse the cookie and copies of it: here at once, on other servers soon."""
        if session := self._session(cookie):
            self._ended[session.nonce] = session.until
            now = int(time.time())
            await note_logout(self.server, session.nonce, until=session.until, now=now)

    def _session(self, cookie: str) -> Session | None:
        """The cookie's session, if we signed it."""
        facts, _, signature = cookie.rpartition(".")
        if not hmac.compare_digest(self._sign("session", facts).encode(), signature.encode()):
            return None
        token, until, nonce = facts.split(".")
        return Session(token, int(until), nonce)

    def csrf(self, cookie: str) -> str:
        """The session's CSRF token: our pages know it, pages of other sites cannot."""
        return self._sign("csrf", cookie)

    def _sign(self, what: str, text: str) -> str:
        said = hmac.new(self.key, f"{what}:{text}".encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(said).decode().rstrip("=")


def _unless_expired(token: Token | None) -> Token | None:
    return None if token is None or token.has_expired(time.time()) else token


@dataclass(slots=True)
class Failures:
    """Recent failed log-ins, by address."""

    _times: OrderedDict[str, deque[float]] = field(default_factory=OrderedDict)

    def check(self, address: str, now: float) -> None:
        """Raises Refusal if there were too many."""
        times = self._times.get(address, deque())
        while times and times[0] < now - FAILURES_S:
            times.popleft()
        if len(times) >= FAILURES:
            wait_s = int(times[0] + FAILURES_S - now) + 1
            says = f"too many failed log-ins: try again in {wait_s} s."
            raise Refusal(429, says, retry_after_s=wait_s)

    def note(self, address: str, now: float) -> None:
        self._times.setdefault(address, deque(maxlen=FAILURES)).append(now)
        self._times.move_to_end(address)
        if len(self._times) > MAX_ADDRESSES:
            self._times.popitem(last=False)


TOKEN, KEY = "http-token", "http-key"


@dataclass(frozen=True, slots=True)
class OwnToken:
    """The operator's own token, with the scope `operate`, in a file that only they can read."""

    text: str
    file: Path
    is_new: bool

    @property
    def id(self) -> str:
        return self.text.split("_")[1]


async def own_token(server: Server) -> OwnToken:
    """Read the token from its file; create one if there is none or it was revoked."""
    file = _directory(server) / TOKEN
    text = _read(file)
    if SHAPE.fullmatch(text):
        hashes = {token.hash for token in await list_tokens(server)}
        if hash_of(text) in hashes:
            return OwnToken(text, file, is_new=False)
    text = await new_token(
        server, name=f"serve on {socket.gethostname()}"[:100], scopes=["operate"]
    )
    _write(file, text)
    return OwnToken(text, file, is_new=True)


def session_key(server: Server) -> bytes:
    """Kept in a file, so that browsers stay logged in across restarts."""
    file = _directory(server) / KEY
    text = _read(file)
    if len(text) != 64:
        text = secrets.token_hex(32)
        _write(file, text)
    return text.encode()


def _directory(server: Server) -> Path:
    """The embedded server's; else one per server address in the user's state directory."""
    if server.directory:
        return server.directory
    try:
        state = state_dir()
    except OSError as error:
        raise _unusable(Path("~/.local/state"), error) from None
    return state / "skitter" / hashlib.sha256(server.where.encode()).hexdigest()[:16]


def _read(file: Path) -> str:
    try:
        return read_private(file).strip()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise _unusable(file, error) from None


def _write(file: Path, text: str) -> None:
    """Write atomically, never readable by others."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:  # noqa: PTH123
            stream.write(text + "\n")
        new.replace(file)
    except OSError as error:
        raise _unusable(file, error) from None


def _unusable(file: Path, error: OSError) -> DirectoryUnusable:
    return DirectoryUnusable(
        f"cannot keep the token in {file} ({error.strerror}): choose a directory that you can "
        "write to, with --dir or XDG_STATE_HOME."
    )
