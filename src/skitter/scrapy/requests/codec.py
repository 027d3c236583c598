"""Scrapy's requests as the frontier's, and back; feed messages as requests.

What the frontier needs has its own fields: URL, method, body, priority, depth, identity, slot. The
rest is only for Scrapy and goes into `meta`, without default values. Callbacks go by name, without
pickle.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import msgspec
from itemadapter import ItemAdapter
from scrapy import Request as ScrapyRequest
from scrapy.utils.misc import load_object

from skitter.errors import UsageError
from skitter.model import Request
from skitter.scrapy.requests.values import (
    Kind,
    NotPlain,
    find_class,
    is_used,
    name_of,
    pack,
    unpack,
)
from skitter.settings import MAX_PRIORITY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scrapy import Spider
    from scrapy.settings import BaseSettings


#: The callbacks among the methods of Scrapy's own spiders.
_THEIR_CALLBACKS = frozenset(
    {
        *("parse", "_parse", "parse_start_url", "_callback", "_errback"),
        *("_parse_sitemap", "initialized"),
    }
)
_NOT_CALLBACKS = frozenset({"closed"})  # Scrapy's shutdown hook
_NOT_THE_USERS = ("scrapy.", "skitter.scrapy.", "builtins")


def find_callback(spider: Spider, name: str) -> Callable[..., Any] | None:
    """The method of this name if it can be a callback, not one that creates or closes a spider."""
    is_theirs = any(name in kind.__dict__ for kind in type(spider).__mro__ if not _is_users(kind))
    if name.startswith("__") or name in _NOT_CALLBACKS:
        return None
    if is_theirs and name not in _THEIR_CALLBACKS:
        return None
    if isinstance(getattr(type(spider), name, None), property):
        return None
    method = getattr(spider, name, None)
    return method if getattr(method, "__self__", None) is spider and callable(method) else None


def find_public_callback(spider: Spider, name: str) -> Callable[..., Any]:
    """For feed messages. Raises UsageError unless it is a public method of the user's class.

    Anyone who can write to the server chooses the name and the arguments, so `__init__` or
    `from_crawler` must not be callable.
    """
    users = any(name in kind.__dict__ for kind in type(spider).__mro__ if _is_users(kind))
    method = find_callback(spider, name) if users and not name.startswith("_") else None
    if method is None:
        raise UsageError(
            f"the spider {spider.name!r} has no method {name!r} that a feed may call: use a "
            "public method that its class defines."
        )
    return method


def _is_users(kind: type) -> bool:
    return not f"{kind.__module__}.".startswith(_NOT_THE_USERS)


_TYPES: dict[str, tuple[type, ...]] = {
    "url": (str,),
    "method": (str,),
    "headers": (dict,),
    "cookies": (dict, list),
    "body": (str,),
    "meta": (dict,),
    "priority": (int,),
    "callback": (str,),
    "errback": (str,),
    "cb_kwargs": (dict,),
    "dont_filter": (bool,),
    "encoding": (str,),
    "flags": (list,),
}


def request_fields(message: dict[str, Any]) -> dict[str, Any]:
    """A feed message as the fields of a Scrapy request. Pure; raises UsageError, naming the field.

    Unknown keys are form data, as in scrapy-redis: the body of a POST, unless it has one; with
    other methods the query, replacing that of the URL.
    """
    if not message.get("url"):
        raise UsageError("the message has no url, which is required.")
    fields: dict[str, Any] = {"dont_filter": True, "method": "GET"}
    form: dict[str, str | list[str]] = {}
    for name, value in message.items():
        if name in _TYPES:
            fields[name] = checked(name, value)
        else:
            form[name] = [str(one) for one in value] if isinstance(value, list) else str(value)
    fields["method"] = fields["method"].upper()
    return _with_form(fields, urlencode(form, doseq=True)) if form else fields


def checked(name: str, value: Any) -> Any:
    """Raises UsageError if the field has the wrong type."""
    wanted = _TYPES[name]
    if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
        kinds = " or ".join(kind.__name__ for kind in wanted)
        raise UsageError(f"its {name} must be {kinds}, got {value!r}.")
    return value


def _with_form(fields: dict[str, Any], form: str) -> dict[str, Any]:
    if fields["method"] != "POST":
        page, mark, fragment = fields["url"].partition("#")
        fields["url"] = page.partition("?")[0] + "?" + form + mark + fragment
    elif "body" not in fields:
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        fields["body"], fields["headers"] = form, kind | fields.get("headers", {})
    return fields


#: Forms and API calls of spiders are larger than links found on pages.
MAX_REQUEST_BYTES = 4 * 1024 * 1024
#: Fields of a Scrapy request that the frontier's request has too, or that `_rest` writes itself.
_OURS = frozenset(
    {"url", "callback", "errback", "method", "headers", "body", "priority", "dont_filter"}
)
_DEFAULTS: dict[str, Any] = {"cookies": {}, "meta": {}, "encoding": "utf-8", "flags": []}
_DEFAULTS["cb_kwargs"] = {}


@dataclass(frozen=True, slots=True)
class Codec:
    """Converts the requests of one spider."""

    spider: Spider
    slot_of: Callable[[ScrapyRequest], str]  # the download slot that Scrapy would use
    ranked: bool  # False: a FIFO or LIFO queue, which ignores priorities
    check_meta: Callable[[Any], None] = lambda meta: None  # raises UsageError
    types: Mapping[type, Kind] = field(default_factory=dict)  # SKITTER_META_TYPES

    def pack(self, request: ScrapyRequest, identity: str, *, unique: str) -> Request:
        """Raises UsageError for a request that another node could not process."""
        meta = request.meta
        referer = request.headers.get(b"Referer")
        return Request(
            url=request.url,
            method=request.method,
            body=request.body,
            depth=_depth(meta),
            parent=referer.decode("latin-1") if referer else None,
            handler=self._name(request.callback, "callback"),
            meta=self._rest(request),
            priority=clamp(request.priority) if self.ranked else 0,
            unique=unique,
            identity=identity,
            slot=spell_slot(self.slot_of(request), request.url),
        )

    def unpack(self, stored: Request) -> ScrapyRequest:
        """Raises UsageError if this spider lacks the callback or the class."""
        request = self._make(
            stored.meta,
            url=stored.url,
            method=stored.method,
            body=stored.body,
            headers=stored.headers,
            callback=stored.handler,
            priority=stored.priority,
        )
        if _depth(request.meta) > stored.depth:  # a shorter path was found since
            request.meta["depth"] = stored.depth
        return request

    def _make(self, rest: dict[str, Any], **about: Any) -> ScrapyRequest:
        made = self._class(rest["class"], _is_request) if "class" in rest else ScrapyRequest
        find = partial(self._class, is_fit=self._is_item)
        values = {
            name: unpack(value, find, self._unpack_other)
            for name, value in rest.get("fields", {}).items()
            if name in made.attributes
        }
        self.check_meta(values.get("meta"))
        about["headers"] = rest.get("headers") or about["headers"]
        about["callback"] = self._method(about["callback"])
        about["priority"] = rest.get("priority", about["priority"])
        request: ScrapyRequest = made(
            **about,
            errback=self._method(rest.get("errback")),
            dont_filter=rest.get("dont_filter", False),
            **values,
        )
        return request

    def _pack_other(self, value: Any, where: str) -> Any:
        """The project's own types, and requests that spiders keep in meta for later."""
        if own := self.types.get(type(value)):
            return {"$own": [own.tag, pack(own.pack(value), where, self._pack_other)]}
        if isinstance(value, dict | tuple) and not is_used(type(value), self._home):
            raise NotPlain(where, value)
        if not isinstance(value, ScrapyRequest):
            return NotImplemented
        callback = self._name(value.callback, f"{where}: callback")
        return {"$other": [value.url, value.method, value.body, callback, self._rest(value)]}

    def _unpack_other(self, tag: str, packed: Any) -> Any:
        if tag == "$own":
            return self._unpack_own(*packed)
        return self._unpack_request(packed) if tag == "$other" else NotImplemented

    def _unpack_own(self, name: str, packed: Any) -> Any:
        own = next((kind for kind in self.types.values() if kind.tag == name), None)
        if own is None:
            raise UsageError(f"SKITTER_META_TYPES does not have {name.replace(':', '.')} here.")
        find = partial(self._class, is_fit=self._is_item)
        return own.unpack(unpack(packed, find, self._unpack_other))

    def _unpack_request(self, packed: Any) -> ScrapyRequest:
        url, method, body, callback, rest = packed
        about = {"url": url, "method": method, "body": body, "callback": callback}
        return self._make(rest, **about, headers=None, priority=0)

    def _rest(self, request: ScrapyRequest) -> dict[str, Any]:
        rest: dict[str, Any] = {}
        self.check_meta(request.meta)
        fields = {
            name: pack(value, name, self._pack_other)
            for name in request.attributes
            if name not in _OURS and (value := getattr(request, name)) != _DEFAULTS.get(name)
        }
        if fields:
            rest["fields"] = fields
        if request.headers:
            rest["headers"] = {
                name.decode("latin-1"): values for name, values in request.headers.items()
            }
        if request.errback:
            rest["errback"] = self._name(request.errback, "errback")
        if request.priority:
            rest["priority"] = request.priority
        if request.dont_filter:
            rest["dont_filter"] = True
        if jar := jar_name(request.meta.get("cookiejar")):
            rest["jar"] = jar
        if (moment := request.meta.get("not_before")) is not None:
            rest["not_before"] = _moment(moment)
        if type(request) is not ScrapyRequest:
            rest["class"] = name_of(type(request))
        return rest

    def _name(self, method: Any, role: str) -> str | None:
        """The spider's attribute that holds the method, usually under its own name."""
        if method is None:
            return None
        name = getattr(method, "__name__", "")
        function = getattr(method, "__func__", None)
        if function is not None and method.__self__ is self.spider:
            if getattr(getattr(self.spider, name, None), "__func__", None) is function:
                return str(name)
            for other in dir(type(self.spider)):  # e.g. parse_item = parse
                if getattr(type(self.spider), other, None) is function:
                    return other
        raise UsageError(
            f"its {role} {name or method!r} is not a method of the spider {self.spider.name!r}, so "
            "no other node could call it: make it one."
        )

    def _method(self, name: str | None) -> Any:
        if name is None:
            return None
        method = find_callback(self.spider, name)
        if method is None:
            raise UsageError(
                f"the spider {self.spider.name!r} has no method {name!r}: was it renamed since the "
                "request was made? Bring the method back, then run `skitter dead retry`."
            )
        return method

    def _class(self, name: str, is_fit: Callable[[type], bool]) -> Any:
        return find_class(name, home=self._home, is_fit=is_fit)

    def _is_item(self, found: type) -> bool:
        """An item, or a tuple or dict of the project's own. A member of an enum is only looked up,
        so any enum will do."""
        is_group = issubclass(found, (tuple, dict)) or ItemAdapter.is_item_class(found)
        return issubclass(found, Enum) or (is_group and is_used(found, self._home))

    @property
    def _home(self) -> str:
        """The project's own package."""
        return type(self.spider).__module__.partition(".")[0]


