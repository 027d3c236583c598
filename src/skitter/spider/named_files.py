"""Files that pages name: downloaded in a lane of their own, and linked to the rows that name them.

yield {"title": "Dune", "cover": File("cover.jpg")}
yield page.download("dune.pdf", field="pdf")
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from skitter.model import FILE_KEYS, TYPE, Request

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: The handler's name, which no function can have.
FILE: Final = "skitter.file"
#: `Request.unique`: a file is told apart from a page of its URL, which may be crawled, too.
APART: Final = "file"
#: The item type of what is known about a downloaded file.
FILE_TYPE: Final = "file"
#: Key of `Request.meta`: the field of the page's items that names the file.
FIELD: Final = "_field"


@dataclass(frozen=True, slots=True)
class File:
    """A file to download, anywhere in an item. Only the URL is yours to set; the rest is filled in
    when the file is there."""

    url: str  # may be relative to the page
    path: str | None = None  # where it is
    size: int | None = None  # bytes
    type: str | None = None  # such as application/pdf
    sha256: str | None = None  # of the content


def no_handler(page: object) -> None:
    """Of a file: the worker has streamed it to disk, and knows all that there is to say."""


def file_request(
    url: str, *, parent: str, asked: Request, meta: dict[str, Any] | None = None
) -> Request:
    """A request for a file of the page that was asked for."""
    return Request(
        url=url, handler=FILE, lane="file", unique=APART, session=asked.session,
        depth=asked.depth, parent=parent, meta=meta or {},
    )  # fmt: skip


def as_yielded(items: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Items without what is known of their files but the URL: a replay downloads nothing."""
    for item in items:
        if not (item.get(TYPE) == FILE_TYPE and item.keys() >= FILE_KEYS):
            yield {name: _named(value) for name, value in item.items()}


def _named(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_named(each) for each in value]
    if not isinstance(value, dict):
        return value
    return value["url"] if value.keys() == FILE_KEYS else {k: _named(v) for k, v in value.items()}


def with_fields(item: dict[str, Any], urls: dict[str, list[str]]) -> dict[str, Any]:
    """The item with the files that the page downloads into fields of its items. A field that has a
    value keeps it; a list, as a declared type has, gets them."""
    found = {field: [asdict(File(url)) for url in several] for field, several in urls.items()}
    filled = dict(item)
    for field, several in found.items():
        known = item.get(field)
        if isinstance(known, list):
            filled[field] = known + several
        elif known is None:
            filled[field] = several if len(several) > 1 else several[0]
    return filled
