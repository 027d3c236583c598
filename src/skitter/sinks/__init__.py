"""Where items go: a database or a file, and the loader that writes them.

    async with open_sink("books.db", job="books") as sink:
        await load(source, sink, stop=stop)

A row is identified by (job, fingerprint, index). Writing it again updates it; a loader killed at
any instruction neither loses nor duplicates a row (ledger.py says how for files).
"""

from skitter.sinks.base import (
    BadSink,
    FileFormat,
    MissingExtra,
    RowsRefused,
    Sink,
    SinkAway,
    SinkBusy,
    Store,
)
from skitter.sinks.destination import Destination, open_sink
from skitter.sinks.loader import ItemSource, LoadHooks, load
from skitter.sinks.retrier import LoadPace, LoadState, Retrier, Stopped

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
