"""Every error as problem+json (RFC 9457)."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any

import msgspec

from skitter import errors

#: The first matching class decides.
STATUS: tuple[tuple[type[errors.SkitterError], int], ...] = (
    (errors.JobMissing, 404),
    (errors.RunMissing, 404),
    (errors.TooBig, 413),
    (errors.NotAllowed, 403),
    (errors.JobExists, 409),
    (errors.JobMismatch, 409),
    (errors.ItemsElsewhere, 409),
    (errors.UsageError, 400),
    (errors.QueueFull, 429),
    (errors.QuotaReached, 429),
    (errors.JobRemoved, 404),
    (errors.FrontierError, 409),
    (errors.ServerFull, 429),
    (errors.InfrastructureError, 503),
    (errors.SkitterError, 500),
)
RETRY_AFTER_S = 2
MEDIA = "application/problem+json"


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is wrong, and what to do next."""

    type: str
    title: str
    status: int
    detail: str = ""
    field: str = ""  # which part of the input
    hint: str = ""


class Refusal(Exception):
    """A call refused by the HTTP server, not by the frontier."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        field: str = "",
        hint: str = "",
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.field, self.hint = status, detail, field, hint
        self.retry_after_s = retry_after_s


#: What those who ask over HTTP hear of the machines behind: addresses, folders and reasons are in
#: the log of `skitter serve`.
AWAY: tuple[tuple[type[errors.SkitterError], str], ...] = (
    (errors.DiskFull, "the disk of Redis is full"),
    (errors.ServerUnreachable, "Redis does not answer"),
    (errors.ServerStopped, "Redis was stopped"),
    (errors.ServerRefused, "Redis refuses this server's login, or a command"),
    (errors.NoRoomForFiles, "files cannot be written"),
)


def public(error: errors.SkitterError) -> str:
    """The text of an error, without the names of other jobs, addresses and folders."""
    if isinstance(error, errors.JobMissing):
        return str(errors.JobMissing(error.job, []))
    if isinstance(error, errors.ServerFull):
        full = errors.ServerFull("Redis")
        full.added = error.added
        return str(full)
    if isinstance(error, errors.JobDamaged) or not isinstance(error, errors.InfrastructureError):
        return str(error)
    says = next((says for kind, says in AWAY if isinstance(error, kind)), "something is missing")
    return f"{says}: the log of `skitter serve` says more."


def problem_of(error: Exception) -> Problem:
    """What the client sees of an error."""
    if isinstance(error, Refusal):
        title = HTTPStatus(error.status).phrase
        return Problem(
            type=_type(title.replace(" ", "")),
            title=title,
            status=error.status,
            detail=error.detail,
            field=error.field,
            hint=error.hint,
        )
    if isinstance(error, errors.SkitterError):
        status = next(status for kind, status in STATUS if isinstance(error, kind))
        title = (type(error).__doc__ or "").partition("\n")[0]
        name = type(error).__name__
        return Problem(
            type=_type(name), title=title, status=status, detail=public(error), field=_field(error)
        )
    return Problem(
        type=_type("InternalError"),
        title="Internal error",
        status=500,
        detail="this is a bug in Skitter: its server's log has the details.",
    )


def retry_after_s(error: Exception) -> int | None:
    """Seconds until a retry may succeed; None: it will not."""
    if isinstance(error, Refusal):
        return error.retry_after_s
    return RETRY_AFTER_S if isinstance(error, errors.SkitterError) and error.retryable else None


def bad_input(error: msgspec.MsgspecError, key: str = "") -> Refusal:
    """Split msgspec's error into message and field; `key` replaces its `[...]`."""
    text, _, place = str(error).partition(" - at `$")
    if not isinstance(error, msgspec.ValidationError):
        return Refusal(400, f"the body is not JSON: {text}.")
    unknown = re.search(r"field `([^`]*)`", text)
    if place.startswith("[...]"):
        place = key + place.removeprefix("[...]")
    field = place.rstrip("`").lstrip(".") or (unknown[1] if unknown else "")
    return Refusal(422, f"{text}.", field=field)


def _type(name: str) -> str:
    return "urn:skitter:" + re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()


def _field(error: Any) -> str:
    if isinstance(error, errors.BadOption):
        return error.option
    if isinstance(error, errors.BadURL):
        return "url"
    return "job" if isinstance(error, errors.BadJobName | errors.JobMissing) else ""
