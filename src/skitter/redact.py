"""What may be shown, logged or written to a file, and how.

Parts of a URL, DSN, header or request are masked after parsing, in linear time. Where the parts are
ambiguous, as with a "/" in a password, everything after the scheme is masked.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_plus

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


MASK: Final = "***"

_BEGINNING: Final = re.compile(r"\s*+(?:([A-Za-z][A-Za-z0-9+.-]*+):)?[/\\\s]*+")
_HOSTS: Final = re.compile(r"(?:\[[^\]]*+\]|[^\s:\[\],]*+)(?::\d*+)?(?:,[^\s:,]*+(?::\d*+)?)*+")
#: A quote ends a URL in a text, unless it is in a password: an @ comes before the next / or :.
_IN_TEXT: Final = re.compile(
    r"""[A-Za-z][A-Za-z0-9+.-]{0,30}+://(?:[^\s"'<>`]++|["'<>`](?=[^\s/:@]{0,80}+@))++"""
)
_END_OF_AUTHORITY: Final = re.compile(r"[/\\?#]")
_QUERY: Final = re.compile("[?#;]")  # a path has parameters, too: /cart;jsessionid=...
_NAME: Final = re.compile(r"(?:^|[?#;])([^?#;=]*+)=")
_LOGIN_INSIDE: Final = re.compile(r"://[^/?#\s@]*+@")
_KEYWORD: Final = re.compile(
    r"(?i)\b(pass\w*+\s*+=\s*+)(?:'[^']*+'?|\S++)"
)  # of PostgreSQL: user=u ...
_PATH: Final = re.compile(r"(?:unix|sqlite|file):///")  # a path may contain @ anywhere

_PLACEHOLDERS: Final = ("USER:PASSWORD", ":PASSWORD")  # in messages that say how to write a URL

_ESCAPES: Final = "in a password, write / as %2F, ? as %3F, # as %23, ; as %3B and @ as %40"

_OF_TEMPLATE: Final = "{secret}"  # where a proxy's template has it

_SECRET_ENDINGS: Final = (
    "password", "passwd", "passphrase", "secret", "apikey", "token", "secretkey", "privatekey",
    "credential", "credentials", "signature", "jwt", "hmac", "accesskey",
    "subscriptionkey", "sessionid", "sessid",
)  # fmt: skip
#: A token for the next page grants no access, and shows where a crawl is.
_PLACES: Final = ("pagetoken", "nexttoken", "continuationtoken")
_SECRET_NAMES: Final = frozenset(
    {"pwd", "pass", "auth", "authorization", "bearer", "cookie", "cookies", "sig"}
)
#: Ordinary in URLs of pages, but keys in those of services that we use: webhooks, proxies.
_SERVICE_NAMES: Final = frozenset({"key", "code", "access", "sign"})
#: In the path of a webhook, such as those of Slack and Discord, a part this long is its secret.
_LONG_PART: Final = 18
_SECRET_HEADER: Final = re.compile(r"auth|cookie|token|secret|passw|key|session|credential|sign")


def shown(place: str) -> str:
    """An output: an address without its password, or a file, by its path from here if it is below
    the working directory."""
    here = f"{os.getcwd()}{os.sep}"  # noqa: PTH109  pathlib is slow to import
    return place.removeprefix(here) if place.startswith(here) else redact(place)


def redact(url: str, *, also: frozenset[str] = frozenset()) -> str:
    """The URL, DSN or path without passwords, before the host or in the query. `also`: further
    names of secret parameters."""
    begins = _BEGINNING.match(url)
    assert begins is not None  # every part of it may be empty
    scheme, rest = (begins[1] or "").lower(), url[begins.end() :]
    if not scheme and "://" in rest:
        return redact_text(url)  # perhaps quoted
    if not scheme and "=" in rest:
        rest = _KEYWORD.sub(rf"\1{MASK}", rest)
    if "@" in rest and not _PATH.match(url):
        is_web = scheme in ("http", "https")
        shown = _hide_web_user(rest) if is_web else _hide_user(scheme, rest)
        if shown is None:
            return begins[0] + MASK
        rest = shown
    return begins[0] + _hide_parameters(rest, also)


def redact_service(url: str) -> str:
    """The address of a proxy or another service, whose key may have a plain name."""
    return redact(url, also=_SERVICE_NAMES)


def redact_webhook(url: str) -> str:
    """The address of a webhook, which may be all that it takes to post there."""
    shown, mark, query = redact_service(url).partition("?")
    begins = _BEGINNING.match(shown)
    assert begins is not None  # as above
    host, *path = shown[begins.end() :].split("/")
    parts = [host, *(MASK if len(part) >= _LONG_PART else part for part in path)]
    hidden = re.sub(r"=[^&]*+", f"={MASK}", query)
    return begins[0] + "/".join(parts) + mark + hidden


