"""How an attempt ended: completed, retried, buried, or returned."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from skitter.errors import SkitterError
from skitter.model import Completion, Failure, Lease, Response
from skitter.spider.run import HandlerOutput

#: How long a page waits while no name can be looked up.
WAIT_S = 5.0


class Cause(msgspec.Struct, frozen=True):
    """What on_error hooks are told of a failed attempt."""

    error: SkitterError
    response: Response | None = None


class Completed(msgspec.Struct, frozen=True):
    """The page is done. Without `output` its handler did not run: the page is a redirect, with its
    target as the only link, or `skipped` says why."""

    completion: Completion
    output: HandlerOutput | None = None
    skipped: str = ""
    record: Any = None  # skitter.archive.record.Record: the response to keep


class Retried(msgspec.Struct, frozen=True):
    """The request is retried later."""

    failure: Failure
    blocked: bool = False  # by a block page
    handler: str = ""  # that failed
    cause: Cause | None = None  # None: no hook wants to know


class Buried(msgspec.Struct, frozen=True):
    """The request becomes a dead letter."""

    failure: Failure
    handler: str = ""
    cause: Cause | None = None


class Returned(msgspec.Struct, frozen=True):
    """Its turn has not come yet: the request goes back unchanged."""

    lease: Lease
    waits: bool = False  # for WAIT_S


Outcome = Completed | Retried | Buried | Returned
OUTCOMES: Final = (Completed, Retried, Buried, Returned)  # faster to check


class Again(msgspec.Struct, frozen=True):
    """No outcome yet: the visit has another request to send."""


AGAIN: Final = Again()


def lease_of(outcome: Outcome) -> Lease:
    if isinstance(outcome, Completed):
        return outcome.completion.lease
    return outcome.lease if isinstance(outcome, Returned) else outcome.failure.lease
