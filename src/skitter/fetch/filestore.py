"""A folder of downloaded files, each content once, under its SHA-256.

    files/3b/3b5d…e1.pdf       the content: whole, never changed
    files/.urls/9c/9c41…json   what is known of a URL, so that it is not downloaded again
    files/.parts/9c41…         a download that has not ended; the next attempt goes on with it

With an object store (filebucket.py) the first two are there, and only parts in the folder. Several
processes may share it, and machines too, if its file system has locks.
"""

from __future__ import annotations

import fcntl
import os
import re
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from itertools import count
from mimetypes import guess_extension, types_map
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec

from skitter.errors import NO_ROOM, BadResponse, NoRoomForFiles, ResponseTooLarge, free_space

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from skitter.fetch.filebucket import Bucket

OK, PARTIAL = 200, 206
PIECE_BYTES: Final = 2**20
#: A connection that brought less is not followed by another within one attempt.
PROGRESS_BYTES: Final = 2**14
_RANGE: Final = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")
_ENDING: Final = re.compile(r"\.[a-z0-9]{1,8}\Z")
_numbers: Final = count()
#: Content types that say nothing: the name in the URL is worth more.
_VAGUE: Final = frozenset({"", "application/octet-stream", "binary/octet-stream", "text/plain"})


class Stored(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is known of a URL whose content is in the store."""

    path: str  # in the folder
    size: int
    sha256: str
    type: str = ""
    etag: str = ""
    modified: str = ""


class _Begun(msgspec.Struct, frozen=True):
    """What an answer said of a body of which only a part has come."""

    type: str = ""
    etag: str = ""
    modified: str = ""
    boot: str = ""  # of the machine: a power cut may leave a part with holes
    total: int | None = None  # bytes of the whole

    @property
    def validator(self) -> str:
        """What tells whether the rest belongs to it: RFC 9110 13.1.5 wants a strong one."""
        return self.etag if self.etag and not self.etag.startswith("W/") else self.modified


@dataclass(frozen=True, slots=True)
class FileStore:
    """The folder. Raises NoRoomForFiles if it cannot be written."""

    folder: Path
    max_file_bytes: int = 0  # for `begin`
    max_time_s: float = 0.0
    bucket: Bucket | None = None  # where contents go, in place of the folder

    def known(self, url: str) -> Stored | None:
        """What is known of a URL, if its content is still here."""
        try:
            if self.bucket:
                found = msgspec.json.decode(self.bucket.read(_fact(url)) or b"", type=Stored)
                whole = self.bucket.size(found.path) == found.size
            else:
                found = msgspec.json.decode((self.folder / _fact(url)).read_bytes(), type=Stored)
                whole = (self.folder / found.path).stat().st_size == found.size
        except (OSError, ValueError):
            return None
        return found if whole else None

    def named(self, stored: Stored) -> str:
        """As rows have it."""
        return self.bucket.place(stored.path) if self.bucket else str(self.folder / stored.path)

    def begin(self, url: str) -> Part:
        """A download, which goes on where an earlier one was cut off."""
        with self.writing():
            parts = self.folder / ".parts"
            parts.mkdir(parents=True, exist_ok=True)
            return Part(self, url, parts / _name(url), self.known(url))

    def add(self, url: str, part: Path, stored: Stored) -> Stored:
        """Move a whole content to its place, unless it is there; note its URL."""
        if self.bucket:
            return self._send(self.bucket, url, part, stored)
        with self.writing():
            there = self.place(part, stored.sha256, ending_of(url, stored.type))
            stored = msgspec.structs.replace(stored, path=str(there.relative_to(self.folder)))
            fact = self.folder / _fact(url)
            fact.parent.mkdir(parents=True, exist_ok=True)
            _write(fact, msgspec.json.encode(stored))
        return stored

    def _send(self, bucket: Bucket, url: str, part: Path, stored: Stored) -> Stored:
        stored = msgspec.structs.replace(stored, path=f"{stored.sha256[:2]}/{stored.sha256}")
        bucket.add(stored.path, part, stored.type)
        bucket.write(_fact(url), msgspec.json.encode(stored))
        part.unlink(missing_ok=True)
        return stored

    def place(self, part: Path, digest: str, ending: str) -> Path:
        """Move a whole content to its place, unless it is there, perhaps with another ending."""
        home = self.folder / digest[:2]
        home.mkdir(exist_ok=True)
        with _locked(self.folder / ".lock"):
            there = next(home.glob(f"{digest}*"), None)
            if there is None:
                there = home / f"{digest}{ending}"
                part.rename(there)
                _sync(home)
            else:
                part.unlink(missing_ok=True)
        return there

    @contextmanager
    def writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            what = str(error.strerror or error)
            if error.errno in NO_ROOM:
                what = f"{what}: {free_space(self.folder)} left"
            raise NoRoomForFiles(self.folder, what) from error


@dataclass(slots=True)
class Part:
    """A download in progress: a `BodySink` on disk."""

    store: FileStore
    url: str
    path: Path
    known: Stored | None = None  # of its URL, from before
    begun: _Begun = field(default_factory=_Begun)
    size: int = 0  # of what is here
    brought: int = 0  # by the last connection
    stored: Stored | None = None
    _file: int = -1
    _digest: Any = field(default_factory=sha256)
    _is_ours: bool = True  # to go on with, as nobody else does

    @property
    def max_time_s(self) -> float:
        return self.store.max_time_s

    def __post_init__(self) -> None:
        try:
            self._file = _opened_alone(self.path)
        except BlockingIOError:  # a worker that lost its lease is not yet aware of it
            self._is_ours = False
            self.path = self.path.with_name(f"{self.path.name}.{os.getpid()}.{id(self)}")
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        else:
            self._read_back()

    def _read_back(self) -> None:
        with suppress(OSError, ValueError):
            self.begun = msgspec.json.decode(self._about.read_bytes(), type=_Begun)
        if not self.begun.validator or self.begun.boot != _boot():
            os.ftruncate(self._file, 0)
        elif self.begun.total and os.fstat(self._file).st_size >= self.begun.total:
            # All of it: killed before it was kept. A request for no bytes would be refused (416).
            os.ftruncate(self._file, self.begun.total - 1)
        while piece := os.read(self._file, PIECE_BYTES):
            self._digest.update(piece)
            self.size += len(piece)

    @property
    def _about(self) -> Path:
        return self.path.with_name(f"{self.path.name}.json")

    def headers(self) -> dict[str, str]:
        """For the next request: the rest of what is here, or the whole if it has changed."""
        asked = {"accept-encoding": "identity"}
        if self.size and self.begun.validator:
            return asked | {"range": f"bytes={self.size}-", "if-range": self.begun.validator}
        if not self.size and (known := self.known):
            told = {"if-none-match": known.etag, "if-modified-since": known.modified}
            return asked | {name: value for name, value in told.items() if value}
        return asked

    @property
    def may_go_on(self) -> bool:
        """Whether another connection, right after one that was cut off, would bring the rest."""
        return bool(self.begun.validator) and self.brought >= PROGRESS_BYTES

    # --- as a BodySink ----------------------------------------------------------------------------

    def begins(self, status: int, headers: Sequence[tuple[str, str]]) -> bool:
        self.brought = 0
        if status not in (OK, PARTIAL):
            return False
        said = dict(reversed(headers))  # the first of a name counts
        if status == PARTIAL:
            self._check_range(said.get("content-range", ""))
            return True
        with self.store.writing():
            self._restart()
            kind = said.get("content-type", "").partition(";")[0].strip().lower()
            packed = said.get("content-encoding", "identity") != "identity"  # no part of it is one
            etag, modified = said.get("etag", ""), said.get("last-modified", "")
            validators = ("", "") if packed else (etag, modified)
            length = said.get("content-length", "")
            total = int(length) if length.isdecimal() and not packed else None
            self.begun = _Begun(kind, *validators, boot=_boot(), total=total)
            _write(self._about, msgspec.json.encode(self.begun))
        if length.isdecimal() and int(length) > self.store.max_file_bytes:
            raise self._too_large()
        return True

    def take(self, piece: bytes | memoryview) -> None:
        self.size += len(piece)
        self.brought += len(piece)
        if self.size > self.store.max_file_bytes:
            raise self._too_large()
        self._digest.update(piece)
        with self.store.writing():
            rest = memoryview(piece)
            while rest:
                rest = rest[os.write(self._file, rest) :]

    def end(self) -> bytes:
        """The digest: it stands for the body where contents are compared."""
        begun, digest = self.begun, self._digest
        self.stored = Stored(
            "", self.size, digest.hexdigest(), begun.type, begun.etag, begun.modified
        )
        return bytes(digest.digest())

    # --- its end ----------------------------------------------------------------------------------

    def keep(self) -> Stored:
        """Make the whole content durable, and move it to its place. It takes time: call it in a
        thread."""
        assert self.stored is not None
        with self.store.writing():
            os.fsync(self._file)
        stored = self.store.add(self.url, self.path, self.stored)
        self._about.unlink(missing_ok=True)
        self.close()
        return stored

    def discard(self) -> None:
        """Nobody will go on with it."""
        self._remove()
        self.close()

    def close(self) -> None:
        if self._file < 0:
            return
        if self.size == 0 or not self._is_ours:  # there is nothing to go on with
            self._remove()
        os.close(self._file)
        self._file = -1

    def _remove(self) -> None:
        """While it is locked: another attempt may have begun a part under this name since."""
        with suppress(OSError):
            if _is_at(self.path, self._file):
                self.path.unlink()
                self._about.unlink(missing_ok=True)

    def __del__(self) -> None:
        self.close()  # of an attempt that was cancelled

    def _restart(self) -> None:
        os.ftruncate(self._file, 0)
        os.lseek(self._file, 0, os.SEEK_SET)
        self.size, self._digest = 0, sha256()

    def _check_range(self, said: str) -> None:
        found = _RANGE.fullmatch(said.strip().lower())
        if not found or int(found[1]) != self.size:
            self.begun = _Begun()  # the next request asks for the whole
            raise BadResponse(self.url, f"a part was asked for, from byte {self.size:,}, and "
                              f"another came: {said or 'it does not say which'}")  # fmt: skip

    def _too_large(self) -> ResponseTooLarge:
        self._restart()
        limit = self.store.max_file_bytes / 10**6
        return ResponseTooLarge(self.url, f"the file is over {limit:,.0f} MB (files.max_mb)")


def ending_of(url: str, kind: str) -> str:
    """The suffix of its name: as in the URL, unless its type says something else."""
    found = _ENDING.search(urlsplit(url).path.lower())
    named, typed = found[0] if found else "", guess_extension(kind) or ""
    says_nothing = kind in _VAGUE or not typed
    return named if says_nothing or (types_map.get(named, kind) == kind and named) else typed


@cache
def _boot() -> str:
    """What tells this run of the machine from others; empty where it is not known."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _fact(url: str) -> str:
    """Where it is noted what is known of a URL."""
    name = _name(url)
    return f".urls/{name[:2]}/{name}.json"


def _name(url: str) -> str:
    return sha256(url.encode()).hexdigest()


def _opened_alone(path: Path) -> int:
    """Opened and locked. Raises BlockingIOError if another attempt has it. One that has just ended
    may have moved the file to its place, where it must not be changed: then another is begun."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(path, file):
                return file
        except BaseException:
            os.close(file)
            raise
        os.close(file)


def _is_at(path: Path, file: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except FileNotFoundError:
        return False


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def _write(path: Path, content: bytes) -> None:
    """Whole or not at all, for all who read it. Two attempts of a process may write it at once."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}.{next(_numbers)}")
    fresh.write_bytes(content)
    fresh.replace(path)


def _sync(folder: Path) -> None:
    """Names are on disk when their folder is."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
