"""Requests, checked and encoded for the scripts that accept them."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from skitter.domains import registrable_domain
from skitter.errors import BadOption, TooBig, UsageError, shorten
from skitter.frontier.transport.messages import NOT_PLAIN, encode, stamped
from skitter.model import LANES, Request
from skitter.settings import Layout, check_number, check_priority, options_of
from skitter.urls import fingerprint, fingerprint_of, identify

if TYPE_CHECKING:
    from skitter.frontier.identities import Identify

MAX_RECORD_BYTES = 256 * 1024
MAX_DEPTH = 2**31
#: In the weight of a batch, this many bytes count as one more item.
WEIGHT_BYTES = 4096


NOTHING: dict[str, Any] = {}
_TEXT_OR_NONE = (str, type(None))


class Offer(msgspec.Struct, frozen=True):
    """A request, checked and encoded up front, so that a bad one leaves nothing half written."""

    shard: int
    arguments: tuple[str, str, int, int, bytes]  # as EACH in add.lua

    @property
    def size_bytes(self) -> int:
        return len(self.arguments[-1])

    @property
    def weight(self) -> int:
        return 1 + self.size_bytes // WEIGHT_BYTES

    @property
    def priority(self) -> int:
        return self.arguments[2]

    @property
    def depth(self) -> int:
        return self.arguments[3]

    @property
    def body(self) -> bytes:
        """The request as msgpack, without its priority."""
        return self.arguments[4].split(b" ", 2)[2]


def offer(request: Request, layout: Layout, *, limit_bytes: int = MAX_RECORD_BYTES) -> Offer:
    """Check and encode a request. Raises UsageError, naming the value."""
    if not isinstance(request, Request):
        raise UsageError(f"{shorten(repr(request))} is not a Request: write Request(url).")
    check_request(request)
    url, fp, host = identify_request(request, layout)
    body = _encode_request(request, url)
    check_record(body, request, limit_bytes=limit_bytes)
    body = stamped(body, time.time())
    name = with_lane(host, request.lane) if request.lane else host
    record = b"%d %b %b" % (request.priority, name.encode(), body)
    return Offer(layout.shard_of(host), (fp, name, request.priority, request.depth, record))


def identified(request: Request, fingerprinter: str, job: str, how: Identify | None) -> Request:
    """A request as nodes of a Scrapy job know it. `how`: as this node does. Raises UsageError."""
    from skitter.frontier.identities import identity_by  # only such jobs need it

    if not isinstance(request, Request) or request.identity:
        return request
    as_nodes_do = how or identity_by(fingerprinter, job)
    identity = as_nodes_do(request.url, request.method, request.body)
    slot = (
        request.slot or urlsplit(identify(request.url).url).hostname or ""
    )  # Scrapy's has no port
    return msgspec.structs.replace(request, identity=identity, slot=slot)


def check_request(request: Request) -> None:
    """Raises BadOption, naming the value."""
    priority = request.priority
    if type(priority) is not int or priority:  # a fast path: runs for every link, and most have 0
        check_priority(priority)
    _check_fields(request)
    if request.timeout_s is not None or request.max_body_mb is not None:
        _check_limits(request)
    if request.session:
        _check_slot(request.session, "session")
    if request.country:
        from skitter.settings.proxy import check_country

        check_country(request.country)


def check_record(body: bytes, request: Request, *, limit_bytes: int = MAX_RECORD_BYTES) -> bytes:
    """The body itself. Raises TooBig."""
    if len(body) > limit_bytes:
        raise TooBig(
            f"the request for {request.url}", size_bytes=len(body), limit_bytes=limit_bytes
        )
    return body


def identify_request(request: Request, layout: Layout) -> tuple[str, str, str]:
    """The URL to fetch, its fingerprint, and its politeness slot."""
    if request.identity and request.slot:  # set by an engine, which may use its own URL schemes
        fp = fingerprint_of(request.identity, unique=_apart(request))
        return request.url, fp, _check_slot(request.slot)
    target = identify(request.url, layout.canonical)
    slot = _check_slot(request.slot) if request.slot else slot_of(target.host, layout)
    if request.identity:
        return target.url, fingerprint_of(request.identity, unique=_apart(request)), slot
    fp = fingerprint(
        target.canonical, method=request.method, body=request.body, unique=_apart(request)
    )
    return target.url, fp, slot


def slot_of(host: str, layout: Layout) -> str:
    """The politeness slot of a URL with this host."""
    return registrable_domain(host) if layout.by_domain else host


def _apart(request: Request) -> str:
    """Two sessions may see different pages at one URL, so each gets its own fingerprint."""
    return f"{request.unique} session {request.session}" if request.session else request.unique


def _check_slot(slot: str, name: str = "slot") -> str:
    """It becomes part of a key, and of the record, whose fields are separated by spaces."""
    if not isinstance(slot, str) or not slot.isprintable() or " " in slot or len(slot) > 255:
        raise BadOption(name, slot, "up to 255 characters without spaces")
    return slot


def with_lane(host: str, lane: str) -> str:
    """The name of a host's queue in a lane: lua/lib/lane.lua."""
    if lane not in LANES:
        raise BadOption("lane", lane, "browser, file, or empty for plain HTTP")
    return f"{host}|{lane}" if lane else host


