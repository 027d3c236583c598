"""A kept response as a WARC 1.1 record, and back. Cookies and credentials are left out."""

from __future__ import annotations

import re
from base64 import b32encode
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from hashlib import sha1
from http import HTTPStatus
from importlib import import_module
from importlib.util import find_spec
from os import urandom
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec

from skitter.archive.masking import described, kept_headers, without_user
from skitter.errors import UsageError
from skitter.extras import install
from skitter.model import Request, Response

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

try:
    from fastwarc.warc import ArchiveIterator, WarcRecordType
except ImportError as missing:
    raise UsageError(f"an archive needs another library: {install('archive')}") from missing

#: isal takes a third of the time, but has no wheel for some processors.
_PACKER: Final[Any] = import_module("isal.isal_zlib" if find_spec("isal") else "zlib")
#: True of the bytes that came, not of the unpacked body that is kept.
_OF_TRANSFER: Final = frozenset({"content-encoding", "transfer-encoding", "content-length"})
_HTTP: Final = "application/http; msgtype=response"
_LEVEL: Final = 1
_GZIP: Final = 31  # zlib's word for it
_REVISIT: Final = "http://netpreserve.org/warc/1.1/revisit"
NOT_MODIFIED: Final = HTTPStatus.NOT_MODIFIED
_KINDS: Final = WarcRecordType.response | WarcRecordType.resource | WarcRecordType.revisit
_MAX_INFO_BYTES: Final = 10**5
MAX_BODY_BYTES: Final = 2**30  # unpacked; fetch.max_body_mb allows no more
_AS_IT_CAME: Final = "x-archive-orig-"
Unpacks = Literal["all", "content", "transfer", "none"]
_LESS: Final[tuple[Unpacks, ...]] = ("content", "transfer", "none")
_CHUNK: Final = re.compile(rb"[0-9A-Fa-f]+[^\r\n]*\r\n")
_BREAK: Final = re.compile("[\r\n\0]+")


class TooLong(ValueError):
    """A body over the limit."""


