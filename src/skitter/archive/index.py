"""Which record is whose. Beside each WARC file lies its index, a line of JSON for each completed
page. Files of other tools have none: they are read through once, and all of their pages count.
Both may be damaged, or written to do harm: what cannot be read is left out, and said."""

from __future__ import annotations

import os
from bisect import insort
from collections import defaultdict
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import chain
from typing import TYPE_CHECKING, Final

import msgspec

from skitter.archive.files import INDEX, index_of, inside, is_being_written, warcs_of
from skitter.archive.record import (
    MAX_BODY_BYTES,
    NOT_MODIFIED,
    Kept,
    digest_of,
    read_info,
    read_response,
    request_of,
    scan,
)
from skitter.errors import BadURL, FetchError, UsageError
from skitter.model import Request
from skitter.urls import identify

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from skitter.model import Response

SOFTWARE: Final = "Skitter"
#: In place of a fingerprint, of what is not a page of a job: its digest is that of its body.
UNNAMED: Final = "-"


def line_of(kept: Kept) -> str:
    return msgspec.json.encode(kept).decode()


def write_lines(folder: Path, lines: Iterable[str]) -> None:
    """Add lines to the indexes of their files. One that comes twice does no harm."""
    by_file: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        by_file[read_line(line).file].append(line)
    for name, some in by_file.items():
        _append(inside(folder, f"{name}{INDEX}"), "".join(f"{line}\n" for line in some).encode())


def _append(path: Path, lines: bytes) -> None:
    """In one piece: another process may add to the same index. Half a line, of a process that was
    killed or a disk that was full, stays alone."""
    with path.open("a+b", buffering=0) as file:
        if (size := file.seek(0, os.SEEK_END)) and os.pread(file.fileno(), 1, size - 1) != b"\n":
            lines = b"\n" + lines
        while lines:
            lines = lines[file.write(lines) :]
        os.fsync(file.fileno())


def is_here(folder: Path, line: str) -> bool:
    """Whether the record of a line is in a file of this folder."""
    try:
        return inside(folder, read_line(line).file).is_file()
    except (msgspec.MsgspecError, UsageError):  # nobody can write it
        return False


def read_line(line: str | bytes) -> Kept:
    return msgspec.json.decode(line, type=Kept)


def place_of(line: str) -> str:
    """The line without whose response it is, for the next visit to its page. Empty if it only says
    that the page is the same as before."""
    kept = read_line(line)
    if kept.head_at or (kept.body_at and kept.body_at[0] != kept.file):
        return ""
    plain = msgspec.structs.replace(kept, url="", job="", fingerprint=UNNAMED, request={})
    return line_of(plain)


@dataclass(slots=True)
class Pruned:
    """What was removed."""

    responses: int = 0
    files: int = 0
    size_bytes: int = 0

    def add(self, other: Pruned) -> None:
        self.responses += other.responses
        self.files += other.files
        self.size_bytes += other.size_bytes


