"""What is not kept of a request and its response: cookies and credentials."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

import msgspec

from skitter.model import Request
from skitter.redact import MASK, redact_headers, redact_tree

if TYPE_CHECKING:
    from collections.abc import Iterable

#: What a page was fetched with and would be again. Headers are not kept: they may hold credentials.
_OF_REQUEST: Final = ("method", "body", "depth", "parent", "handler", "meta", "unique", "session")
#: Headers of a response.
HIDDEN: Final = frozenset({"set-cookie", "set-cookie2", "authorization", "proxy-authorization"})
_SAMPLE: Final = "x"
_USER: Final = re.compile("^(https?://)[^/?#]*@")
_PLAIN: Final = Request(url="")


def described(request: Request, fingerprint: str) -> dict[str, Any]:
    """What differs from a plain request, without its secrets."""
    told: dict[str, Any] = {
        name: value
        for name in _OF_REQUEST
        if (value := getattr(request, name)) != getattr(_PLAIN, name)
    }
    if "meta" in told:
        told["meta"] = redact_tree(told["meta"])
    if "body" in told and has_secret(request.body):
        told["unique"] = fingerprint  # or all requests to its URL would be the same
        del told["body"]
    return told


def kept_headers(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Of a response: without cookies, and with the values of others such as x-auth-token masked."""
    return [
        (name, MASK if _is_secret(name) else value) for name, value in headers if name not in HIDDEN
    ]


@lru_cache(1000)
def _is_secret(header: str) -> bool:
    return redact_headers({header: _SAMPLE})[header] != _SAMPLE


def has_secret(body: bytes) -> bool:
    """Whether a form or JSON has a field such as `password`."""
    try:
        sent = msgspec.json.decode(body)
    except msgspec.DecodeError:
        sent = dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
    return bool(redact_tree(sent) != sent)


def without_user(url: str) -> str:
    return _USER.sub(r"\1", url) if "@" in url else url