class Kept(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of the index: whose response it is, and where."""

    url: str  # as requested
    at: Annotated[float, msgspec.Meta(ge=0, lt=253_402_300_800)]  # when fetched, since the epoch
    file: str
    offset: Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
    digest: str
    status: int
    size: int = 0  # of the body
    job: str = ""
    fingerprint: str = ""
    request: dict[str, Any] = {}  # what differs from a plain request
    body_at: tuple[str, int] | None = None  # file and offset of the record that has the body
    #: Of the record that has status and headers, too: the site has answered 304.
    head_at: tuple[str, int] | None = None
    shot_at: int | None = None  # in the same file: the record of its screenshot


@dataclass
class Record:
    """A response to write."""

    request: Request
    response: Response
    at: float
    job: str
    fingerprint: str
    same_as: Kept | None = None  # the response of an earlier visit, which this one found unchanged

    @cached_property
    def digest(self) -> str:
        old = self.same_as if self.response.status == NOT_MODIFIED else None
        return old.digest if old else digest_of(self.response.body)

    def kept(
        self, file: str, offset: int, *, same: Kept | None, shot_at: int | None = None
    ) -> Kept:
        """Its line. `same`: where the same body is."""
        there = (same.file, same.offset) if same else None
        is_head_there = bool(same) and self.response.status == NOT_MODIFIED
        return Kept(
            url=without_user(self.request.url),
            at=self.at,
            file=file,
            offset=offset,
            digest=self.digest,
            status=same.status if same and is_head_there else self.response.status,
            size=same.size if same else len(self.response.body),
            job=self.job,
            fingerprint=self.fingerprint,
            request=described(self.request, self.fingerprint),
            body_at=same.body_at or there if same else None,
            head_at=there if is_head_there else None,
            shot_at=shot_at,
        )

    def pack(self, *, same: Kept | None = None) -> bytes:
        """The record, as a gzip member of its own."""
        response = self.response
        fields = [
            ("WARC-Target-URI", without_user(response.url)),
            ("WARC-Payload-Digest", f"sha1:{self.digest}"),
        ]
        if response.remote_address:
            fields.append(("WARC-IP-Address", response.remote_address))
        if same is None:
            block = _http_head(response) + response.body
            return _packed("response", self.at, fields, _HTTP, block)
        is_old = response.status == NOT_MODIFIED
        how = "server-not-modified" if is_old else "identical-payload-digest"
        fields += [
            ("WARC-Profile", f"{_REVISIT}/{how}"),
            ("WARC-Refers-To-Target-URI", same.url or without_user(self.request.url)),
            ("WARC-Refers-To-Date", _date(same.at)),
        ]
        return _packed("revisit", self.at, fields, _HTTP, _http_head(response))

    def pack_screenshot(self) -> bytes:
        """Empty: it has none. Named as Browsertrix names those of whole pages."""
        if not (shot := self.response.screenshot):
            return b""
        fields = [("WARC-Target-URI", f"urn:fullPage:{without_user(self.response.url)}")]
        return _packed("resource", self.at, fields, "image/png", shot)


def digest_of(body: bytes) -> str:
    return b32encode(sha1(body, usedforsecurity=False).digest()).decode()


def pack_info(at: float, **fields: str) -> bytes:
    """The first record of a file: what wrote it."""
    text = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return _packed("warcinfo", at, [], "application/warc-fields", text.encode())


def _packed(
    kind: str, at: float, fields: list[tuple[str, str]], content_type: str, block: bytes
) -> bytes:
    every = [
        ("WARC-Type", kind),
        ("WARC-Record-ID", f"<urn:uuid:{_uuid()}>"),
        ("WARC-Date", _date(at)),
        *fields,
        ("Content-Type", content_type),
        ("Content-Length", str(len(block))),
    ]
    head = _spelled("WARC/1.1", every)
    packed: bytes = _PACKER.compress(b"%b%b\r\n\r\n" % (head, block), _LEVEL, wbits=_GZIP)
    return packed


def _uuid() -> str:
    """A UUID of version 4, as `uuid4` makes it in four times the time."""
    digits = urandom(16).hex()
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


def read_info(path: Path) -> dict[str, str]:
    """What the first record says of its file; empty if it says nothing."""
    with path.open("rb") as file:
        for warc in ArchiveIterator(file, parse_http=False):
            if warc.record_type != WarcRecordType.warcinfo:
                return {}
            lines = warc.reader.read(_MAX_INFO_BYTES).decode("utf-8", "replace").splitlines()
            return dict(line.split(": ", 1) for line in lines if ": " in line)
    return {}


def read_response(path: Path, offset: int, *, limit: int = MAX_BODY_BYTES) -> Response:
    """The response at a place; of a revisit, without its body."""
    try:
        return _read_at(path, offset, limit, "all")
    except TooLong:
        raise
    except (OSError, ValueError):
        # Some tools keep bodies unpacked, and the headers as they came.
        for unpacks in _LESS:
            with suppress(OSError, ValueError):
                found = _read_at(path, offset, limit, unpacks)
                is_packed = unpacks != "content" and not _is_text(found.body)
                is_chunked = unpacks != "transfer" and _CHUNK.match(found.body)
                if not (is_packed or is_chunked):
                    return found
        raise


def _read_at(path: Path, offset: int, limit: int, unpacks: Unpacks) -> Response:
    with path.open("rb") as file:
        file.seek(offset)
        for warc in ArchiveIterator(file, auto_decode=unpacks):
            return _response(warc, limit)
    raise EOFError(f"{path} ends before {offset}")


def _is_text(body: bytes) -> bool:
    """What is still packed is none."""
    try:
        return "\0" not in body.decode()
    except UnicodeDecodeError:
        return False


def lengths(path: Path, end: int) -> dict[int, tuple[int, str]]:
    """By the place of each record: how many bytes it takes, and the content type of its page."""
    found: dict[int, tuple[int, str]] = {}
    with path.open("rb") as file, suppress(OSError):  # cut by a kill, or still being written
        last = None
        for warc in ArchiveIterator(file):
            if last:
                found[last[0]] = warc.stream_pos - last[0], last[1]
            kind = warc.http_content_type or "unknown"
            last = warc.stream_pos, kind
    if last and last[0] < end:
        found[last[0]] = end - last[0], last[1]
    return found


def scan(path: Path) -> Iterator[tuple[Kept, bool]]:
    """All responses of a file that another tool wrote, and whether each has its body elsewhere."""
    with path.open("rb") as file:
        for warc in ArchiveIterator(file, record_types=_KINDS):
            url = _target_of(warc)
            if url.startswith(("http://", "https://")):
                yield _found(warc, url, path.name), warc.record_type == WarcRecordType.revisit


def _target_of(warc: Any) -> str:
    """Wget writes <https://...>, as the grammar of WARC 1.0 has it."""
    return (warc.headers.get("WARC-Target-URI") or "").removeprefix("<").removesuffix(">")


def _found(warc: Any, url: str, file: str) -> Kept:
    when = warc.record_date
    # A revisit may have no head of its own.
    plain = NOT_MODIFIED if warc.record_type == WarcRecordType.revisit else HTTPStatus.OK
    return Kept(
        url=url,
        at=max(0.0, when.timestamp()) if when else 0.0,
        file=file,
        offset=warc.stream_pos,
        digest=(warc.headers.get("WARC-Payload-Digest") or "").removeprefix("sha1:"),
        status=int(getattr(warc.http_headers, "status_code", None) or plain),
        size=warc.content_length,
    )


def request_of(kept: Kept) -> Request:
    """The request that got it, to be handled again."""
    return msgspec.convert({**kept.request, "url": kept.url}, Request)


def _http_head(response: Response) -> bytes:
    try:
        phrase = HTTPStatus(response.status).phrase
    except ValueError:
        phrase = ""
    headers = [
        (_AS_IT_CAME + name if name in _OF_TRANSFER else name, value)
        for name, value in kept_headers(response.headers)
    ]
    headers.append(("content-length", str(len(response.body))))
    return _spelled(f"HTTP/1.1 {response.status} {phrase}", headers)


def _spelled(first: str, fields: list[tuple[str, str]]) -> bytes:
    """A head. Browsers join headers of the same name with a newline, which becomes a space."""
    lines = [first, *[f"{name}: {value}" for name, value in fields]]
    if not "".join(lines).isprintable():  # most are
        lines = [_BREAK.sub(" ", line) for line in lines]
    return "\r\n".join([*lines, "", ""]).encode(errors="replace")


def _response(warc: Any, limit: int) -> Response:
    http = warc.http_headers
    if warc.record_type == WarcRecordType.resource:
        status, found = HTTPStatus.OK, [(b"content-type", warc.headers.get_bytes(b"Content-Type"))]
    elif http and http.status_code:
        status, found = http.status_code, http.items_bytes()
    else:
        raise ValueError("it is not an HTTP response")
    headers = [(_text(name).lower(), _text(value or b"")) for name, value in found]
    body = bytes(warc.reader.read(limit + 1))
    if len(body) > limit:
        raise TooLong(f"its body is over {limit:,} bytes")
    return Response(
        url=_target_of(warc),
        status=int(status),
        headers=tuple(
            (name.removeprefix(_AS_IT_CAME), value)
            for name, value in headers
            if name not in _OF_TRANSFER
        ),
        body=body,
        remote_address=warc.headers.get("WARC-IP-Address"),
    )


def _text(value: bytes) -> str:
    """As in fetch/http/exchange.py."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _date(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC).isoformat(timespec='microseconds')[:26]}Z"
