"""The fields of a form and their default values (HTML 4.10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from selectolax.lexbor import LexborHTMLParser, LexborNode

_CONTROLS: Final = ("input", "select", "textarea", "button")
_ALL: Final = ",".join(_CONTROLS)
_FORMS_IN_TABLES: Final = ("table", "tbody", "thead", "tfoot", "tr")
_CHOICES: Final = frozenset({"checkbox", "radio"})
_SUBMITS: Final = frozenset({"submit", "image"})
_BUTTONS: Final = _SUBMITS | {"button", "reset"}
#: HTML 4.10.5.1: line breaks are stripped from their values.
_ONE_LINE: Final = frozenset({"text", "search", "tel", "url", "email", "password"})
_LINE_BREAKS: Final = str.maketrans("", "", "\r\n")


class File(NamedTuple):
    """What a file field sends."""

    content: bytes
    name: str = "file"
    type: str = "application/octet-stream"


#: What a browser sends for a file field without a file.
NO_FILE: Final = File(b"", "")
Value = str | File


class Control:
    """One field or button."""

    __slots__ = ("is_disabled", "kind", "name", "node", "values")

    def __init__(self, node: LexborNode, *, is_disabled: bool = False) -> None:
        self.node, self.is_disabled = node, is_disabled
        self.kind = _kind_of(node)
        self.name = attribute(node, "name")
        self.values: list[Value] = self._default()

    @property
    def is_choice(self) -> bool:
        return self.kind in _CHOICES

    @property
    def is_button(self) -> bool:
        return self.kind in _BUTTONS

    @property
    def submits(self) -> bool:
        return self.kind in _SUBMITS and not self.is_disabled

    @property
    def value(self) -> str:
        """What a choice stands for, or what a button sends."""
        return attribute(self.node, "value", "on" if self.is_choice else "")

    @property
    def options(self) -> list[tuple[str, str]]:
        """The enabled options of a select: value and label."""
        return [(_option_value(option), _label(option)) for option in self._enabled_options()]

    def _enabled_options(self) -> list[LexborNode]:
        return [node for node in self.node.css("option") if not _is_disabled_option(node)]

    def _default(self) -> list[Value]:
        if self.is_choice:
            return [self.value] if "checked" in self.node.attributes else []
        if self.kind == "select":
            return list(self._selected())
        if self.kind == "file":
            return [NO_FILE]
        if self.kind == "textarea":
            return [self.node.text()]
        return [self.value.translate(_LINE_BREAKS) if self.kind in _ONE_LINE else self.value]

    def _selected(self) -> list[str]:
        """HTML 4.10.7: in a single-choice list, the last selected one; in a drop-down, by default
        the first."""
        every = self.node.css("option")
        chosen = [node for node in every if "selected" in node.attributes]
        if "multiple" not in self.node.attributes:
            shows_one = attribute(self.node, "size", "1") in ("", "0", "1")
            chosen = chosen[-1:] or (self._enabled_options()[:1] if shows_one else [])
        return [_option_value(node) for node in chosen if not _is_disabled_option(node)]


def controls_of(tree: LexborHTMLParser, form: LexborNode) -> list[Control]:
    """The controls that the form owns, in document order."""
    inside = {node.mem_id for node in _inside(form)}
    disabled, outside = _disabled(tree), _ids(tree.css(_within("datalist")))
    name = form.attributes.get("id")
    return [
        Control(node, is_disabled="disabled" in node.attributes or node.mem_id in disabled)
        for node in tree.css(_ALL)
        if node.mem_id not in outside
        and (
            node.attributes["form"] == name if "form" in node.attributes else node.mem_id in inside
        )
    ]


def _inside(form: LexborNode) -> Iterable[LexborNode]:
    """Its descendants. The parser leaves a form that starts inside a table empty; it owns what
    follows up to its end tag (HTML 13.2.6.4.9), which is lost, so we stop at the next form."""
    parent = form.parent
    if form.first_child is not None or parent is None or parent.tag not in _FORMS_IN_TABLES:
        return form.css(_ALL)
    while parent.tag != "table" and parent.parent is not None:
        parent = parent.parent
    every = parent.css(f"form,{_ALL}")
    first = next(i for i, node in enumerate(every) if node.mem_id == form.mem_id) + 1
    ends = (i for i, node in enumerate(every) if i >= first and node.tag == "form")
    return every[first : next(ends, len(every))]


def _disabled(tree: LexborHTMLParser) -> set[int]:
    """Nodes disabled by a fieldset, except in its first legend (HTML 4.10.15). One walk, as
    fieldsets may be nested hundreds deep."""
    closed = _ids(tree.css("fieldset[disabled]"))
    found: set[int] = set()
    spared: set[int] = set()  # fieldsets whose first legend was seen
    for node in tree.root.traverse() if closed and tree.root else ():  # parents come first
        if node.parent is None:
            continue
        above = node.parent.mem_id
        if above in closed and node.tag == "legend" and above not in spared:
            spared.add(above)
            is_disabled = above in found
        else:
            is_disabled = above in closed or above in found
        if is_disabled:
            found.add(node.mem_id)
    return found


def _within(tag: str) -> str:
    return ",".join(f"{tag} {control}" for control in _CONTROLS)


def _ids(nodes: Iterable[LexborNode]) -> set[int]:
    return {node.mem_id for node in nodes}


def attribute(node: LexborNode, name: str, default: str = "") -> str:
    """selectolax returns None for an empty attribute."""
    return (node.attributes[name] or "") if name in node.attributes else default


def _kind_of(node: LexborNode) -> str:
    tag = node.tag or ""
    if tag not in ("input", "button"):
        return tag
    kind = attribute(node, "type").lower()
    if tag == "button":
        return kind if kind in ("button", "reset") else "submit"
    return kind or "text"


def _option_value(option: LexborNode) -> str:
    return attribute(option, "value", _label(option))


def _label(option: LexborNode) -> str:
    return " ".join(option.text().split())


def _is_disabled_option(option: LexborNode) -> bool:
    group = option.parent
    in_group = group is not None and group.tag == "optgroup" and "disabled" in group.attributes
    return in_group or "disabled" in option.attributes