def parse_problem(error: ValueError, url: str) -> str:
    """Why a URL did not parse: the parser may quote half of a password that it took for a port."""
    if redact(url).endswith(f"/{MASK}") or "#" in url.rpartition("@")[0]:
        return _ESCAPES
    if "@" in url and "Port" in str(error):
        return f"its port is no number; {_ESCAPES}"
    return redact_text(str(error))


def redact_text(text: str) -> str:
    """A text, with the URLs in it redacted."""
    return _IN_TEXT.sub(lambda found: _redact_end(found[0]), text) if "://" in text else text


def hide_queries(text: str) -> str:
    """A text about a login: a form may send a password in a query, under any name."""
    return _IN_TEXT.sub(lambda found: re.sub(r"\?.*", f"?{MASK}", redact(found[0])), text)


def redact_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers, with values that may be secret masked."""
    return {
        name: MASK if _SECRET_HEADER.search(name.lower()) else redact_text(value)
        for name, value in headers.items()
    }


def redact_tree(value: Any, name: str = "") -> Any:
    """Nested plain data, such as `meta`, with the values of secret names masked."""
    if _is_secret(name):
        return MASK
    if isinstance(value, dict):
        if name.lower() == "headers":
            return {key: _hide_header(str(key), each) for key, each in value.items()}
        return {key: redact_tree(each, str(key)) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [redact_tree(each) for each in value]
    if not isinstance(value, str):
        return value
    # A proxy may be written without its scheme, so that nothing in a text would show what it is.
    return redact(value) if name.lower().endswith("proxy") else redact_text(value)


def redact_request(request: Mapping[str, Any]) -> dict[str, Any]:
    """A request as plain data, without its secrets."""
    hide: dict[str, Callable[[Any], Any]] = {
        "url": redact,
        "parent": redact,
        "headers": redact_headers,
        "body": lambda _: MASK,
        "meta": redact_tree,
    }
    return {
        name: hide[name](value) if value and name in hide else value
        for name, value in request.items()
    }


def _redact_end(url: str) -> str:
    """A URL in a sentence: what ends the sentence is no part of the port."""
    bare = url.rstrip(".,:;)")
    return redact(bare) + url[len(bare) :]


def _hide_header(name: str, value: Any) -> Any:
    return MASK if _SECRET_HEADER.search(name.lower()) else redact_tree(value)


def _hide_web_user(rest: str) -> str | None:
    """Parsed as browsers do. None: a port that is not a number is half of a password, and so may be
    the host, if there is another @ behind it."""
    end = _END_OF_AUTHORITY.search(rest)
    size = end.start() if end else len(rest)
    _, at, host = rest[:size].rpartition("@")
    if at:
        return None if "@" in rest[size:] else f"{MASK}@{host}{rest[size:]}"
    return rest if _HOSTS.fullmatch(host) else None


def _hide_user(scheme: str, rest: str) -> str | None:
    """None: an @ where none belongs, so there is no telling where the password ends."""
    if not scheme and ":" not in rest.rpartition("@")[0]:
        return rest  # a file name
    head, mark, query = rest.partition("?")
    authority, slash, path = head.partition("/")
    user, _, hosts = authority.rpartition("@")
    if "@" in query or "@" in path or not _HOSTS.fullmatch(hosts):
        return None
    shown = user if user in _PLACEHOLDERS else MASK
    return f"{shown}@{hosts}{slash}{path}{mark}{query}"


def _hide_parameters(rest: str, also: frozenset[str]) -> str:
    """In the path, in the query, and in the fragment, where OAuth logins leave their tokens."""
    begins = _QUERY.search(rest)
    if not begins or "=" not in rest:
        return rest
    parts = rest[begins.start() :].split("&")
    return rest[: begins.start()] + "&".join(_hide_value(part, also) for part in parts)


def _hide_value(part: str, also: frozenset[str]) -> str:
    """Up to the next &: some parsers end a value at `?`, `#` or `;`, others take them as part."""
    for name in _NAME.finditer(part):
        if _is_secret(unquote_plus(name[1]), also) and part[name.end() :] != _OF_TEMPLATE:
            return part[: name.end()] + MASK
    if _LOGIN_INSIDE.search(unquote_plus(part)):  # of an address as a value
        return f"{part.partition('=')[0]}={MASK}"
    return part


def _is_secret(name: str, also: frozenset[str] = frozenset()) -> bool:
    if _plain(name).endswith(_PLACES):
        return False
    known = _SECRET_NAMES | also
    pieces = {_plain(name), *map(_plain, name.split("["))}  # token[0], user[token], token[a]
    return any(piece in known or piece.endswith(_SECRET_ENDINGS) for piece in pieces)


def _plain(name: str) -> str:
    return re.sub(r"\[\d*\]|[\W_]", "", name.lower())


# Control and bidi characters: text from the web must not control the terminal, and Rich lets ESC
# through. Lone surrogates: no stream can encode them.
UNSAFE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def clean(text: str) -> str:
    """One line that is safe for a terminal. It may still contain Rich markup."""
    return UNSAFE.sub("\ufffd", re.sub(r"[\t\r\n]+", " ", text))
