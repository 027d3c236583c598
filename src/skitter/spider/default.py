"""The spider of `skitter crawl URL...`: title, text, links and status of every page in scope."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from selectolax.lexbor import LexborHTMLParser, SelectolaxError

from skitter.errors import BadOption, JobMismatch, JobNewer, shorten
from skitter.fetch.html.markup import parse_html
from skitter.frontier.jobs import kept_format
from skitter.settings import Limits, Politeness
from skitter.spider.items import Rejected
from skitter.spider.named_files import File
from skitter.spider.page.reading import library
from skitter.spider.page.selectors import LibraryMissing
from skitter.spider.scope import ENDINGS, Scope, is_file
from skitter.spider.source import describe
from skitter.spider.spider import Spider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from skitter.frontier.frontier import Frontier
    from skitter.model import Request
    from skitter.spider.items import Item
    from skitter.spider.page import Handler, Page


class Format(StrEnum):
    """What a row says of a page."""

    TEXT = "text"
    RAW_TEXT = "raw-text"  # all of its text, in one line
    MARKDOWN = "markdown"
    HTML = "html"
    DATA = "data"

    @property
    def is_extra(self) -> bool:
        """Whether it needs the library that reads pages."""
        return self in (Format.TEXT, Format.MARKDOWN, Format.DATA)


#: What `skitter crawl --files` takes, and the ends of names that it means.
KINDS: Final = {
    "pdf": "pdf",
    "document": "pdf|ps|eps|djvu|epub|mobi|docx?|xlsx?|pptx?|od[pst]|rtf",
    "image": "jpe?g|png|gif|webp|avif|svgz?|bmp|tiff?|heic",
    "audio": "mp3|m4a|og[ag]|opus|wav|flac|aac",
    "video": "mp4|m4v|ogv|webm|avi|mov|mkv|wmv|mpe?g|flv",
    "archive": "zip|t?gz|bz2|xz|zst|7z|rar|tar",
    "all": ENDINGS,
}


class Wanted:
    """The kinds of files to download from pages. Raises BadOption."""

    def __init__(self, kinds: Iterable[str]) -> None:
        names = [kind.strip().lower() for kind in kinds if kind.strip()]
        for name in names:
            if name not in KINDS and not re.fullmatch(r"\.?[a-z0-9]{1,8}", name):
                known = ", ".join(KINDS)
                raise BadOption("--files", shorten(name), f"among {known}, or endings such as csv")
        ends = "|".join(KINDS.get(name, re.escape(name.removeprefix("."))) for name in names)
        self._ends = re.compile(rf"[^?#]*\.(?:{ends})(?:[?#]|\Z)", re.IGNORECASE)
        self._has_images = bool({"image", "all"} & set(names))

    def on(self, page: Page) -> list[str]:
        """The URLs of such files that a page links to or shows, each once."""
        if not page.is_html:
            return []
        urls = page.links()
        if self._has_images:
            shown = (node.attributes.get("src") for node in page.tree.css("img[src]"))
            urls += [page.absolute(src) for src in shown if src]
        return [url for url in dict.fromkeys(urls) if is_file(url) and self._ends.match(url)]


@dataclass(slots=True)
class _Said:
    """What rows say of pages. A job keeps it, so that its rows do not mean different things."""

    asked: Format | None
    format: Format

    async def keep(self, frontier: Frontier) -> str:
        """Take the job's own. Returns what to tell its user, if that is not the usual one."""
        wanted = self.asked or Format.TEXT
        kept = await kept_format(frontier, wanted, before=Format.RAW_TEXT)
        if kept not in [*Format]:
            raise JobNewer(frontier.job, f"its rows say {shorten(kept)!r} of pages")
        self.format = Format(kept)
        if self.format is wanted:
            return ""
        if self.asked:
            hint = "leave --format out, name another --job, start over with --fresh"
            raise JobMismatch(frontier.job, "format", stored=kept, asked=self.asked, hint=hint)
        return f"{frontier.job} keeps --format {kept}, as it began: --fresh starts over with text."


def default_spider(  # noqa: PLR0913 - by keyword
    name: str,
    seeds: Iterable[str],
    *,
    scope: Scope | None = None,
    politeness: Politeness | None = None,
    limits: Limits | None = None,
    sitemap: bool = False,
    format: Format | None = None,
    files: Iterable[str] = (),
) -> Spider:
    """Follows every link in scope, by default to pages only; `limits.max_depth=0` fetches only the
    seeds. `format`: None: that of the job; of a new one, the main text."""
    said = _Said(format, format or Format.TEXT)
    if said.format.is_extra:
        _check_library()
    spider = Spider(
        name,
        list(seeds),
        scope=scope or Scope(files=False),
        politeness=politeness or Politeness(),
        limits=limits or Limits(),
        item_per_page=True,
        sitemap=sitemap,
    )
    spider.page(_handler_of(said, Wanted(files) if files else None))
    spider.hooks.joined = said.keep
    return spider


