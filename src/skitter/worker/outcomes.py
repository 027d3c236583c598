"""How an attempt ended: completed, retried, buried, or returned."""

from __future__ import annotations

import msgspec

from skitter.model import Completion, Failure, Lease
from skitter.spider.run import HandlerOutput


class Completed(msgspec.Struct, frozen=True):
    """The page is done. Without `output` its handler did not run: the page is a redirect, with its
    target as the only link, or `skipped` says why."""

    completion: Completion
    output: HandlerOutput | None = None
    skipped: str = ""


class Retried(msgspec.Struct, frozen=True):
    """The request is retried later."""

    failure: Failure
    blocked: bool = False  # by a block page


class Buried(msgspec.Struct, frozen=True):
    """The request becomes a dead letter."""

    failure: Failure


class Returned(msgspec.Struct, frozen=True):
    """Its turn has not come yet: the request goes back unchanged."""

    lease: Lease


Outcome = Completed | Retried | Buried | Returned
