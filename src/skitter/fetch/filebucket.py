"""Downloaded files in an object store: s3://, gs://, az:// and file:///. Needs the extra `objects`.

    3b/3b5d…e1            the content, under its SHA-256, with its content type
    .urls/9c/9c41…json    what is known of a URL

All names are given by what is there, so whoever puts one again puts the same.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from skitter.errors import NoRoomForFiles, UsageError
from skitter.extras import install
from skitter.redact import redact

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RETRIES: Final[Any] = {"max_retries": 3, "retry_timeout": timedelta(seconds=20)}
#: Up to this size a file is put in one go, if nothing is there; a larger one in parts of this size,
#: of which so many are in memory.
CHUNK_BYTES, AT_ONCE = 5 * 2**20, 2


@dataclass(frozen=True, slots=True)
class Bucket:
    """The store. Raises NoRoomForFiles if it does not answer; downloads wait then."""

    url: str

    def check(self) -> None:
        """Raise UsageError, as far as can be known without asking it."""
        _opened(self.url)

    def place(self, key: str) -> str:
        """How a row names it."""
        return f"{redact(self.url).rstrip('/')}/{key}"

    def read(self, key: str) -> bytes | None:
        """A small object, if it is there."""
        with self._called() as remote:
            try:
                return bytes(remote.get(key).bytes())
            except FileNotFoundError:
                return None

    def size(self, key: str) -> int | None:
        with self._called() as remote:
            try:
                return int(remote.head(key)["size"])
            except FileNotFoundError:
                return None

    def write(self, key: str, content: bytes) -> None:
        with self._called() as remote:
            remote.put(key, content)

    def add(self, key: str, file: Path, kind: str) -> None:
        """Put a file, unless its content is there."""
        size = file.stat().st_size
        if self.size(key) == size:
            return
        told = {"Content-Type": kind} if kind and not self.url.startswith("file:") else {}
        how: dict[str, Any] = {"chunk_size": CHUNK_BYTES, "max_concurrency": AT_ONCE}
        if size <= CHUNK_BYTES:
            how = {"mode": "create", "use_multipart": False}
        with self._called() as remote:
            from obstore.exceptions import AlreadyExistsError

            try:
                remote.put(key, file, attributes=told, **how)
            except AlreadyExistsError:
                return  # somebody was faster

    @contextmanager
    def _called(self) -> Iterator[Any]:
        remote = _opened(self.url)
        from obstore.exceptions import BaseError

        try:
            yield remote
        except (BaseError, OSError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise NoRoomForFiles(redact(self.url), reason) from error


@cache
def _opened(url: str) -> Any:
    try:
        from obstore.store import from_url
    except ImportError:
        need = f"files in an object store need another library: {install('objects')}"
        raise UsageError(need) from None
    how: dict[str, Any] = {"mkdir": True} if url.startswith("file:") else {"retry_config": RETRIES}
    try:
        return from_url(url, **how)
    except Exception as error:  # of a class for each kind of store
        reason = str(error).strip().partition("\n")[0]
        raise UsageError(
            f"{redact(url)} is not an object store: {reason}. Write s3://BUCKET/FOLDER, gs://, "
            "az:// or file:///FOLDER."
        ) from None
