"""Fixtures: a saved page and what its handler finds there, as a test of a spider.

fixtures/SPIDER/HANDLER-PAGE/body.html      byte for byte
fixtures/SPIDER/HANDLER-PAGE/page.json      whose page it is: spider, request, status, headers
fixtures/SPIDER/HANDLER-PAGE/expected.json  the items, links and rejected items
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import msgspec

from skitter.archive.differences import Difference, differences, encoded
from skitter.archive.masking import described, has_secret, without_user
from skitter.errors import SkitterError, SpiderError, UsageError
from skitter.model import Request, Response
from skitter.redact import redact, redact_headers, redact_request, redact_tree
from skitter.spider.importing import load_spider, names_a_file, split_target
from skitter.spider.page import Page
from skitter.spider.run import run_handler

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from skitter.frontier.records.failed import FailedPage
    from skitter.spider.run import HandlerOutput
    from skitter.spider.spider import Spider

FOLDER: Final = "fixtures"
PAGE: Final = "page.json"
EXPECTED: Final = "expected.json"
_SUFFIXES: Final = {"html": ".html", "json": ".json", "xml": ".xml", "text": ".txt"}
#: Of a link, these follow from its page, or from the spider.
_IMPLIED: Final = ("parent", "depth", "unique", "lane")
_SLUG: Final = 50  # characters


class Saved(msgspec.Struct, kw_only=True):
    """page.json."""

    spider: str  # from the folder that holds `fixtures`
    arguments: dict[str, Any] = {}
    request: dict[str, Any]
    url: str
    status: int
    headers: list[tuple[str, str]]
    body: str  # the name of its file

    def request_of(self) -> Request:
        body = self.request.get("body", "")
        return msgspec.convert({**self.request, "body": body.encode()}, Request)


@dataclass(frozen=True, slots=True)
class Checked:
    """A fixture, and what its spider finds there today."""

    folder: Path
    differences: list[Difference] = field(default_factory=list)
    problem: str = ""  # the handler did not run to its end

    @property
    def is_same(self) -> bool:
        return not (self.differences or self.problem)

    @property
    def lines(self) -> Iterator[str]:
        if self.problem:
            yield self.problem
        for difference in self.differences:
            yield from difference.lines


@dataclass(slots=True)
class Checks:
    """Runs fixtures; loads each spider once."""

    _spiders: dict[str, Spider] = field(default_factory=dict)

    def check(self, folder: Path) -> Checked:
        try:
            found = self.run(folder)
            before = _read(folder / EXPECTED, dict[str, Any])
        except SkitterError as error:
            return Checked(folder, problem=str(error))
        return Checked(folder, list(differences(before, found)))

    def run(self, folder: Path) -> dict[str, Any]:
        """What its handler finds now, as plain JSON. Raises SkitterError."""
        saved = read_saved(folder)
        try:
            spider = self._load(saved, folder.parents[2])
            page = _page_of(saved, folder)
            spider.handler_of(page.request)
        except SpiderError as error:
            hint = f"If it is gone for good, remove {shown(folder)}."
            raise SpiderError(f"{str(error).rstrip('.')}. {hint}") from None
        return expected_of(asyncio.run(run_handler(spider, page)))

    def _load(self, saved: Saved, base: Path) -> Spider:
        is_file = split_target(saved.spider)[0].endswith(".py")
        target = str(base / saved.spider) if is_file else saved.spider
        key = f"{target} {saved.arguments}"
        if key not in self._spiders:
            self._spiders[key] = load_spider(target, saved.arguments)
        return self._spiders[key]


# --- on disk --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class New:
    """A fixture that was written."""

    folder: Path
    is_new: bool  # else it was replaced
    expected: dict[str, Any]


def save(target: str, spider: Spider, page: Page, arguments: Mapping[str, str]) -> New:
    """Write the page, without secrets, and what its handler finds. Raises SkitterError if the
    handler fails; then nothing is written."""
    request, response = page.request, page.response
    name, _ = spider.handler_of(request)
    base, stored = _home(target)
    saved = Saved(
        spider=stored,
        arguments=redact_tree(dict(arguments)),
        request=_asked(request) | {"handler": name},
        url=_safe(response.url),
        status=response.status,
        headers=[(key, redact_headers({key: value})[key]) for key, value in response.headers],
        body=f"body{suffix_of(page)}",
    )
    saved = msgspec.convert(_plain(saved), Saved)  # the handler gets what it will be tested with
    safe = Page(saved.request_of(), _response(saved, response.body))
    expected = expected_of(asyncio.run(run_handler(spider, safe)))
    folder = _folder_for(base / FOLDER / spider.name, saved)
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("body.*"):
        old.unlink()
    (folder / saved.body).write_bytes(response.body)
    _write(folder / PAGE, msgspec.to_builtins(saved))
    accept(folder, expected)
    if not (attributes := folder.parent / ".gitattributes").exists():
        attributes.write_text("body.* -text\n", "utf-8")  # Git must not convert ends of lines
    return New(folder, is_new, expected)


def accept(folder: Path, found: dict[str, Any]) -> None:
    """Take what was found as what is expected."""
    _write(folder / EXPECTED, found)


def find(place: str | None = None) -> list[Path]:
    """The folders of all fixtures below a folder, or of a spider. Raises UsageError if there are
    none."""
    where = Path(place or ".")
    if where.is_dir():
        found = sorted(_below(where))
    else:
        base, stored = _home(str(place))
        found = [path for path in sorted(_below(base / FOLDER)) if _is_of(stored, path)]
    if found:
        return found
    if place and split_target(place)[0].endswith(".py") and not _exists(place):
        raise SpiderError(f"there is no file {place}: check the path.")
    example = place if place and not where.is_dir() else "SPIDER"
    raise UsageError(
        f"there is no fixture {'of' if example == place else 'in'} {shown(where)}: "
        f"`skitter test add {example} URL` makes one."
    )


def is_fixture(folder: Path) -> bool:
    """Other tools have fixtures, too, and perhaps a page.json."""
    if folder.parents[1].name != FOLDER:
        return False
    try:
        return b'"spider"' in (folder / PAGE).read_bytes()
    except OSError:
        return False


def shown(path: Path) -> str:
    """By its path from here if it is below."""
    path, here = path.resolve(), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def read_saved(folder: Path) -> Saved:
    saved: Saved = _read(folder / PAGE, Saved)
    if Path(saved.body).name != saved.body:
        raise UsageError(f"{shown(folder / PAGE)} names a body that is in another folder.")
    return saved


def _below(place: Path) -> Iterator[Path]:
    for name, folders, files in os.walk(place.resolve()):
        inside = Path(name)
        folders[:] = [
            folder
            for folder in folders
            if folder[0] != "."
            and folder != "node_modules"
            and not (inside / folder / "pyvenv.cfg").exists()
        ]
        if PAGE in files and is_fixture(inside):
            yield inside


def _home(target: str) -> tuple[Path, str]:
    """The folder that holds a spider's fixtures, and its target as seen from there."""
    where, name = split_target(target)
    if names_a_file(where):
        path = Path(where).resolve()
        return path.parent, f"{path.name}:{name}" if name else path.name
    try:
        spec = find_spec(where)
    except (ImportError, ValueError):
        spec = None
    if spec is None or spec.origin is None:
        raise SpiderError(
            f"there is no module {where!r} here: check the name, or give the path of a Python file."
        )
    return Path(spec.origin).parent, target


