"""Publishing to Celery's broker, which may go down meanwhile: messages, and events for Flower."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from kombu.exceptions import OperationalError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skitter.celery.runtime import Runtime


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


class Silent:
    """As `event_dispatcher`: nobody hears that the message was sent."""

    def publish(self, *_: object, **__: object) -> None:
        pass


#: For our housekeeping, which would fill Flower.
SILENTLY = {"event_dispatcher": Silent()}


def tell(runtime: Runtime, kind: str, id: str, /, **fields: Any) -> None:
    """Send an event about a task, as Celery does, if somebody listens. One that is lost costs a
    line in Flower."""
    if not runtime.sends_events:
        return
    sender = runtime.app.events.default_dispatcher(hostname=runtime.machine)
    with suppress(OperationalError, OSError), publishing(), sender as dispatcher:
        dispatcher.send(kind, uuid=id, **fields)