def jar_name(cookiejar: Any) -> str:
    """`meta["cookiejar"]` as part of a key; empty: the default jar. Raises UsageError."""
    if cookiejar is None:
        return ""
    is_text = isinstance(cookiejar, str)
    packed = cookiejar if is_text else msgspec.json.encode(pack(cookiejar, "cookiejar"))
    name = quote(packed, safe="")
    if len(name) > 100:
        name = hashlib.sha256(name.encode()).hexdigest()
    return name if is_text else f":{name}"


def _moment(value: Any) -> float:
    """`meta["not_before"]` as seconds since the epoch. Raises UsageError."""
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    raise UsageError(
        f"meta['not_before'] = {value!r} must be a datetime, or seconds since the epoch."
    )


def own_types(settings: BaseSettings) -> dict[type, Kind]:
    """SKITTER_META_TYPES. Raises UsageError, naming what cannot be used."""
    found: dict[type, Kind] = {}
    for named, functions in settings.getdict("SKITTER_META_TYPES").items():
        try:
            kind, (to_plain, from_plain) = load_object(named), map(load_object, functions)
            found[kind] = Kind(name_of(kind), to_plain, from_plain)
        except (AttributeError, ImportError, NameError, TypeError, ValueError) as error:
            raise UsageError(
                f"SKITTER_META_TYPES[{named!r}] = {functions!r} cannot be used ({error}): write a "
                "class and two functions, to plain values and from them."
            ) from None
    return found


def _is_request(found: type) -> bool:
    return issubclass(found, ScrapyRequest)


def clamp(priority: int) -> int:
    """Scrapy's priorities are unbounded, the frontier's are not."""
    return max(-MAX_PRIORITY, min(MAX_PRIORITY, priority))


def _depth(meta: Mapping[str, Any]) -> int:
    depth = meta.get("depth", 0)
    return depth if isinstance(depth, int) and depth > 0 else 0


def spell_slot(slot: str, url: str) -> str:
    """The slot as part of a key. A URL without a host, such as data:, uses its scheme."""
    slot = str(slot) or url.partition(":")[0]
    return slot if slot.isprintable() and " " not in slot else quote(slot)