def _check_library() -> None:
    """Say at once that it is missing."""
    try:
        library()
    except LibraryMissing as missing:
        raise LibraryMissing(f"{missing}; --format raw-text needs none") from None


def crawl(
    name: str,
    urls: list[str],
    sitemap: bool = False,
    files: str = "",
    format: str = "",
) -> Spider:
    """The spider of `skitter crawl`; each of its processes creates it from these arguments.
    `files`: kinds of files to download, with commas. `format`: empty: that of the job."""
    if format and format not in [*Format]:
        raise BadOption("format", shorten(format), f"one of {', '.join(Format)}")
    kinds = [kind for kind in files.split(",") if kind]
    known = Format(format) if format else None
    return default_spider(name, urls, sitemap=sitemap, format=known, files=kinds)


#: What of content.py says it.
_FOUND_BY: Final = {
    Format.TEXT: ("main_text",),
    Format.MARKDOWN: ("markdown",),
    Format.DATA: ("read_data", "read_language", "read_published"),
}


def _handler_of(said: _Said, wanted: Wanted | None = None) -> Handler:
    async def describe_page(page: Page) -> AsyncIterator[Item | Rejected | Request]:
        await page.find(*_FOUND_BY.get(said.format, ()))
        links = page.links(frames=True) if page.is_html else []
        row = _describe(page, said.format, links)
        files = wanted.on(page) if wanted else []
        if wanted and isinstance(row, dict):
            row["files"] = [File(url) for url in files]
        yield row
        if page.is_html:
            found = page.follow_all(frames=True)
            for link in found:
                if not files or link.url not in files:
                    yield link

    return describe_page


#: The default handler.
describe_page: Final = _handler_of(_Said(None, Format.TEXT))


def _describe(page: Page, format: Format, links: list[str]) -> Item | Rejected:
    """If the text cannot be read, the item is rejected; the links are still followed."""
    try:
        title = title_of(page) if page.is_html else None
        return _row(page, title, said_by(page, format), links)
    except Exception as error:
        known = _row(page, None, {"text": ""}, links)
        return Rejected(known, "text", f"its text could not be read: {describe(error)}")


def said_by(page: Page, format: Format) -> dict[str, Any]:
    """The fields of a row that say what is in the page."""
    if format is Format.MARKDOWN:
        return {"markdown": page.markdown()}
    if format is Format.TEXT:
        return {"text": page.main_text}
    if format is Format.DATA:
        data = page.data.as_dict()
        return {"language": page.language, "published": page.published, "data": data}
    is_text = page.is_html or page.content_type.startswith("text/")
    if format is Format.HTML:
        return {"html": page.text if is_text else ""}
    if page.is_html:
        return {"text": visible_text(page)}
    return {"text": _collapse(page.text) if is_text else ""}


def title_of(page: Page) -> str | None:
    """The first HTML title, wherever the parser put it: SVG pictures have titles too."""
    if first := page.tree.css_first("head title"):  # the usual case; a head contains no SVG
        return _collapse(first.text())
    # By selector: walking up from each of 60,000 titles nested 250 deep took 7 s.
    in_pictures = {node.mem_id for node in page.tree.css("svg title,math title")}
    titles = (node for node in page.tree.css("title") if node.mem_id not in in_pictures)
    return next((_collapse(node.text()) for node in titles), None)


def _row(page: Page, title: str | None, said: dict[str, Any], links: list[str]) -> Item:
    return {"url": page.url, "title": title, **said, "links": links, "status": page.status}


def _ids(tags: str) -> frozenset[int]:
    """To compare numbers is half the work of a selector with as many names."""
    document = LexborHTMLParser("")
    return frozenset(document.create_node(tag).tag_id for tag in tags.split())


# These do not break the text; any other element does.
_INLINE: Final = _ids(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark nobr q rp rt "
    "ruby s samp small span strike strong sub sup time tt u var wbr"
)
_HIDDEN: Final = _ids("head script style noscript template svg iframe object canvas")


def visible_text(page: Page) -> str:
    """What a reader sees: no scripts or styles; words of different blocks are kept apart."""
    tree = _own_tree(page)
    for node in reversed(tree.css("*")):  # children before what they are in
        if (tag := node.tag_id) in _INLINE:
            node.unwrap()
        elif tag in _HIDDEN:
            node.replace_with(" ")
    tree.merge_text_nodes()
    return _collapse(tree.text(separator=" "))


def _own_tree(page: Page) -> LexborHTMLParser:
    """A copy, as the page's tree is shared. Cloning takes a third of the time of parsing, but some
    documents cannot be cloned (<!DOCTYPE html SYSTEM "about:legacy-compat">)."""
    try:
        return page.tree.clone()
    except SelectolaxError:
        return parse_html(page.text)


def _collapse(text: str) -> str:
    return " ".join(text.split())
