"""HTML becomes a tree, unless it would block the parser.

For some of what HTML allows, the parser's time is quadratic. Measured on lexbor, while the event
loop stands still: 100,000 nested <div>, 500 KB, 30 s; 200 KB of attributes on one element, 1.5 s;
50 KB of unclosed <p><font color=...>, 3 million elements and a gigabyte; 98 KB of <b> with 100
attributes each, then <p>x, which repeats them all, 4 GB. HTML has too many such cases to list, so a
page is *plain* if it is certain to be cheap, as most are; any other is tried first in another
process, which may die in the attempt. What a page says is found there at once.

Certain means: it is small; or it has few tags, all of which can be read in one way only, with few
attributes, and little formatting that the parser might repeat in whatever follows. The names of
elements and rules are those of HTML 13.2.6. Other costs of lexbor: the value of an attribute is
copied with its element; text that grows behind a tag that is ignored is copied each time; and the
names of attributes and elements are in a table of 128 lists.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import select
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import IO, TYPE_CHECKING, Any, Final

import selectolax
from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser

from skitter.fetch.html.parser import HEADER, REFUSED, SIZE, TAKEN, TIME_IS_UP, TRIALS

if TYPE_CHECKING:
    from collections.abc import Collection


_OPTIONS: Final = int(LexborDocumentOptions.WO_EVENTS)


def parse_html(markup: str | bytes) -> LexborHTMLParser:
    """Its tree. Bytes are UTF-8. That it is cheap to parse was checked before.

    Without lexbor's events, by which it imitates what a browser does to a document afterwards.
    Pages are scraped as they were sent, and the events have a bug (in selectolax 1.0.2): for an
    <option selected> inside <svg> or <math> they set a field that only HTML's own <option> has, and
    so write past the end of the element. A page could spoil the memory of its worker.
    """
    if isinstance(markup, str):
        markup = markup.encode(errors="replace")
    return LexborHTMLParser(markup, options=_OPTIONS)


#: Below these any page is cheap, whatever it contains: the worst that we built took 0.2 s and 130
#: MB. The second is tags times bytes: each tag may repeat the attributes of all formatting before.
SMALL_BYTES, FEW_COPIES = 16_000, 3_000_000
#: Start tags with up to 8 attributes: 0.1 s if the names of all of them are in the same list.
FEW_TAGS: Final = 1_000
#: All tags and comments: 40 ms if each is inside the one before.
FEW_SIGNS: Final = 5_000
#: Tags times bytes: what is in front may be copied for each. 120 MB.
FEW_STEPS: Final = 240_000_000
#: How often formatting may be repeated: with 8 attributes, 1.6 KB each.
MAX_REPEATED: Final = 40_000
#: A second <body> adds its attributes to the first.
MAX_ROOTS: Final = 10

_ROOTS: Final = frozenset({"html", "head", "body"})
_SPACE: Final = r"[ \t\n\f\r]"
_NAME: Final = r"[a-zA-Z][a-zA-Z0-9-]*+"
_NAME_ENDS: Final = r"(?=[ \t\n\f\r/>])"
# Groups with a look-ahead are not possessive: up to Python 3.11.4 they consume what they see
# (cpython gh-106052).
#: Up to 8 attributes that can be read in one way only, and the end of the tag.
_FEW: Final = rf"""
    (?: {_SPACE}++ [^ \t\n\f\r/>="'<]++
        (?: =" [^"<>]*+ " | =' [^'<>]*+ ' | = [^ \t\n\f\r"'<>=`]++ )?+ ){{0,8}}+
    {_SPACE}*+ /?+ >"""
#: The names of start tags; any `<` that does not begin a tag with few attributes, a doctype or a
#: comment has an empty name. If there are none of those, the parser reads every `<` as it is meant:
#: no attributes are hidden in text, nor tags in an attribute.
_BEGUN: Final = re.compile(
    rf"""<(?! /{_NAME}> )
    (?: ({_NAME})
        (?: > | {_FEW} )
      | (?! !--[^<>]*+(?<=--)> | !(?:doctype|DOCTYPE)[^<>]*+> )
    )""",
    re.VERBOSE,
)
_FORMATS: Final = "a|b|big|code|em|font|i|nobr|s|small|strike|strong|tt|u"
_FORMATTING: Final = frozenset(_FORMATS.split("|"))
# Spelled out: a search that ignores case compares every name to its end.
_ANY_FORMATS: Final = re.sub("[a-z]", lambda it: f"[{it[0]}{it[0].upper()}]", _FORMATS)
#: What the end tag of formatting around it closes or leaves alone, whether or not it was closed.
_PIECE: Final = rf"""
    (?: /?(?:span|var|su[bp]|kbd|samp|cite|abbr|dfn|mark) | img|w?br ){_NAME_ENDS} {_FEW}"""
#: Formatting that may be left open: not all of it is text, images, more formatting and the like. It
#: has no second group if it may have many attributes. What looks like a tag counts as one, wherever
#: it is, and hides no other.
_LOOSE: Final = re.compile(
    rf"""<(?=[a-cefinstuA-CEFINSTU]) ({_ANY_FORMATS}){_NAME_ENDS}
    (?! {_FEW} [^<]*+
        (?: <(?: {_PIECE}
               | ({_FORMATS}){_NAME_ENDS} {_FEW} [^<]*+ (?: <{_PIECE} [^<]*+ ){{0,5}} </\2> )
            [^<]*+ ){{0,20}}
        </\1> )
    ({_FEW})?""",
    re.VERBOSE,
)


def is_cheap(text: str) -> bool:
    """Whether the page is certain to be cheap to parse. Linear in its size."""
    return is_small(text) or is_tidy(text)


def is_small(text: str | bytes) -> bool:
    """Whether it is cheap at a glance."""
    if (size := _bytes_of(text)) >= SMALL_BYTES:
        return False
    return _count_tags(text) * size < FEW_COPIES


def is_tidy(text: str) -> bool:
    """Whether it is plain at a second glance."""
    signs, size = _count_tags(text), _bytes_of(text)
    if signs >= FEW_SIGNS or signs * size > FEW_STEPS or "\0" in text:
        return False
    begun: Counter[str] = Counter(_BEGUN.findall(text))
    tags = begun.total()
    if tags >= FEW_TAGS or "" in begun or _count_names(begun, _ROOTS) > MAX_ROOTS:
        return False
    if 2 * tags * size > FEW_STEPS:
        return False
    return tags * _count_names(begun, _FORMATTING) <= MAX_REPEATED or _repeats_little(text, tags)


def _bytes_of(text: str | bytes) -> int:
    """At least as many as it has in UTF-8."""
    return len(text) if isinstance(text, bytes) or text.isascii() else 4 * len(text)


def _count_names(begun: Counter[str], names: Collection[str]) -> int:
    return sum([count for name, count in begun.items() if name.lower() in names])


def _repeats_little(text: str, tags: int) -> bool:
    """Whether little formatting may be left open, and it has few attributes."""
    loose = _LOOSE.findall(text)
    return tags * len(loose) <= MAX_REPEATED and all(few for *_, few in loose)


def _count_tags(text: str | bytes) -> int:
    """What may be one."""
    if isinstance(text, str):
        return text.count("<")
    # Half the instructions of `count`, which compares byte by byte; a quarter on large pages.
    return len(text) - len(text.replace(b"<", b""))


#: The helper limits CPU time. This is for a helper that hangs, not for a busy machine.
LONGEST_S: Final = 60.0
_PROGRAM: Final = Path(__file__).with_name("parser.py")
_LIBRARY: Final = Path(selectolax.__file__).parents[1]


def can_be_parsed(text: str) -> bool:
    """Whether parsing takes at most a second and some memory. Blocks that long."""
    return _helper().ask("parse", text) is not None


class TooMuch(Exception):
    """To read a page takes more than the limits of the helper."""


def read_apart(what: str, text: str, base: str) -> Any:
    """What a function of content.py finds, as JSON has it. Raises TooMuch if that takes more than a
    second or some memory. Blocks that long."""
    if (found := _helper().ask(what, text, base)) is None:
        raise TooMuch
    return json.loads(found)


def thread() -> ThreadPoolExecutor:
    """The thread to wait in: only one, as there is one helper."""
    return _helper().thread


@dataclass(slots=True)
class _Helper:
    """The helper of this process, which tries pages: a separate program (parser.py).

    Not a fork: a worker has threads, signal handlers and connections that a fork would share; it
    could wait forever for a lock that one of the threads held, and a Ctrl-C that reaches it would
    count twice here.
    """

    thread: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="skitter-trial")
    )
    _turn: Lock = field(default_factory=Lock)
    _process: subprocess.Popen[bytes] | None = None

    def ask(self, what: str, text: str, base: str = "") -> bytes | None:
        """What it found; None: the page takes too much."""
        page, at = text.encode(errors="replace"), base.encode(errors="replace")
        asked = HEADER.pack(len(page), len(at), TRIALS.index(what)), page, at
        with self._turn:
            # The helper may have been killed while idle; then a new one is asked.
            answer, found = self._ask(what, asked)
            if not answer:
                answer, found = self._ask(what, asked)
        return found if answer == TAKEN else None

    def _ask(self, what: str, asked: tuple[bytes, ...]) -> tuple[bytes, bytes]:
        """The helper's answer, and what it found; no answer: it died."""
        process, found = self._process or _start(), b""
        self._process = process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            until = time.monotonic() + LONGEST_S
            is_sent = all(_send(process.stdin, one, until) for one in asked)
            answer = _receive(process.stdout, 1, until) if is_sent else b""
            if (
                answer == TAKEN
                and what != "parse"
                and (found := _found(process.stdout, until)) == b""
            ):
                answer = b""  # JSON is never empty: it died before it had said all
        except BrokenPipeError:
            answer = b""
        except BaseException:  # the next page must not get the answer to this one
            self.end()
            raise
        if answer != TAKEN and self.end() == -TIME_IS_UP:
            return REFUSED, b""
        return answer, found

    def end(self) -> int | None:
        """What it exited with."""
        process, self._process = self._process, None
        if process is None:
            return None
        process.kill()  # no effect if it has ended
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):  # it flushes
                    pipe.close()
        return process.wait()


#: By pid: a fork of this process (Celery's pool makes some) must not use the same helper.
_helpers: dict[int, _Helper] = {}


def _helper() -> _Helper:
    return _helpers.setdefault(os.getpid(), _Helper())


@atexit.register
def _end() -> None:
    if helper := _helpers.get(os.getpid()):
        helper.end()


def _start() -> subprocess.Popen[bytes]:
    # -I: nothing from the environment or the working folder. It ends when its input does.
    command = [sys.executable, "-I", "-S", str(_PROGRAM), str(_LIBRARY)]
    process = subprocess.Popen(command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    os.set_blocking(process.stdin.fileno(), False)
    return process


def _send(pipe: IO[bytes], data: bytes, until: float) -> bool:
    """Whether all of it was taken in time: a helper may be suspended."""
    rest = memoryview(data)
    while rest and _is_ready(pipe, select.POLLOUT, until):
        rest = rest[pipe.write(rest) :]
    return not rest


def _found(pipe: IO[bytes], until: float) -> bytes:
    """Empty if the helper died before it had said all."""
    size = _receive(pipe, SIZE.size, until)
    if len(size) < SIZE.size:
        return b""
    found = _receive(pipe, SIZE.unpack(size)[0], until)
    return found if len(found) == SIZE.unpack(size)[0] else b""


def _receive(pipe: IO[bytes], size: int, until: float) -> bytes:
    """Less if it ends before, or does not come in time."""
    parts: list[bytes] = []
    while size and _is_ready(pipe, select.POLLIN, until) and (part := pipe.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _is_ready(pipe: IO[bytes], for_what: int, until: float) -> bool:
    waiting = select.poll()  # not select: a worker may have a thousand connections
    waiting.register(pipe, for_what)
    return bool(waiting.poll(1000 * max(0.0, until - time.monotonic())))
