"""Where items go: a database or a file, and the loader that writes them.

    async with open_sink("books.db", job="books") as sink:
        await load(source, sink, stop=stop)

A row is identified by (job, fingerprint, index). Writing it again updates it; a loader killed at
any instruction neither loses nor duplicates a row (files/ledger.py says how for files).

base         What a sink guarantees; stores on their own thread; what is tried again
columns      Columns: their names, and the kinds of their values
comparison   What a later visit found different in a row, and what does not count as different
databases/   Items in tables of databases
destination  Where the items of a job go, as named by the user
export       Rows of a store: written to a file, or read back
files/       Items in files: added to line by line, or written whole from a store
loader       From the item stream to a sink: read, transform, write, and only then acknowledge
objects      Folders of parts, in an object store or on a disk: s3://, gs://, az:// and file:///
receiver     Rows posted to a program of the user: `https://you.example/rows`, in signed batches
registry     Which sink a name refers to: by a suffix such as .csv, or the scheme of an address
rows         Rows: made from results, and replaced only by later visits
selection    Some rows and columns of a table, for an export
tree         A folder of Markdown files: one for each row that has a field `markdown`
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
from skitter.sinks.destination import Destination, main_first, open_sink
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
    "main_first",
    "open_sink",
]
