"""Stage: one step of the way of a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

if TYPE_CHECKING:
    from skitter.engine.parts import Parts
    from skitter.engine.visit import Visit

#: In the order of a visit. Just one stage fetches, one judges and one handles.
HOOKS = (
    "admit", "before", "fetch", "answered", "judge", "judged", "handle", "handled", "ended",
)  # fmt: skip
OURS = frozenset({"fetch", "judge", "handle"})


class Stage:
    """One step of the way of a page. It has only the hooks it needs, each `async`:

    - `admit(leases)`: the leases to make attempts at, of those just taken from the frontier.
    - `before(visit)`: before the request is sent, which is `visit.request`.
    - `answered(visit, response)`: a response has come.
    - `judged(visit, verdict)`: it is decided what becomes of the response.
    - `handled(visit, output)`: the handler has run.
    - `ended(visit, outcome)`: there is an outcome. After an exception, `visit.error` is it.

    All but `admit` may return an outcome (`visit.completed()`, `visit.ended(verdict)`) to end the
    visit there, or raise a SkitterError. For each hook, stages come in the order of their list.
    """

    needs: ClassVar[str] = ""  # what turns it on, for people; empty: it is always on

    def __init__(self, parts: Parts) -> None:
        self.parts = parts

    @classmethod
    def bind(cls, parts: Parts) -> Self | None:
        """The stage of a worker that starts; None: it is off there."""
        return cls(parts)

    def tell(self, visit: Visit) -> str:
        """What it did for a visit that has ended, in plain words, for `skitter fetch --stages`."""
        return ""
