"""Where items go: a database or a file, and the loader that writes them.

    async with open_sink("books.db", job="books") as sink:
        await load(source, sink, stop=stop)

A row is identified by (job, fingerprint, index). Writing it again updates it; a loader killed at
any instruction neither loses nor duplicates a row (ledger.py says how for files).

base         What a sink guarantees; stores on their own thread; what is tried again
columns      Columns: the kinds of their values, and their names
csv          CSV with a header line: UTF-8, commas, quotes where needed, lines ending in a line feed
destination  Where the items of a job go, as named by the user
export       Rows of a store: written to a file, or read back
jsonl        JSON Lines: one row per line, in order of arrival
ledger       What is beside an output file: its ledger, its receipt, and errors of its disk
loader       From the item stream to a sink: read, transform, write, and only then acknowledge
parquet      Parquet: typed columns, in groups of rows that readers skip
postgres     PostgreSQL: `postgresql://user:password@host:port/database`
registry     Which sink a name refers to: by a suffix such as .csv, or the scheme of an address
rows         Rows: made from results, and replaced only by later visits
shape        Tables of databases: their columns, our marks, and dialects
sql          Items in a table: SQLite and PostgreSQL, through SQLAlchemy Core
sqlite       SQLite: `sqlite:///path`, or a path that ends in .db, .sqlite or .sqlite3
"""

from skitter.sinks.base import (
    BadSink,
    FileFormat,
    LoadPace,
    LoadState,
    MissingExtra,
    Retrier,
    RowsRefused,
    Sink,
    SinkAway,
    SinkBusy,
    Stopped,
    Store,
)
from skitter.sinks.destination import Destination, open_sink
from skitter.sinks.loader import ItemSource, LoadHooks, load

__all__ = [
    "BadSink",
    "Destination",
    "FileFormat",
    "ItemSource",
    "LoadHooks",
    "LoadPace",
    "LoadState",
    "MissingExtra",
    "Retrier",
    "RowsRefused",
    "Sink",
    "SinkAway",
    "SinkBusy",
    "Stopped",
    "Store",
    "load",
    "open_sink",
]
