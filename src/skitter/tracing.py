"""OpenTelemetry spans, for processes that use it; nothing for others.

Anyone who sets OpenTelemetry up (`opentelemetry-instrument skitter run ...`, or a spider's file)
has imported it by then: look for it among the loaded modules, and never import it. Libraries import
it too, so a provider must have been set as well.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from skitter.errors import SkitterError
from skitter.redact import redact

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skitter.model import Request

_NOTHING: Final = nullcontext()
#: The placeholder until a provider is set.
_NOT_SET_UP: Final = "ProxyTracerProvider"


class Spans:
    """For one worker or loader. Attribute names follow OpenTelemetry's conventions."""

    __slots__ = ("_trace", "_tracer")

    def __init__(self) -> None:
        trace = self._trace = sys.modules.get("opentelemetry.trace")
        is_set_up = trace and type(trace.get_tracer_provider()).__name__ != _NOT_SET_UP
        self._tracer: Any = trace.get_tracer("skitter") if trace and is_set_up else None

    def fetch(self, request: Request) -> AbstractContextManager[object]:
        return self._of_page("fetch", request) if self._tracer else _NOTHING

    def handle(self, request: Request) -> AbstractContextManager[object]:
        return self._of_page("handle", request) if self._tracer else _NOTHING

    def load(self, rows: int) -> AbstractContextManager[object]:
        return self._start("load", {"skitter.rows": rows}) if self._tracer else _NOTHING

    def _of_page(self, name: str, request: Request) -> AbstractContextManager[object]:
        about = {
            "http.request.method": request.method,
            "url.full": redact(request.url),
            "server.address": urlsplit(request.url).hostname or "",
            "skitter.handler": request.handler or "",
            "skitter.depth": request.depth,
        }
        return self._start(name, about)

    @contextmanager
    def _start(self, name: str, attributes: dict[str, Any]) -> Iterator[None]:
        """Other exceptions than ours say that it is too early, or time to stop: not an error."""
        with self._tracer.start_as_current_span(
            f"skitter.{name}",
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield
            except SkitterError as error:
                assert self._trace is not None
                span.record_exception(error)
                span.set_status(self._trace.StatusCode.ERROR, str(error))
                raise
