"""What differs between the databases that hold items, for sql.py."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection, Engine, Table
    from sqlalchemy.exc import DBAPIError, SQLAlchemyError
    from sqlalchemy.types import TypeEngine

    from skitter.sinks.base import Row
    from skitter.sinks.kinds import Kind
    from skitter.sinks.shape import FieldColumn

#: A row, by its columns.
Values: TypeAlias = tuple[Any, ...]


class FailureKind(Enum):
    """What an error of the database means for a batch."""

    AWAY = auto()  # later, perhaps
    MOVED = auto()  # the table is not what it was: look again
    ROW = auto()  # one of the rows cannot be stored, ever
    ALIEN = auto()  # this is no database of ours
    BUG = auto()


class Dialect(Protocol):
    """What differs between databases; what does not is the default."""

    name: str
    away: str  # what it is when it takes nothing now
    types: ClassVar[dict[Kind, TypeEngine[Any]]]
    wire: ClassVar[dict[Kind, Callable[[Any], Any]]]  # of kinds whose values are sent otherwise

    def open(self) -> Engine: ...

    def require(self) -> None:
        """BadSink if there is nothing to read from."""
        return None

    def refresh(self, engine: Engine) -> None:
        """Let go of a connection that leads nowhere."""
        return None

    def clean(self, row: Row) -> Row:
        """The row, without what the database cannot hold."""
        return row

    def insert_into(self, table: Table) -> Any:
        """The database's own INSERT, which knows ON CONFLICT, of as many rows as there are."""

    def send(
        self, connection: Connection, upsert: str, names: Sequence[str], rows: list[Values]
    ) -> None:
        """Run it for these rows."""

    def begin_write(self, connection: Connection, table: str) -> None:
        """From here the table keeps its shape until the transaction ends."""
        return None

    def begin_change(self, connection: Connection, table: str) -> None:
        """From here nobody else changes the shape."""
        return None

    def add_columns(
        self, connection: Connection, table: str, columns: Sequence[FieldColumn]
    ) -> None: ...

    def widen_column(
        self, connection: Connection, table: str, column: FieldColumn, old: Kind
    ) -> None: ...

    def judge(self, error: DBAPIError) -> FailureKind: ...

    def explain(self, error: SQLAlchemyError) -> str:
        """The reason in one line, without the statement and its values."""
