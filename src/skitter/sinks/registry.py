"""Which sink a name refers to: by a suffix such as .csv, or the scheme of an address.

Packages add their own with an entry point in the group `skitter.sinks` (docs/howto/sinks.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Final

from skitter.errors import shorten
from skitter.redact import MASK, redact
from skitter.sinks.base import BadSink, FileFormat, Folder, Store

GROUP: Final = "skitter.sinks"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkType:
    """One kind of sink. Its parts are named as `module:attribute` and imported on first use:
    SQLAlchemy and pyarrow are slow to import."""

    names: tuple[str, ...]  # suffixes with the dot, schemes without the colon
    example: str
    what: str
    live: str = ""  # a Store, which takes rows as they come
    whole: str = ""  # a FileFormat, for a file written from a database
    folder: str = ""  # a Folder, to which the rows of a database are added
    is_database: bool = False  # a Store that can also be read


TYPES: Final = (
    SinkType(
        names=(".db", ".sqlite", ".sqlite3", "sqlite"),
        example="sqlite:///items.db, items.db, items.sqlite",
        what="a SQLite file",
        live="skitter.sinks.databases.sqlite:open_sqlite",
        is_database=True,
    ),
    SinkType(
        names=("postgresql", "postgres"),
        example="postgresql://USER:PASSWORD@host/database",
        what="a PostgreSQL database",
        live="skitter.sinks.databases.postgres:open_postgres",
        is_database=True,
    ),
    SinkType(
        names=("mysql", "mariadb"),
        example="mysql://USER:PASSWORD@host/database",
        what="a MariaDB or MySQL database",
        live="skitter.sinks.databases.mysql:open_mysql",
        is_database=True,
    ),
    SinkType(
        names=(".jsonl",),
        example="items.jsonl",
        what="JSON Lines",
        live="skitter.sinks.files.jsonl:JsonlFile",
        whole="skitter.sinks.files.jsonl:JsonlFormat",
    ),
    SinkType(
        names=("changes",),
        example="changes:news.jsonl",
        what="what later visits changed (--only-changes), as JSON Lines",
        whole="skitter.sinks.files.jsonl:JsonlFile",
    ),
    SinkType(
        names=(".csv",),
        example="items.csv",
        what="CSV, written at the end",
        whole="skitter.sinks.files.csv:CsvFormat",
    ),
    SinkType(
        names=(".json",),
        example="items.json",
        what="JSON: one array, written at the end",
        whole="skitter.sinks.files.json:JsonFormat",
    ),
    SinkType(
        names=(".xlsx",),
        example="items.xlsx",
        what="Excel, written at the end",
        whole="skitter.sinks.files.xlsx:XlsxFormat",
    ),
    SinkType(
        names=(".parquet",),
        example="items.parquet",
        what="Parquet, written at the end",
        whole="skitter.sinks.files.parquet:ParquetFormat",
    ),
    SinkType(
        names=("s3", "gs", "az", "file"),
        example="s3://bucket/folder/, gs://..., az://..., file:///folder/",
        what="a folder of Parquet parts, added to at the end",
        folder="skitter.sinks.objects:Folder",
    ),
    SinkType(
        names=("https", "http"),
        example="https://host/path",
        what="a program of yours, which gets rows in signed batches",
        live="skitter.sinks.receiver:Receiver",
    ),
    SinkType(
        names=("/",),
        example="site/",
        what="a folder of Markdown files, one for each page (--format markdown)",
        folder="skitter.sinks.tree:Tree",
    ),
)
_OURS: Final = {name: kind for kind in TYPES for name in kind.names}

#: For `--help`: the kinds of files that can be named.
OUT_FILES: Final = ", ".join(kind.names[0] for kind in TYPES if kind.names[0][0] == ".")
COPY_FILES: Final = ", ".join(
    kind.names[0] for kind in TYPES if kind.whole and kind.names[0][0] == "."
)


def find_type(dsn: str) -> SinkType:
    """The kind of sink that the user named, ours first. BadSink lists the names that work."""
    name = _name_of(dsn)
    if name in _OURS:
        return _OURS[name]  # looking for entry points reads every installed package
    for point in entry_points(group=GROUP):
        if point.name.lower() == name:
            return _type_of(point)
    raise BadSink(
        f"{shorten(redact(dsn))!r} is not a known kind of output. Use one of:\n{_forms()}"
    )


def open_store(dsn: str, *, job: str, table: str | None = None) -> Store:
    """The sink for a job's items, chosen by the form of its name."""
    kind = find_type(dsn)
    if not kind.live:
        raise BadSink(f"items cannot be added to {redact(dsn)}: export it from a database.")
    if not kind.is_database:
        if table is not None:
            raise BadSink("only databases have tables: leave the table out.")
        live: Store = load(kind.live)(dsn, job=job)
        return live
    database = open_database(dsn, job=job, table=table)
    try:
        database.create()
    except BaseException:
        database.close()
        raise
    created: Store = database
    return created


def open_database(dsn: str, *, job: str, table: str | None = None) -> Any:
    """A SqlTable, whose table may not exist."""
    kind = find_type(dsn)
    if not kind.is_database:
        raise BadSink("only a database can be exported; a file of items can be copied as it is.")
    return load(kind.live)(dsn, job=job, table=table)


def place_of(dsn: str) -> str:
    """A sink's identity: a file's absolute path, or an address without login and options."""
    if is_local(dsn):
        return str(Path(dsn.removeprefix("sqlite:///")).absolute())
    rest = redact(dsn).partition("://")[2].removeprefix(f"{MASK}@")
    scheme = find_type(dsn).names[0]
    if scheme != "https":  # where a query is part of the place
        rest = rest.partition("?")[0]
    usual = {"postgresql": ":5432/", "mysql": ":3306/"}.get(scheme)
    return f"{scheme}://{rest.replace(usual, '/') if usual else rest}"


def is_local(dsn: str) -> bool:
    """Whether it is a file rather than a server."""
    return dsn.startswith("sqlite:") or "://" not in dsn


def is_database(dsn: str) -> bool:
    """Whether `skitter export` can read it."""
    name = _name_of(dsn)
    return name in _OURS and _OURS[name].is_database


def folder_of(dsn: str) -> Folder | None:
    """The folder that the rows of a database are added to; None: it is none. Or BadSink."""
    kind = find_type(dsn)
    return load(kind.folder).of(dsn) if kind.folder else None


def load(target: str) -> Any:
    """Import what `module:attribute` names."""
    return EntryPoint("", target, GROUP).load()


def _name_of(dsn: str) -> str:
    if dsn.endswith("/") and "://" not in dsn:
        return "/"
    if "://" in dsn or dsn.startswith(("sqlite:", "changes:")):
        return dsn.partition(":")[0].lower()
    return Path(dsn).suffix.lower()


def _type_of(point: EntryPoint) -> SinkType:
    """A type provided by an installed package."""
    name, loaded = point.name.lower(), point.load()
    is_whole = isinstance(loaded, type) and issubclass(loaded, FileFormat)
    return SinkType(
        names=(name,),
        example=f"items{name}" if name.startswith(".") else f"{name}://...",
        what=f"from the package {point.dist.name}" if point.dist else point.value,
        live="" if is_whole else point.value,
        whole=point.value if is_whole else "",
    )


def _forms() -> str:
    shown = [*TYPES, *map(_type_of, entry_points(group=GROUP))]
    width = max(len(kind.example) for kind in shown)
    return "\n".join(f"  {kind.example:<{width}}   {kind.what}" for kind in shown)
