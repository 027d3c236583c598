"""The operator's own token and the key that signs sessions, in files that only they can read."""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from skitter.disk import state_dir
from skitter.errors import DirectoryUnusable
from skitter.frontier.admin.tokens import SHAPE, hash_of, list_tokens, new_token
from skitter.trust import read_private

if TYPE_CHECKING:
    from skitter.frontier.connection import Server

TOKEN, KEY = "http-token", "http-key"


@dataclass(frozen=True, slots=True)
class OwnToken:
    """A token with the scope `operate`."""

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
