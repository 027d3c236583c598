"""A folder of Markdown files: one for each row that has a field `markdown`, named after its
URL: site/books.example/novels/dune.md.

Which file is whose is in the database before it is written: killed at any moment, the next one
writes the same files. A file of somebody else is left alone, and the row gets another name.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from sqlalchemy import Column, MetaData, Table, Text, delete, insert, select

from skitter.sinks.base import BadSink, open_on_thread
from skitter.sinks.columns import text_of
from skitter.sinks.databases.shape import NAME, OF_MYSQL
from skitter.sinks.export import BATCH, check_folder, disk_errors, locked
from skitter.sinks.registry import open_database
from skitter.sinks.rows import row_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from skitter.sinks.base import Row
    from skitter.sinks.databases.sql import SqlTable

FIELD: Final = "markdown"
#: No name may have these on some system; nor what follows in the last place.
_UNSAFE: Final = re.compile(r'[\x00-\x1f\x7f<>:"/\\|?*]|[. ]+\Z')
_PAGE: Final = re.compile(r"\.x?html?\Z", re.IGNORECASE)
_LONGEST: Final = 150  # bytes of a name
#: What YAML does not allow in a text.
_UNPRINTABLE: Final = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class Tree:
    """A folder of documents."""

    root: Path
    every_s: None = None  # it is written at the end

    @classmethod
    def of(cls, dsn: str) -> Tree:
        return cls(Path(dsn).absolute())

    def check(self) -> None:
        """Raise BadSink if no files can be written there."""
        if self.root.exists() and not self.root.is_dir():
            raise BadSink(f"{self.root} is a file: choose another name, or move it.")
        check_folder(self.root / "index.md" if self.root.exists() else self.root)

    async def add(self, database: str, *, job: str) -> int:
        """Write the documents of the job, and remove those whose rows are gone. Returns how many
        there are."""
        self.check()
        written = 0
        async with open_on_thread(partial(open_database, database, job=job)) as source:
            steps = _write(source.store, self.root)
            try:
                while (some := await source.run(next, steps, None)) is not None:
                    written += some
            finally:
                await source.run(steps.close)
        return written


def _write(table: SqlTable, root: Path) -> Generator[int]:
    """In steps, so that it can be cancelled."""
    with disk_errors(root):
        root.mkdir(exist_ok=True)
        with locked(root / ".lock") as waits:
            yield from waits
            yield from _write_all(table, root, _Names(table, root))


def _write_all(table: SqlTable, root: Path, names: _Names) -> Iterator[int]:
    has_rows, after = False, ""
    while found := table.page(after, BATCH):
        has_rows, rows = True, [row_of(result) for result in found]
        after = rows[-1].id
        rows = [row for row in rows if isinstance(row.fields.get(FIELD), str)]
        for row, path in names.of(rows):
            _put(path, _document(row), root / ".draft")
        yield len(rows)
    if has_rows and not names.used:
        raise BadSink(
            f"no row of {table.job} has a field `{FIELD}`, which the files of {root} are made of."
        )
    names.drop_others()


def _put(path: Path, body: bytes, draft: Path) -> None:
    """In one step; a file that has it stays as it is, with its time."""
    with suppress(FileNotFoundError):
        if path.read_bytes() == body:
            return
    path.parent.mkdir(parents=True, exist_ok=True)
    draft.write_bytes(body)
    draft.replace(path)


def _document(row: Row) -> bytes:
    title, at = row.fields.get("title"), text_of(row.fetched_at)
    lines = [_head(row.url), f"title: {_quoted(title)}\n" if title else "", f"time: {at}\n---\n\n"]
    return "".join([*lines, row.fields[FIELD].strip(), "\n"]).encode()


def _head(url: str) -> str:
    """How the document of that URL begins."""
    return f"---\nurl: {_quoted(url)}\n"


def _quoted(value: Any) -> str:
    """JSON is YAML, but for a few characters."""
    text = json.dumps(value if isinstance(value, str) else str(value), ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda it: f"\\u{ord(it[0]):04x}", text)


def path_of(url: str) -> str:
    """The path of a document, without its suffix: `books.example/novels/dune`."""
    parts = urlsplit(url)
    *folders, name = [unquote(one) for one in parts.path.split("/")[1:]] or [""]
    name = _PAGE.sub("", name) or "index"
    host = parts.netloc.rpartition("@")[2]
    if parts.query:
        name += f"_{unquote(parts.query)}"
    return "/".join([_safe(host), *map(_folder, folders), _safe(name)])


def _folder(name: str) -> str:
    """None is called like a document."""
    return f"{_safe(name)}_" if name.lower().endswith(".md") else _safe(name)


def _safe(name: str) -> str:
    name = name.encode(errors="replace")[:_LONGEST].decode(errors="ignore")
    return _UNSAFE.sub("_", name) or "_"


@dataclass(slots=True)
class _Names:
    """Which file is whose, as the database knows it."""

    table: SqlTable
    root: Path
    used: set[str] = field(default_factory=set)  # ids of rows
    _known: dict[str, str] = field(init=False)  # id -> path
    _taken: set[str] = field(init=False)  # paths as case-insensitive systems see them
    _paths: Table = field(init=False)

    def __post_init__(self) -> None:
        self._paths = Table(
            "_skitter_documents",
            MetaData(),
            Column("folder", NAME, primary_key=True),
            Column("job", NAME, primary_key=True),
            Column("id", NAME, primary_key=True),
            Column("path", Text, nullable=False),
            **OF_MYSQL,
        )
        paths = self._paths.c
        with self.table.transaction() as (connection, _, _):
            self._paths.create(connection, checkfirst=True)
            query = select(paths.id, paths.path).where(self._ours)
            self._known = {key: path for key, path in connection.execute(query)}
        self._taken = {path.casefold() for path in self._known.values()}

    @property
    def _ours(self) -> Any:
        paths = self._paths.c
        return (paths.folder == str(self.root)) & (paths.job == self.table.job)

    def of(self, rows: Sequence[Row]) -> list[tuple[Row, Path]]:
        """Where each of them goes, from now on."""
        new = {row.id: self._free(row) for row in rows if row.id not in self._known}
        if new:
            of: dict[str, Any] = {"folder": str(self.root), "job": self.table.job}
            with self.table.transaction() as (connection, _, _):
                entries = [{**of, "id": key, "path": path} for key, path in new.items()]
                connection.execute(insert(self._paths), entries)
        self._known |= new
        self.used |= {row.id for row in rows}
        return [(row, self.root / self._known[row.id]) for row in rows]

    def _free(self, row: Row) -> str:
        plain = path_of(row.url)
        for number in count(1):
            path = f"{plain}{f'-{number}' if number > 1 else ''}.md"
            if path.casefold() not in self._taken and self._is_free(path, row.url):
                break
        self._taken.add(path.casefold())
        return path

    def _is_free(self, path: str, url: str) -> bool:
        """Or of the same page, from another crawl."""
        head = _head(url).encode()
        try:
            with (self.root / path).open("rb") as file:
                return file.read(len(head)) == head
        except FileNotFoundError:
            return True

    def drop_others(self) -> None:
        """Remove the documents of rows that are gone, and folders that are empty then."""
        gone = {key: path for key, path in self._known.items() if key not in self.used}
        for path in gone.values():
            (self.root / path).unlink(missing_ok=True)
            with suppress(OSError):
                for folder in (self.root / path).parents:
                    if folder == self.root:
                        break
                    folder.rmdir()
        if gone:
            with self.table.transaction() as (connection, _, _):
                for key in gone:
                    connection.execute(
                        delete(self._paths).where(self._ours, self._paths.c.id == key)
                    )
