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
    """One step of the way of a page. It has only the hooks that it needs, each `async`:

        admit(leases)               which of the leases just taken to make attempts at
        before(visit)               before `visit.request` is sent
        answered(visit, response)   a response has come
        judged(visit, verdict)      it is decided what becomes of the response
        handled(visit, output)      the handler has run
        ended(visit, outcome)       the outcome is known; `visit.error` is what went wrong, if any

    All but `admit` may return an outcome, which ends the visit; `ended` replaces it. They may raise
    a SkitterError, which fails the page. For each hook, stages come in the order of their list.
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
