"""The shared secret: who has it may say what workers run.

`SKITTER_SECRET` is for a fleet. On the embedded server it is a file in its directory that only its
user can read, made when it is first needed. With neither there is none, and a worker runs only
what its own configuration names (allowed.py).
"""

from __future__ import annotations

import hmac
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from skitter.errors import BadOption, DirectoryUnusable
from skitter.valkey.home import EmbeddedServer, disk_errors, prepare
from skitter.valkey.trust import read_private

if TYPE_CHECKING:
    from pathlib import Path

    from skitter.settings import Settings

VARIABLE = "SKITTER_SECRET"
LEAST_CHARS = 16
#: What to do, at the end of every refusal.
HOW = f"set {VARIABLE} to the same text for callers and workers"


@dataclass(frozen=True, slots=True)
class Secret:
    """Signs with HMAC-SHA256."""

    key: bytes = field(repr=False)

    def sign(self, purpose: str, name: str, content: Any) -> str:
        """`purpose` and `name`, of a job or a task, are part of what is signed: a signature is no
        good for anything else."""
        plain = msgspec.json.encode(content, order="sorted")
        parts = (purpose.encode(), name.encode(), plain)
        framed = b"".join(b"%d:%b" % (len(part), part) for part in parts)
        return hmac.new(self.key, framed, "sha256").hexdigest()

    def has_signed(self, signature: object, purpose: str, name: str, content: Any) -> bool:
        """In a time that does not tell how much of it was right."""
        if not isinstance(signature, str):
            return False
        expected = self.sign(purpose, name, content)
        return hmac.compare_digest(expected.encode(), signature.encode("utf-8", "replace"))


def secret_in_environment() -> str | None:
    """Raises BadOption for one that could be guessed."""
    text = os.environ.get(VARIABLE)
    if text and len(text) < LEAST_CHARS:
        expected = f"at least {LEAST_CHARS} characters, as `openssl rand -hex 32` makes them"
        raise BadOption(VARIABLE, "(hidden)", expected)
    return text or None


def find_secret(given: str | None, where: Settings) -> Secret | None:
    """The one that is given; the embedded server's own; None for a server elsewhere."""
    if given:
        return Secret(given.encode())
    if where.redis_url is not None:
        return None
    server = EmbeddedServer(directory=where.directory)
    prepare(server)
    with disk_errors(server):
        return Secret(_read_or_make(server.directory / "secret"))


def _read_or_make(path: Path) -> bytes:
    with suppress(FileNotFoundError):
        return _read(path)
    draft = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(file, "w") as writing:
            writing.write(secrets.token_hex(32))
        with suppress(FileExistsError):  # of another process, which was quicker
            os.link(draft, path)  # the whole of it, or nothing
    finally:
        draft.unlink()
    return _read(path)


def _read(path: Path) -> bytes:
    """Not one that somebody else made, or could have read."""
    text = read_private(path).strip()
    if len(text) < LEAST_CHARS:
        raise DirectoryUnusable(f"{path} is too short: remove it, and a new secret is made.")
    return text.encode()
