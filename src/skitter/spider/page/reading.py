"""Readable: what a document says, for handlers: its main part, its tables and its data.

By fetch/html/content.py; of documents that are not certain to be cheap, in the helper.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from skitter.extras import install
from skitter.fetch.html.markup import TooMuch, is_cheap, read_apart, thread
from skitter.spider.page.document import Document
from skitter.spider.page.selectors import LibraryMissing, TooComplex

if TYPE_CHECKING:
    from types import ModuleType

    from skitter.fetch.html.content import Data
    from skitter.model import Response


LARGE: Final = 2**20


def library() -> ModuleType:
    """What reads pages. Raises LibraryMissing."""
    try:
        from skitter.fetch.html import content
    except ImportError:
        raise LibraryMissing(
            f"the content of pages needs one more library: {install('content')}"
        ) from None
    return content


class Readable(Document):
    """A document and what it says. What is not HTML has no data, tables or date."""

    __slots__ = ("_found",)

    def __init__(self, response: Response) -> None:
        super().__init__(response)
        self._found: dict[str, Any] = {}  # by the name of the function that found it

    @property
    def main_text(self) -> str:
        """The text without menus, banners and footers: paragraphs, headings, lists, tables and code
        are kept apart. Raises TooComplex."""
        return str(self._read("main_text")) if self.is_html else self._plain()

    def markdown(self, *, main: bool = True) -> str:
        """The same as Markdown, with absolute links. `main=False`: menus and footers, too."""
        if not self.is_html:
            return self._plain()
        return str(self._read("markdown" if main else "whole_markdown"))

    @property
    def data(self) -> Data:
        """What it embeds for programs: `page.data.first("Product")`, `page.data.opengraph`."""
        found: Data = self._read("read_data") if self.is_html else library().Data()
        return found

    def tables(self) -> list[list[dict[str, str]]]:
        """The tables that have a header: of each, the rows as dicts by the names of its columns."""
        return list(self._read("read_tables")) if self.is_html else []

    @property
    def language(self) -> str | None:
        """As declared by the page, else by its headers: `en`, `pt-br`."""
        found = self._read("read_language") if self.is_html else None
        by_header: str | None = library().language_of(self.header("content-language"))
        return found or by_header

    @property
    def published(self) -> str | None:
        """The day of publication, such as 2026-11-18, if the page declares one."""
        return self._read("read_published") if self.is_html else None

    def _plain(self) -> str:
        return self.text if self.content_type.startswith("text/") else ""

    async def find(self, *what: str) -> None:
        """Have functions of content.py look now, without holding up other pages."""
        if self.is_html and not self._is_large and not is_cheap(self.text):
            loop = asyncio.get_running_loop()
            for one in what:
                with suppress(TooComplex):  # raised again where it is asked for
                    await loop.run_in_executor(thread(), self._read, one)

    def _read(self, what: str) -> Any:
        if what not in self._found:
            try:
                self._found[what] = self._read_now(what)
            except TooComplex as error:
                self._found[what] = error
        if isinstance(self._found[what], TooComplex):
            raise self._found[what]
        return self._found[what]

    @property
    def _is_large(self) -> bool:
        """Its elements are cheap, yet what it says takes thirty times its size in memory: let the
        helper count that. Several at a time would take as much here."""
        return len(self.body) > LARGE

    def _read_now(self, what: str) -> Any:
        content = library()
        if not self._is_large and is_cheap(self.text):
            return getattr(content, what)(self.text, self.base)
        try:
            found = read_apart(what, self.text, self.base)
        except TooMuch:
            raise TooComplex(self, "its content takes too much time or memory to find") from None
        return content.Data(**found) if what == "read_data" else found
