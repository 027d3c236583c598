"""Form: fill it in and submit it, as a browser does (HTML 4.10.21).

    page.form("#login").fill(user="x", password="y").submit(account)

Scripts of the page do not run: use `add` for fields that only they would create.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, Self
from urllib.parse import quote_plus

from skitter.errors import shorten
from skitter.fetch.html.encoding import encode_text, sent_as
from skitter.spider.page.controls import Control, File, Value, attribute, controls_of
from skitter.spider.page.selectors import Answer, BadForm
from skitter.urls import join, origin_of

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

    from skitter.model import Request

Given = str | float | bool | bytes | File | Iterable[str]
FormValue = tuple[str, Value]

_NEWLINE: Final = re.compile(r"\r\n|\r|\n")
_IN_QUOTES: Final = {ord('"'): "%22", ord("\r"): "%0D", ord("\n"): "%0A"}
_URLENCODED: Final = "application/x-www-form-urlencoded"
_MULTIPART: Final = "multipart/form-data"
_PLAIN: Final = "text/plain"


class Document(Answer, Protocol):
    """What a form needs of its page."""

    @property
    def base(self) -> str: ...
    @property
    def encoding(self) -> str: ...
    @property
    def tree(self) -> LexborHTMLParser: ...
    def css_first(self, selector: str) -> LexborNode: ...
    @property
    def follow(self) -> Callable[..., Request]: ...


class Form:
    """One form of a page. `fill` changes it; `submit` creates the request."""

    def __init__(self, page: Document, node: LexborNode) -> None:
        if node.tag != "form":
            raise BadForm(page, f"the selector matches <{node.tag}>: choose a form")
        self.page, self.node = page, node
        self.controls = controls_of(page.tree, node)
        self._added: list[FormValue] = []
        _leave_one_radio(self.controls)

    @property
    def fields(self) -> dict[str, Value]:
        """What it would send now, without a button; for repeated names, the last value."""
        return dict(self._entries(None))

    def fill(self, values: Mapping[str, Given] | None = None, /, **more: Given) -> Self:
        """Set fields by name. A checkbox takes True, False or its value; radios and selects take a
        value or an option's text; fields with the same name take a list; a file field takes bytes
        or a `File`. Filling a disabled field enables it. Raises BadForm."""
        for name, value in {**(values or {}), **more}.items():
            self._fill(name, value)
        return self

    def add(self, name: str, value: str | File) -> Self:
        """Add a field that the page's scripts would have created."""
        self._added.append((name, value))
        return self

    def submit(self, handler: Any = None, *, button: str | None = None, **options: Any) -> Request:
        """The request that a browser would send. `button`: a selector for the button to press;
        None: the first one, like the Enter key. `options`: those of `page.follow`."""
        pressed = self._press(button)
        entries = [*self._entries(pressed), *self._added]
        action, method, kind = (
            self._said(word, pressed) for word in ("action", "method", "enctype")
        )
        url = (join(self.page.base, action) if action.strip() else None) or self.page.url
        if method.lower() == "dialog":
            raise BadForm(self.page, "the form closes a dialog and sends nothing")
        if method.lower() != "post":
            url = f"{re.split('[?#]', url)[0]}?{_urlencoded(entries, self.encoding)}"
            return self.page.follow(url, handler, **options)
        content_type, body = _encode(entries, self.encoding, kind.lower())
        headers = {"content-type": content_type, **self._origin_headers(url)}
        headers |= options.pop("headers", None) or {}
        return self.page.follow(url, handler, method="POST", headers=headers, body=body, **options)

    @property
    def encoding(self) -> str:
        """The encoding to send: `accept-charset`, or the page's own; UTF-8 in place of UTF-16."""
        name = sent_as(attribute(self.node, "accept-charset")) or self.page.encoding
        return "utf-8" if name in ("utf-16le", "utf-16be", "replacement") else name

    # --- filling ----------------------------------------------------------------------------------

    def _fill(self, name: str, value: Given) -> None:
        found = [
            control for control in self.controls if control.name == name and not control.is_button
        ]
        if not found:
            names = dict.fromkeys(control.name for control in self.controls if control.name)
            known = shorten(", ".join(names)) or "none"
            raise BadForm(
                self.page,
                f"the form has no field {shorten(name)!r} (it has {known}): correct the name, or "
                "use add() for a field that only scripts create",
            )
        if choices := [control for control in found if control.is_choice]:
            return self._choose(choices, value)
        if found[0].kind == "select":
            found[0].values = self._options(found[0], value)
            found[0].is_disabled = False
        elif found[0].kind == "file":
            _set(found[0], value if isinstance(value, File) else File(_bytes(value)))
        elif isinstance(value, str | int | float | bytes):
            visible = [control for control in found if control.kind != "hidden"]
            _set((visible or found)[0], _text(value))
        else:
            for one, text in zip(found, value, strict=False):
                _set(one, _text(text))
        return None

    def _choose(self, choices: list[Control], value: Given) -> None:
        if isinstance(value, bool):
            if len(choices) > 1 and value:
                raise self._no_option(choices[0], [choice.value for choice in choices])
            wanted = [choices[0].value] if value else []
        else:
            wanted = _texts(value)
        values = [choice.value for choice in choices]
        for text in wanted:
            if text not in values:
                raise self._no_option(choices[0], values)
        for choice in choices:
            choice.values = [choice.value] if choice.value in wanted else []
            choice.is_disabled = choice.is_disabled and not choice.values

    def _options(self, select: Control, value: Given) -> list[Value]:
        by_label = {label: option for option, label in reversed(select.options)}
        values = [option for option, _ in select.options]
        chosen: list[Value] = []
        for text in _texts(value):
            if text not in values and text not in by_label:
                raise self._no_option(select, values)
            chosen.append(text if text in values else by_label[text])
        return chosen

    def _no_option(self, control: Control, known: list[str]) -> BadForm:
        """Does not quote the given value: the page decides which field asks for a password."""
        options = shorten(", ".join(map(repr, known)))
        return BadForm(self.page, f"{shorten(control.name)!r} has no such option: use {options}")

    # --- sending ----------------------------------------------------------------------------------

    def _press(self, selector: str | None) -> Control | None:
        if selector is None:
            return next((control for control in self.controls if control.submits), None)
        node = self.page.css_first(selector)
        for control in self.controls:
            if control.node.mem_id == node.mem_id and control.submits:
                return control
        raise BadForm(self.page, f"{shorten(selector)!r} is not a submit button of the form")

    def _said(self, word: str, pressed: Control | None) -> str:
        """The button's attribute (formaction), or else the form's."""
        if pressed and f"form{word}" in pressed.node.attributes:
            return attribute(pressed.node, f"form{word}")
        return attribute(self.node, word)

    def _entries(self, pressed: Control | None) -> list[FormValue]:
        entries: list[FormValue] = []
        for control in self.controls:
            if control.is_disabled or (control.is_button and control is not pressed):
                continue
            if control.kind == "image":
                prefix = f"{control.name}." if control.name else ""
                entries += [(f"{prefix}x", "0"), (f"{prefix}y", "0")]
            elif control.kind == "hidden" and control.name.lower() == "_charset_":
                entries.append((control.name, self.encoding))
            elif control.name:
                entries += [(control.name, value) for value in control.values]
                if direction := attribute(control.node, "dirname"):
                    entries.append((direction, "ltr"))
        return entries

    def _origin_headers(self, url: str) -> dict[str, str]:
        """For CSRF checks of servers: Django wants one of these headers over https."""
        own = origin_of(self.page.url)
        if own is None or (own.startswith("https:") and not url.startswith("https:")):
            return {"origin": "null"}
        whole = self.page.url.partition("#")[0]
        return {"origin": own, "referer": whole if origin_of(url) == own else f"{own}/"}


