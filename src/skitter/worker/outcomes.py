"""How an attempt ended: done, to be tried again, dead, or too early."""

from __future__ import annotations

import msgspec

from skitter.model import Completion, Failure, Lease
from skitter.spider.run import HandlerOutput


class Completed(msgspec.Struct, frozen=True):
    """The page is done. Without `output` its handler did not run: it is a redirect, whose target is
    the one link, or `skipped` says why."""

    completion: Completion
    output: HandlerOutput | None = None
    skipped: str = ""


class Retried(msgspec.Struct, frozen=True):
    """It is tried again later."""

    failure: Failure
    blocked: bool = False  # a block page was in its place


class Buried(msgspec.Struct, frozen=True):
    """It is a dead letter."""

    failure: Failure


class Returned(msgspec.Struct, frozen=True):
    """Its turn has not come yet: it goes back as it was."""

    lease: Lease


Outcome = Completed | Retried | Buried | Returned
