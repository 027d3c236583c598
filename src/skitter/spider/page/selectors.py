"""Selectors on pages that strangers wrote, and what can be wrong with a page.

PageError (SkitterError)
├── NoMatch          css_first found nothing, and no default was given
├── NoLink           a node without href, or a value that cannot be a link
├── BadForm          a form without that field, option or button
├── TooComplex       HTML that takes the parser too much time or memory
└── NotJSON          the body is not JSON
BadSelector (UsageError)
LibraryMissing (UsageError)
"""

from __future__ import annotations

import re
from collections import Counter
from math import factorial
from typing import TYPE_CHECKING, Final, Protocol

from skitter.errors import SkitterError, UsageError, shorten

if TYPE_CHECKING:
    from collections.abc import Callable

    from selectolax.lexbor import LexborHTMLParser, LexborNode


#: What to use instead of Scrapy's pseudo-elements.
_INSTEAD: Final = {
    "text": "leave ::text out, and take .text() of the element: page.css_first('h1').text()",
    "attr": "leave ::attr(name) out, and take .attributes['name'] of the element",
}


class Answer(Protocol):
    """What an error shows of the page."""

    url: str

    @property
    def status(self) -> int: ...


class PageError(SkitterError):
    """The page is not what the handler expected."""

    def __init__(self, page: Answer, reason: str) -> None:
        super().__init__(f"{reason} ({shorten(page.url)}, status {page.status})")
        self.url, self.status, self.reason = page.url, page.status, reason


class NoMatch(PageError):
    """css_first found nothing, and no default was given."""

    def __init__(self, page: Answer, selector: str) -> None:
        super().__init__(
            page,
            f"nothing on the page matches {shorten(selector)!r}: correct the selector, "
            "or pass default=None where the element may be absent",
        )
        self.selector = selector


class NoLink(PageError):
    """An element without href, or a value that cannot be a link."""


class BadForm(PageError):
    """The form lacks the requested field, option or button."""


class TooComplex(PageError):
    """HTML that takes the parser too much time or memory: see skitter.fetch.html.markup."""


class NotJSON(PageError):
    """The body is not JSON."""


class BadSelector(UsageError):
    """A selector that does not parse."""

    def __init__(self, selector: object, reason: str) -> None:
        pseudo = re.search(r"::(text|attr)", selector) if isinstance(selector, str) else None
        reason = _INSTEAD[pseudo[1]] if pseudo else reason
        super().__init__(f"{shorten(repr(selector))} is not a selector we can use: {reason}")
        self.selector = selector


class LibraryMissing(UsageError):
    """An optional library is not installed."""


#: Steps of lexbor, of 20 ns each at the worst, that a selector may take.
MAX_STEPS: Final = 50_000_000
_TOKEN: Final = re.compile(
    r"""\\. | "(?:\\.|[^"\\])*+" | '(?:\\.|[^'\\])*+' | \s*+[>+~,]\s*+ | \s++ | .""",
    re.VERBOSE | re.DOTALL,
)
#: Steps of lexbor, of 5 ns each, in counting the siblings of elements: some 20 s. Of a list this
#: long every element is next to 75,000 others.
MAX_COUNTED: Final = 75_000**2
#: What lexbor counts siblings for, with the element before it as far as that is easily read.
_COUNTING: Final = re.compile(r"([\w.#-]*):(?:nth-|has\(\s*~)")
_LOOSE: Final = frozenset(" ~")
Steps = list[tuple[str, str]]  # (combinator, what one element is), the first one without


