"""Where items go: a database or a file, and the loader that brings them there.

    async with open_sink("books.db", job="books") as sink:
        await load(source, sink, stop=stop)

A row is known by (job, fingerprint, index). Writing it again updates it; killing a loader at any
instruction leads to no missing and no double row (ledger.py says how for files).
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
from skitter.sinks.loader import ItemSource, Loaded, LoadHooks, load
from skitter.sinks.patience import LoadPace, LoadState, Patience, Stopped

__all__ = [
    "BadSink",
    "Destination",
    "FileFormat",
    "ItemSource",
    "LoadHooks",
    "LoadPace",
    "LoadState",
    "Loaded",
    "MissingExtra",
    "Patience",
    "RowsRefused",
    "Sink",
    "SinkAway",
    "SinkBusy",
    "Stopped",
    "Store",
    "load",
    "open_sink",
]