def _exists(target: str) -> bool:
    return Path(split_target(target)[0]).exists()


def _is_of(target: str, folder: Path) -> bool:
    """Also if one of them names no spider in the file. One that cannot be read counts, so that it
    is told."""
    try:
        (own, name), (where, which) = split_target(read_saved(folder).spider), split_target(target)
    except SkitterError:
        return True
    return own == where and (name is None or which is None or name == which)


def _folder_for(place: Path, saved: Saved) -> Path:
    """The folder that has this page already, or a new one."""
    parts = urlsplit(saved.request["url"])
    words = re.sub("[^a-z0-9]+", "-", unquote(f"{parts.path} {parts.query}").lower()).strip("-")
    handler = re.sub(r"[^\w-]", "", saved.request["handler"])
    name = f"{handler}-{words[:_SLUG].strip('-') or 'index'}"
    for number in count(1):
        folder = place / (f"{name}-{number}" if number > 1 else name)
        if not folder.exists() or _is_at(folder, saved):
            return folder
    raise AssertionError("there is always another number")


def _is_at(folder: Path, saved: Saved) -> bool:
    """Whether it is the same page, or one that cannot be read any more."""
    try:
        old = read_saved(folder)
    except SkitterError:
        return True
    keys = ("url", "method", "body", "session", "handler")
    same = all(old.request.get(key) == saved.request.get(key) for key in keys)
    return same and (old.spider, old.arguments) == (saved.spider, saved.arguments)


