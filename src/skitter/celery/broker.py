"""Publishing to Celery's broker, which may go down meanwhile."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from kombu.exceptions import OperationalError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def publishing() -> Iterator[None]:
    """Raises OperationalError if the broker is down, also where kombu fails on a channel that just
    lost its connection with `'NoneType' object has no attribute 'client'`."""
    try:
        yield
    except AttributeError as error:
        if error.name is None or error.obj is not None:
            raise
        raise OperationalError(f"the connection was lost ({error})") from error
