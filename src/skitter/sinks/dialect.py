"""What differs between the databases that sql.py writes to."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

from sqlalchemy import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection, Engine, Table
    from sqlalchemy.exc import DBAPIError, SQLAlchemyError
    from sqlalchemy.types import TypeEngine

    from skitter.sinks.base import Row
    from skitter.sinks.kinds import Kind
    from skitter.sinks.shape import FieldColumn

#: The values of a row, in the order of its columns.
Values: TypeAlias = tuple[Any, ...]


class FailureKind(Enum):
    """What a database error means for a batch."""

    AWAY = auto()  # may succeed later
    MOVED = auto()  # the table has changed: look again
    ROW = auto()  # one of the rows can never be stored
    ALIEN = auto()  # not one of our databases
    BUG = auto()


class Dialect(Protocol):
    """What differs between databases, with defaults for the common case."""

    name: str
    away: str  # what to say when it accepts no rows
    types: ClassVar[dict[Kind, TypeEngine[Any]]]
    wire: ClassVar[dict[Kind, Callable[[Any], Any]]]  # converts kinds before they are sent
    rows_of_pages: ClassVar[str]  # a query; `pages` is a JSON list
    row_id: ClassVar[str] = "_id"  # as it compares byte by byte
    id_type: ClassVar[TypeEngine[Any]] = Text()

    def open(self) -> Engine: ...

    def require(self) -> None:
        """Raise BadSink if there is nothing to read from."""
        return None

    def refresh(self, engine: Engine) -> None:
        """Drop a connection that is no longer valid."""
        return None

    def clean(self, row: Row) -> Row:
        """The row, without what the database cannot hold."""
        return row

    def insert_into(self, table: Table) -> Any:
        """The database's own multi-row INSERT, which supports ON CONFLICT."""

    def send(
        self, connection: Connection, upsert: str, names: Sequence[str], rows: list[Values]
    ) -> None:
        """Run the statement for these rows."""

    def begin_write(self, connection: Connection, table: str, *, alone: bool) -> None:
        """Freeze the table's shape until the transaction ends. `alone`: nobody else writes it."""
        return None

    def begin_change(self, connection: Connection, table: str) -> None:
        """Keep others from changing the shape until the transaction ends."""
        return None

    def index_pages(self, connection: Connection, table: str) -> None:
        """Index a table of an earlier release, to find the rows of a page."""
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