def as_page(failed: FailedPage) -> Page:
    """What the handler saw of a page that failed."""
    request = msgspec.convert({**failed.request, "url": failed.url}, Request)
    headers, body = tuple(failed.headers), failed.body
    return Page(request, Response(url=failed.url, status=failed.status, headers=headers, body=body))


def suffix_of(page: Page) -> str:
    kind = "html" if page.is_html else page.content_type
    return next((end for word, end in _SUFFIXES.items() if word in kind), ".bin")


def _read(path: Path, kind: Any) -> Any:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError) as error:
        why = getattr(error, "strerror", None) or error
        hint = f"`skitter test accept {shown(path.parent)}` writes it anew."
        if path.name == PAGE:
            hint = "add the page again with `skitter test add`."
        raise UsageError(f"{shown(path)} cannot be read ({why}): {hint}") from None


def _write(path: Path, value: Any) -> None:
    """Readable in a diff."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", "utf-8")


def _page_of(saved: Saved, folder: Path) -> Page:
    try:
        body = (folder / saved.body).read_bytes()
    except OSError as error:
        why = f"{shown(folder / saved.body)} cannot be read ({error.strerror})"
        raise UsageError(f"{why}: add the page again with `skitter test add`.") from None
    return Page(saved.request_of(), _response(saved, body))


def _response(saved: Saved, body: bytes) -> Response:
    return Response(url=saved.url, status=saved.status, headers=tuple(saved.headers), body=body)


# --- as plain data --------------------------------------------------------------------------------


def _safe(url: str) -> str:
    return redact(without_user(url))


def _asked(request: Request) -> dict[str, Any]:
    told = described(request, "")
    told.pop("unique", None)
    if "parent" in told:
        told["parent"] = _safe(told["parent"])
    if "body" in told:
        told["body"] = told["body"].decode("utf-8", "replace")
    return {"url": _safe(request.url), **told}


def expected_of(output: HandlerOutput) -> dict[str, Any]:
    """Items in their order, links by URL: pages that list the same ones differently are equal."""
    rejected = [
        {"field": item.field, "item": item.item}
        if item.field
        else {"why": item.reason, "item": item.item}
        for item in output.rejected
    ]
    links = sorted(map(_link, output.requests), key=lambda one: (one["url"], encoded(one)))
    found: dict[str, Any] = {"items": output.items, "links": links, "rejected": rejected}
    return dict(_plain(found))


def _link(request: Request) -> dict[str, Any]:
    told = redact_request(msgspec.to_builtins(request))
    if request.body and not has_secret(request.body):
        told["body"] = request.body.decode("utf-8", "replace")
    return {name: value for name, value in told.items() if name not in _IMPLIED}


def _plain(value: Any) -> Any:
    """As it will be read back."""
    return msgspec.json.decode(msgspec.json.encode(value))
