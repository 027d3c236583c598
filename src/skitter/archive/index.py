"""Which record is whose. Beside each WARC file lies its index, a line of JSON for each completed
page. Files of other tools have none: they are read through once, and all of their pages count."""

from __future__ import annotations

import os
from bisect import insort
from collections import defaultdict
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from skitter.archive.record import Kept, read_info, read_response, request_of, scan
from skitter.errors import BadURL, UsageError
from skitter.urls import identify

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from skitter.model import Request, Response

INDEX: Final = ".jsonl"
SOFTWARE: Final = "Skitter"
_WARCS: Final = ("*.warc.gz", "*.warc")


def line_of(kept: Kept) -> str:
    return msgspec.json.encode(kept).decode()


def write_lines(folder: Path, lines: Iterable[str]) -> None:
    """Add lines to the indexes of their files. One that comes twice does no harm."""
    by_file: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        by_file[read_line(line).file].append(line)
    for name, some in by_file.items():
        with _inside(folder, f"{name}{INDEX}").open("a", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in some))
            file.flush()
            os.fsync(file.fileno())


def is_here(folder: Path, line: str) -> bool:
    """Whether the record of a line is in a file of this folder."""
    return _inside(folder, read_line(line).file).exists()


def read_line(line: str | bytes) -> Kept:
    return msgspec.json.decode(line, type=Kept)


@dataclass(slots=True)
class Archive:
    """The pages of a folder, or of some files, by what was requested."""

    folder: Path
    _pages: dict[bytes, list[Kept]] = field(default_factory=dict)  # in order of time

    @classmethod
    def open(cls, folder: Path) -> Archive:
        """Raises UsageError."""
        archive = cls(folder)
        if not folder.is_dir():
            raise UsageError(f"there is no archive in {folder}: `skitter run --archive` makes one.")
        for path in sorted(one for kind in _WARCS for one in folder.glob(kind)):
            for kept in _lines(path):
                archive._add(kept)
        return archive

    def __len__(self) -> int:
        return len(self._pages)

    def __iter__(self) -> Iterator[Kept]:
        """The newest response of each page."""
        return (visits[-1] for visits in self._pages.values())

    def visits(self, request: Request) -> list[Kept]:
        """All responses to a request, the oldest first."""
        return self._pages.get(key_of(request), [])

    def newest(self, request: Request, *, since: float = 0.0) -> Kept | None:
        found = self.visits(request)
        return found[-1] if found and found[-1].at >= since else None

    def read(self, kept: Kept) -> Response:
        response = read_response(_inside(self.folder, kept.file), kept.offset)
        if kept.body_at:
            file, offset = kept.body_at
            body = read_response(_inside(self.folder, file), offset).body
            response = msgspec.structs.replace(response, body=body)
        return response

    def _add(self, kept: Kept) -> None:
        visits = self._pages.setdefault(key_of(request_of(kept)), [])
        if kept not in visits:
            insort(visits, kept, key=lambda one: one.at)


def key_of(request: Request) -> bytes:
    """Equal for requests of the same page, whichever spelling they use."""
    try:
        url = identify(request.url).canonical
    except BadURL:
        url = request.url
    parts = (request.method, url, request.unique, request.session)
    return blake2b("\0".join(parts).encode() + request.body, digest_size=12).digest()


def _lines(path: Path) -> Iterator[Kept]:
    index = path.with_name(f"{path.name}{INDEX}")
    if index.exists():
        for line in index.read_bytes().split(b"\n")[:-1]:  # what follows was not written to its end
            yield read_line(line)
    elif read_info(path).get("software") != SOFTWARE:
        yield from scan(path)


def _inside(folder: Path, name: str) -> Path:
    """Lines come from files and servers that others may write."""
    if Path(name).name != name:
        raise UsageError(f"{name!r} in the index of {folder} is not the name of a file.")
    return folder / name