def _leave_one_radio(controls: list[Control]) -> None:
    """HTML 4.10.5.1.16: in a group, only the last checked one counts."""
    last = {
        control.name: control for control in controls if control.kind == "radio" and control.values
    }
    for control in controls:
        if control.kind == "radio" and control.values and last[control.name] is not control:
            control.values = []


def _set(control: Control, value: Value) -> None:
    control.values, control.is_disabled = [value], False


def _texts(value: Any) -> list[str]:
    return [_text(value)] if isinstance(value, str | int | float) else [_text(one) for one in value]


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else _text(value).encode()


def _encode(entries: list[FormValue], encoding: str, kind: str) -> tuple[str, bytes]:
    """The content type and the body."""
    if kind == _MULTIPART:
        return _multipart(entries, encoding)
    if kind == _PLAIN:
        lines = "".join(f"{name}={_said(value)}\r\n" for name, value in entries)
        return _PLAIN, encode_text(lines, encoding)
    return _URLENCODED, _urlencoded(entries, encoding).encode()


def _urlencoded(entries: list[FormValue], encoding: str) -> str:
    """URL 5.2."""

    def quoted(text: str) -> str:
        data = encode_text(_crlf(text), encoding)
        return quote_plus(data, safe="*").replace("~", "%7E")

    return "&".join(f"{quoted(name)}={quoted(_said(value))}" for name, value in entries)


def _said(value: Value) -> str:
    """Where only text is sent, a file becomes its name."""
    return value.name if isinstance(value, File) else value


def _multipart(entries: list[FormValue], encoding: str) -> tuple[str, bytes]:
    """RFC 7578, with names escaped as HTML 4.10.21.8 says. The boundary is derived, not random: a
    handler that runs again makes the same request."""
    parts = [_part(name, value, encoding) for name, value in entries]
    mark = hashlib.sha256(b"\n".join(parts)).hexdigest()[:32]
    boundary = f"----SkitterForm{mark}"
    line = f"--{boundary}".encode()
    body = b"".join(b"%b\r\n%b\r\n" % (line, part) for part in parts)
    return f"{_MULTIPART}; boundary={boundary}", body + line + b"--\r\n"


def _part(name: str, value: Value, encoding: str) -> bytes:
    head = f'Content-Disposition: form-data; name="{_quoted(_crlf(name))}"'
    if isinstance(value, File):
        head += f'; filename="{_quoted(value.name)}"\r\nContent-Type: {value.type}'
        content = value.content
    else:
        content = encode_text(_crlf(value), encoding)
    return encode_text(head, encoding) + b"\r\n\r\n" + content


def _crlf(text: str) -> str:
    return _NEWLINE.sub("\r\n", text)


def _quoted(text: str) -> str:
    return text.translate(_IN_QUOTES)