def _check_fields(request: Request) -> None:
    """Structs do not check types, and a bad value would stop a script half-way."""
    if type(request.depth) is not int or not 0 <= request.depth <= MAX_DEPTH:
        check_number("depth", request.depth, low=0, high=MAX_DEPTH, whole=True)
    if request.method != "GET" and not (
        isinstance(request.method, str) and request.method.isalpha()
    ):
        raise BadOption("method", request.method, "a word such as GET")
    if not isinstance(request.body, bytes):
        raise BadOption("body", request.body, "bytes")
    if not (
        type(request.unique) is type(request.identity) is str
        and type(request.slot) is type(request.session) is str
        and type(request.parent) in _TEXT_OR_NONE
        and type(request.handler) in _TEXT_OR_NONE
    ):
        _check_texts(request)
    if request.headers != NOTHING and not _is_table(request.headers, str):
        raise BadOption("headers", request.headers, "a dict of text to text")
    if request.meta != NOTHING and not _is_table(request.meta, object):
        raise BadOption("meta", request.meta, "a dict whose keys are text")


def _check_texts(request: Request) -> None:
    for name in ("unique", "identity", "slot", "session"):
        if not isinstance(value := getattr(request, name), str):
            raise BadOption(name, value, "text")
    for name in ("parent", "handler"):
        if (value := getattr(request, name)) is not None and not isinstance(value, str):
            raise BadOption(name, value, "text")


def _check_limits(request: Request) -> None:
    """Apply the ranges of the settings that these fields override."""
    from skitter.settings.fetch import FetchOptions

    for name, setting in (("timeout_s", "total_timeout_s"), ("max_body_mb", "max_body_mb")):
        option = next(option for option in options_of(FetchOptions) if option.name == setting)
        if (value := getattr(request, name)) is not None and not option.takes(value):
            raise option.refuse(value, name)


def _is_table(value: object, kind: type) -> bool:
    return isinstance(value, dict) and all(
        isinstance(key, str) and isinstance(one, kind) for key, one in value.items()
    )


def _encode_request(request: Request, url: str) -> bytes:
    # The priority is stored in front of the body, where Lua can read and lower it.
    if request.priority or request.url != url:
        request = msgspec.structs.replace(request, url=url, priority=0)
    try:
        return encode(request)
    except NOT_PLAIN as error:
        name = next(filter(partial(_is_not_plain, request), request.__struct_fields__), "meta")
        expected = f"made of plain values ({error})"
        raise BadOption(name, getattr(request, name), expected) from None


def _is_not_plain(request: Request, name: str) -> bool:
    try:
        encode(getattr(request, name))
    except NOT_PLAIN:
        return True
    return False
