"""An archive as one file: a WACZ 1.1.1 (specs.webrecorder.net/wacz), as ReplayWeb.page opens it."""

from __future__ import annotations

import gzip
import re
import zipfile
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from skitter.archive.files import INDEX as LINES_OF
from skitter.archive.index import SOFTWARE, line_of
from skitter.archive.record import lengths
from skitter.errors import BadURL
from skitter.urls import identify

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import BinaryIO

    from skitter.archive.index import Archive
    from skitter.archive.record import Kept

VERSION: Final = "1.1.1"
INDEX: Final = "index.cdx.gz"
LINES: Final = 1024  # of the index in one gzip member, of which readers take one
CHUNK_BYTES: Final = 2**20
_WWW: Final = re.compile(r"\Awww\d*\.")


class Packed(NamedTuple):
    """What a package has."""

    pages: int
    responses: int
    files: int


@dataclass(slots=True)
class _Package:
    """A zip and the list of what is in it. Nothing is packed twice: WARC files are compressed, and
    readers take ranges of the others."""

    zip: zipfile.ZipFile
    resources: list[dict[str, Any]] = field(default_factory=list)

    def add(self, path: str, chunks: Iterable[bytes]) -> None:
        digest, size = sha256(), 0
        with self.zip.open(zipfile.ZipInfo(path, _now()), "w", force_zip64=True) as file:
            for chunk in chunks:
                file.write(chunk)
                digest.update(chunk)
                size += len(chunk)
        name = f"{len(self.resources)}-{path.rpartition('.')[2]}"
        hashed = f"sha256:{digest.hexdigest()}"
        self.resources.append({"name": name, "path": path, "hash": hashed, "bytes": size})


def pack(archive: Archive, to: Path, *, job: str = "") -> Packed:
    """Pack all responses, or those of a job, with the files that have their bodies."""
    kept = [response for response in archive.responses() if job in ("", response.job)]
    places = [place for page in kept for place in (page.body_at, page.head_at) if place]
    files = {page.file for page in kept} | {file for file, _ in places}
    new = to.with_name(f"{to.name}.new")
    try:
        with zipfile.ZipFile(new, "w") as zipped:
            count = _write(_Package(zipped), archive.folder, kept, sorted(files))
        new.replace(to)
    finally:
        new.unlink(missing_ok=True)
    return Packed(pages=count, responses=len(kept), files=len(files))


def _write(package: _Package, folder: Path, kept: list[Kept], files: list[str]) -> int:
    lines, by_file = [], defaultdict[str, list["Kept"]](list)
    for page in kept:
        by_file[page.file].append(page)
    for name in files:
        with (folder / name).open("rb") as file:
            size = file.seek(0, 2)  # it may grow meanwhile
            file.seek(0)
            package.add(f"archive/{name}", _chunks(file, size))
        own = [f"{line_of(page)}\n".encode() for page in by_file[name]]
        package.add(f"archive/{name}{LINES_OF}", own)  # for us, once it is unpacked
        ends = lengths(folder / name, size)
        lines += [_cdx(page, *ends[page.offset]) for page in by_file[name] if page.offset in ends]
    _add_index(package, sorted(line for line in lines if line))
    newest = {page.url: page for page in sorted(kept, key=lambda page: page.at)}
    pages = [page for page in newest.values() if page.status == HTTPStatus.OK]
    package.add("pages/pages.jsonl", _page_list(pages))
    document = msgspec.json.encode(
        {
            "profile": "data-package",
            "wacz_version": VERSION,
            "software": SOFTWARE,
            "created": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
            "resources": package.resources,
        }
    )
    digest = {"path": "datapackage.json", "hash": f"sha256:{sha256(document).hexdigest()}"}
    package.add("datapackage.json", [document])
    package.add("datapackage-digest.json", [msgspec.json.encode(digest)])
    return len(pages)


def _chunks(file: BinaryIO, size: int) -> Iterator[bytes]:
    while size and (chunk := file.read(min(size, CHUNK_BYTES))):
        size -= len(chunk)
        yield chunk


def _cdx(kept: Kept, length: int, kind: str) -> str:
    """Its line in the index; empty for a form that was sent, which no link leads to."""
    if kept.request.get("method", "GET") != "GET" or not (key := surt(kept.url)):
        return ""
    about = {
        "url": kept.url,
        "mime": "warc/revisit" if kept.body_at else kind,
        "status": str(kept.status),
        "digest": f"sha1:{kept.digest}",
        "length": str(length),
        "offset": str(kept.offset),
        "filename": kept.file,
    }
    at = datetime.fromtimestamp(kept.at, UTC)
    return f"{key} {at:%Y%m%d%H%M%S} {msgspec.json.encode(about).decode()}\n"


def surt(url: str) -> str:
    """The URL as indexes of archives sort it: https://www.a.example/B becomes example,a)/b."""
    try:
        parts = urlsplit(identify(url).canonical.lower())
        host, port = parts.hostname or "", f":{parts.port}" if parts.port else ""
    except (BadURL, ValueError):
        return ""
    host = ",".join(reversed(_WWW.sub("", host).split(".")))
    path = re.sub("/+", "/", parts.path).rstrip("/") or "/"
    query = f"?{'&'.join(sorted(parts.query.split('&')))}" if parts.query else ""
    return f"{host}{port}){path}{query}"


def _add_index(package: _Package, lines: list[str]) -> None:
    """Sorted lines in members of some lines each, and a second index of these."""
    members, offset = [], 0
    about = [f'!meta 0 {{"format":"cdxj-gzip-1.0","filename":"{INDEX}"}}\n']
    for some in (lines[start : start + LINES] for start in range(0, len(lines), LINES)):
        member = gzip.compress("".join(some).encode(), mtime=0)
        digest = f"sha256:{sha256(member).hexdigest()}"
        place = {"offset": offset, "length": len(member), "digest": digest}
        key = some[0][: some[0].index("{")]
        about.append(f"{key}{msgspec.json.encode(place).decode()}\n")
        members.append(member)
        offset += len(member)
    package.add(f"indexes/{INDEX}", members)
    package.add("indexes/index.idx", [line.encode() for line in about])


def _page_list(pages: list[Kept]) -> Iterator[bytes]:
    yield b'{"format":"json-pages-1.0","id":"pages","title":"Pages"}\n'
    for number, page in enumerate(pages, 1):
        at = f"{datetime.fromtimestamp(page.at, UTC):%Y-%m-%dT%H:%M:%SZ}"
        yield msgspec.json.encode({"id": str(number), "url": page.url, "ts": at}) + b"\n"


def _now() -> tuple[int, int, int, int, int, int]:
    now = datetime.now(UTC)
    return now.year, now.month, now.day, now.hour, now.minute, now.second