@dataclass(slots=True)
class Archive:
    """The pages of a folder, or of some files, by what was requested."""

    folder: Path
    unreadable: list[str] = field(default_factory=list)  # files, and places in indexes
    _pages: dict[bytes, list[Kept]] = field(default_factory=dict)  # in order of time

    @classmethod
    def open(cls, folder: Path) -> Archive:
        """Raises UsageError."""
        archive = cls(folder)
        if not folder.is_dir():
            raise UsageError(f"there is no archive in {folder}: `skitter run --archive` makes one.")
        elsewhere = [page for path in warcs_of(folder) for page in archive._add_file(path)]
        archive._add_revisits(elsewhere)
        return archive

    def __len__(self) -> int:
        return len(self._pages)

    def __iter__(self) -> Iterator[Kept]:
        """The newest response of each page."""
        return (visits[-1] for visits in self._pages.values())

    def within(self, job: str) -> Archive:
        """What a replay of the job has: pages that it has kept, and those of other tools; of a job
        that has kept none, all pages. Other jobs may share the folder."""
        found = {
            key: own
            for key, visits in self._pages.items()
            if (own := [visit for visit in visits if visit.job in (job, "")])
        }
        has_kept = any(visit.job == job for visits in found.values() for visit in visits)
        return replace(self, _pages=found) if has_kept else self

    def by_page(self) -> Iterator[list[Kept]]:
        """All responses, those of a page together, the oldest first."""
        return iter(self._pages.values())

    def responses(self) -> Iterator[Kept]:
        return chain.from_iterable(self._pages.values())

    def visits(self, request: Request) -> list[Kept]:
        """All responses to a request, the oldest first."""
        return self._pages.get(key_of(request), [])

    def find(self, url: str) -> list[Kept]:
        """All responses of a URL, the oldest first: to a plain request, or else to any other."""
        others = (response for response in self.responses() if response.url == url)
        return self.visits(Request(url=url)) or sorted(others, key=lambda other: other.at)

    def of(self, job: str) -> Iterator[Kept]:
        """The newest response of each page that a job has kept, whoever fetched it since."""
        for visits in self._pages.values():
            if own := [visit for visit in visits if visit.job == job]:
                yield own[-1]

    def newest(self, request: Request, *, job: str = "") -> Kept | None:
        """The one that the job has kept, or else anybody's."""
        found = self.visits(request)
        own = [page for page in found if page.job == job]
        return (own or found)[-1] if found else None

    def read(self, kept: Kept, *, limit: int = MAX_BODY_BYTES) -> Response:
        """Raises FetchError if it is damaged, or has more than `limit` bytes."""
        try:
            return self._read(kept, limit)
        except Exception as error:  # the file may be anybody's
            why = f"its record in {kept.file!r} cannot be read: {error}"
            raise FetchError(kept.url, why) from error

    def _read(self, kept: Kept, limit: int) -> Response:
        file, offset = kept.head_at or (kept.file, kept.offset)
        response = read_response(inside(self.folder, file), offset, limit=limit)
        if kept.body_at and kept.body_at != kept.head_at:
            file, offset = kept.body_at
            body = read_response(inside(self.folder, file), offset, limit=limit).body
            response = msgspec.structs.replace(response, body=body)
        if kept.fingerprint and digest_of(response.body) != kept.digest:  # else of the packed bytes
            raise ValueError("its body is not the one that was kept")
        if kept.shot_at is not None:
            shot = read_response(inside(self.folder, kept.file), kept.shot_at).body
            response = msgspec.structs.replace(response, screenshot=shot)
        return response

    def prune(self, *, before: float, keep_last: int) -> Pruned:
        """Forget what was kept before a moment, but the last responses of each page, and remove
        files that nothing refers to any more. Of pages that several jobs have kept, each has its
        own. Files that were written to since, or still may be, are left alone.

        Killed at any line, it leaves a whole archive, and the next call goes on.
        """
        is_old = {
            path
            for path in warcs_of(self.folder)
            if path.stat().st_mtime < before and not is_being_written(path)
        }
        old = {path.name for path in is_old if index_of(path).exists()}
        kept = [page for visits in self._pages.values() for page in _last(visits, keep_last)]
        kept += [
            response
            for response in self.responses()
            if response.at >= before or response.file not in old
        ]
        places = [place for page in kept for place in (page.body_at, page.head_at) if place]
        needed = {page.file for page in kept} | {file for file, _ in places}
        lines = {line_of(page) for page in kept}
        did = Pruned()
        for path in sorted(is_old):
            did.add(self._prune_file(path, lines, is_needed=path.name in needed))
        return did

    def _prune_file(self, path: Path, lines: set[str], *, is_needed: bool) -> Pruned:
        index = index_of(path)
        if not index.exists():  # of another tool, or a prune was killed
            is_ours = read_info(path).get("software") == SOFTWARE
            return _removed(path) if is_ours and not is_needed else Pruned()
        before = [line for line in index.read_text("utf-8", "replace").split("\n") if line]
        after = list(dict.fromkeys(line for line in before if _line(line) in lines))
        did = Pruned(responses=len(set(before)) - len(after))
        if did.responses:
            new = index.with_suffix(".new")
            with new.open("w", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in after)
                file.flush()
                os.fsync(file.fileno())  # or after a power failure, it may be empty
            new.replace(index)
        if not is_needed:
            index.unlink()
            did.add(_removed(path))
        return did

    def _add_file(self, path: Path) -> list[Kept]:
        """The responses of other tools that have their bodies elsewhere."""
        index, elsewhere = index_of(path), list[Kept]()
        try:
            if index.exists():
                self._add_lines(index)
            elif read_info(path).get("software") != SOFTWARE:
                for kept, is_elsewhere in scan(path):
                    elsewhere.append(kept) if is_elsewhere else self._add(kept)
        except OSError as error:
            self.unreadable.append(f"{path.name} ({error})")
        return elsewhere

    def _add_revisits(self, found: list[Kept]) -> None:
        """They name a body by its digest; after a 304, some only by their page."""
        bodies = (
            {response.digest: response for response in self.responses() if response.digest}
            if found
            else {}
        )
        for kept in sorted(found, key=lambda page: page.at):
            is_old = kept.status == NOT_MODIFIED
            same = bodies.get(kept.digest)
            if is_old and not same:
                before = [visit for visit in self.visits(request_of(kept)) if visit.at <= kept.at]
                same = before[-1] if before else None
            if same is None:
                self.unreadable.append(f"{kept.file}, byte {kept.offset:,} (its body is not here)")
                continue
            there = same.head_at or (same.file, same.offset)
            changes = {"status": same.status, "head_at": there} if is_old else {}
            body_at = same.body_at or there
            self._add(msgspec.structs.replace(kept, body_at=body_at, size=same.size, **changes))

    def _add_lines(self, index: Path) -> None:
        for number, line in enumerate(index.read_bytes().split(b"\n"), 1):
            try:
                if line:
                    self._add(read_line(line))
            except msgspec.MsgspecError:  # a process was killed in the middle of it
                self.unreadable.append(f"{index.name}, line {number}")

    def _add(self, kept: Kept) -> None:
        visits = self._pages.setdefault(key_of(request_of(kept)), [])
        if kept not in visits:
            insort(visits, kept, key=lambda visit: visit.at)


def _last(visits: list[Kept], count: int) -> Iterator[Kept]:
    """Of each job: `replay` and `redo` take its own."""
    by_job: dict[str, list[Kept]] = defaultdict(list)
    for visit in visits:
        by_job[visit.job].append(visit)
    for own in by_job.values():
        yield from own[-count:]


def _line(line: str) -> str:
    """As we would write it; empty if it cannot be read."""
    try:
        return line_of(read_line(line))
    except msgspec.MsgspecError:
        return ""


def _removed(path: Path) -> Pruned:
    size = path.stat().st_size
    path.unlink()
    return Pruned(files=1, size_bytes=size)


def key_of(request: Request) -> bytes:
    """Equal for requests of the same page, whichever spelling they use."""
    try:
        url = identify(request.url).canonical
    except BadURL:
        url = request.url
    parts = (request.method, url, request.unique, request.session)
    return blake2b("\0".join(parts).encode() + request.body, digest_size=12).digest()