class Selector:
    """A selector, taken apart.

    For `a b c`, lexbor tries every pair of ancestors of every element: on 400 nested elements, 2
    KB, four steps took 20 s. Where the nesting makes that possible, a selector is matched step by
    step instead: the elements of each step are looked up, and kept if one of the step before is
    above them. That takes as long as there are elements.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.choices: list[Steps] = [[("", "")]]
        self.inner = text.count(":has(")  # loose steps in parentheses, which cannot be taken apart
        depth = 0
        for token in _TOKEN.findall(text.strip()):
            depth += (token in "([") - (token in ")]") if len(token) == 1 else 0
            sign = token.strip() or " "
            if sign not in (" ", ">", "+", "~", ","):
                self._extend(token)
            elif depth:
                self.inner += sign in _LOOSE and "(" in self.choices[-1][-1][1]
                self._extend(token)
            elif sign == ",":
                self.choices.append([("", "")])
            else:
                self.choices[-1].append((sign, ""))

    def _extend(self, token: str) -> None:
        sign, text = self.choices[-1][-1]
        self.choices[-1][-1] = (sign, text + token)

    @property
    def loose(self) -> int:
        """How many steps may skip elements, which is where time multiplies."""
        return max(sum(sign in _LOOSE for sign, _ in steps) for steps in self.choices)

    def is_costly(self, tree: LexborHTMLParser, tags: int) -> bool:
        """Whether lexbor may take more than a second: by how deep the page is, or how wide."""
        power = max(self.loose, self.inner)
        if power < 2 or not all(text for steps in self.choices for _, text in steps):
            return False
        if any(sign == "~" for steps in self.choices for sign, _ in steps):
            return True
        deep = int((MAX_STEPS * factorial(power) / max(tags, 1)) ** (1 / power))
        ends = ["*"] if self.inner >= 2 else [steps[-1][1] for steps in self.choices]
        above = "*>" * deep
        return deep < tags and tree.css_first(",".join(above + end for end in ends)) is not None

    def find(self, tree: LexborHTMLParser) -> list[LexborNode]:
        """All elements that match, in document order."""
        found = set().union(*(_match(tree, steps) for steps in self.choices))
        last = ",".join(dict.fromkeys(steps[-1][1] for steps in self.choices))
        nodes = {node.mem_id: node for node in tree.css(last)}  # each once
        return [node for place, node in nodes.items() if place in found]


def counts_too_much(selector: str, tree: LexborHTMLParser, tags: int) -> bool:
    """Whether `li:nth-child(2)` and the like take minutes: lexbor begins anew for each element."""
    kinds = _COUNTING.findall(selector)
    if not kinds or tags**2 < MAX_COUNTED:
        return False
    siblings = Counter(map(_place, tree.css("*")))
    counted = (siblings[_place(node)] for kind in kinds for node in tree.css(kind or "*"))
    return sum(counted) > MAX_COUNTED


def _place(node: LexborNode) -> int:
    return node.parent.mem_id if node.parent is not None else 0


def _match(tree: LexborHTMLParser, steps: Steps) -> set[int]:
    found = {node.mem_id for node in tree.css(steps[0][1])}
    for sign, text in steps[1:]:
        move = _above if sign in " >" else _before
        known: dict[int, bool] | None = {} if sign in _LOOSE else None
        nodes = tree.css(text)
        found = {node.mem_id for node in nodes if _reaches(node, move, found, known)}
    return found


def _above(node: LexborNode) -> LexborNode | None:
    return node.parent


def _before(node: LexborNode) -> LexborNode | None:
    at = node.prev
    while at is not None and not at.is_element_node:
        at = at.prev
    return at


def _reaches(
    node: LexborNode,
    move: Callable[[LexborNode], LexborNode | None],
    wanted: set[int],
    known: dict[int, bool] | None,
) -> bool:
    """Whether one move, or with `known` any number of them, leads to a wanted element."""
    at = move(node)
    if known is None:
        return at is not None and at.mem_id in wanted
    passed = []
    while at is not None and at.mem_id not in wanted and at.mem_id not in known:
        passed.append(at.mem_id)
        at = move(at)
    is_reached = at is not None and (at.mem_id in wanted or known[at.mem_id])
    known.update(dict.fromkeys(passed, is_reached))
    return is_reached
