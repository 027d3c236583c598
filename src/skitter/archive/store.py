"""An archive in an object store: s3://, gs://, az:// and file:///. Needs the extra `objects`.

A WARC file is copied there once nobody writes to it any more, then its index. Neither ever gets
shorter there, so many machines may share a store, and whoever is killed, the next one goes on.
docs/adr/0101-archives-are-copied-to-a-store.md
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from skitter.archive.files import claim, index_of, inside, is_being_written, warcs_of
from skitter.errors import InfrastructureError, UsageError, shorten
from skitter.extras import install
from skitter.redact import redact

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RETRIES: Final[Any] = {"max_retries": 3, "retry_timeout": timedelta(seconds=20)}
CHUNK_BYTES: Final = 8 * 2**20


class StoreAway(InfrastructureError):
    """An object store does not take a file, or give one back."""

    retryable = True


class Copied(NamedTuple):
    """What was not there yet."""

    files: int = 0
    size_bytes: int = 0


def check(url: str | None) -> None:
    """Whether an archive can be kept, and copied there. Raises UsageError."""
    import skitter.archive.record  # noqa: F401  without its library

    if url:
        Store(url)


@dataclass(slots=True)
class Store:
    """Copies of the archives of any number of machines."""

    url: str
    _remote: Any = field(init=False)
    _known: dict[str, tuple[int, int]] = field(default_factory=dict)  # as they were copied

    def __post_init__(self) -> None:
        """Raises UsageError."""
        try:
            from obstore.store import from_url
        except ImportError as error:
            need = f"an archive in an object store needs another library: {install('objects')}"
            raise UsageError(need) from error
        how: dict[str, Any] = {"retry_config": RETRIES}
        if self.url.startswith("file:"):
            how = {"mkdir": True}
        try:
            self._remote = from_url(self.url, **how)
        except Exception as error:  # of a class for each kind of store
            raise UsageError(
                f"{self.shown} is not an object store: {_first_line(error)}. Write "
                "s3://BUCKET/FOLDER, gs://, az:// or file:///FOLDER."
            ) from None

    @property
    def shown(self) -> str:
        return redact(self.url)

    def push(self, folder: Path) -> Copied:
        """Copy what is finished in a folder. Raises StoreAway, OSError."""
        with self._called():
            return self._push(folder)

    def pull(self, folder: Path) -> Copied:
        """Copy what a folder does not have. Raises StoreAway, OSError."""
        folder.mkdir(parents=True, exist_ok=True)
        with self._called():
            return self._pull(folder)

    def _push(self, folder: Path) -> Copied:
        new = [path for path in warcs_of(folder) if self._known.get(path.name) != _sizes(path)]
        paths = [path for path in new if not is_being_written(path)]
        there, done = self._list() if paths else {}, Copied()
        for path in paths:
            with path.open("rb") as file:
                if claim(file):  # else somebody copies it
                    sizes, size = _sizes(path), self._put(path, there)
                    self._known[path.name] = sizes
                    done = Copied(done.files + bool(size), done.size_bytes + size)
        return done

    def _pull(self, folder: Path) -> Copied:
        there, done = self._list(), Copied()
        for name, size in sorted(there.items()):
            if not name.endswith((".warc", ".warc.gz")):
                continue
            path = inside(folder, name)
            if not path.exists() or path.stat().st_size < size:
                self._get(name, path)
                done = Copied(done.files + 1, done.size_bytes + size)
            if (index := index_of(path)).name in there:
                self._merge_into(index)
        return done

    def _put(self, path: Path, there: dict[str, int]) -> int:
        """How many bytes of records were copied."""
        size, index = path.stat().st_size, index_of(path)
        is_new = there.get(path.name, -1) < size
        if is_new:
            self._remote.put(path.name, path, chunk_size=CHUNK_BYTES)
        if index.exists() and there.get(index.name) != index.stat().st_size:
            mine, theirs = index.read_bytes(), b""
            if index.name in there:
                theirs = bytes(self._remote.get(index.name).bytes())
            if (every := _merged(theirs, mine)) != theirs:
                self._remote.put(index.name, every)
        return size if is_new else 0

    def _get(self, name: str, path: Path) -> None:
        new = path.with_name(f"{path.name}.new")
        try:
            with new.open("wb") as file:
                for chunk in self._remote.get(name).stream(min_chunk_size=CHUNK_BYTES):
                    file.write(chunk)
            new.replace(path)
        finally:
            new.unlink(missing_ok=True)

    def _merge_into(self, index: Path) -> None:
        mine = index.read_bytes() if index.exists() else b""
        every = _merged(mine, bytes(self._remote.get(index.name).bytes()))
        if every != mine:
            with index.open("ab") as file:
                file.write(every[len(mine) :])

    def _list(self) -> dict[str, int]:
        found = [one for some in self._remote.list() for one in some]
        return {one["path"]: one["size"] for one in found}

    @contextmanager
    def _called(self) -> Iterator[None]:
        from obstore.exceptions import BaseError

        try:
            yield
        except BaseError as error:
            raise StoreAway(f"{self.shown} refuses: {_first_line(error)}.") from error


def _sizes(path: Path) -> tuple[int, int]:
    index = 0
    with suppress(OSError):
        index = index_of(path).stat().st_size
    return path.stat().st_size, index


def _merged(first: bytes, second: bytes) -> bytes:
    """The first, and the lines that only the second has."""
    known = set(first.split(b"\n"))
    more = [line for line in second.split(b"\n") if line not in known]
    gap = b"\n" if first and not first.endswith(b"\n") else b""
    return first + gap + b"".join(b"%b\n" % line for line in more) if more else first


def _first_line(error: Exception) -> str:
    return shorten(str(error).strip().splitlines()[0], 300).rstrip(".")
