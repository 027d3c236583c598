"""Rows posted to a program of the user: `https://you.example/rows`, in signed batches.

It stores a batch before it answers 2xx. A batch may come again, after a lost answer for instance,
cut otherwise: a row is known by its `_id`, and the one with the latest `_fetched_at` counts.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import time
from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from skitter.errors import shorten
from skitter.redact import redact
from skitter.sinks.base import BadSink, RowsRefused, SinkAway
from skitter.sinks.rows import rows_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skitter.model import Result
    from skitter.sinks.base import Row

SECRET: Final = "SKITTER_OUT_SECRET"
TIMEOUT_S: Final = 30.0
BATCH_BYTES: Final = 4 * 2**20
#: Answers that are about what is in the rows; all others are taken for a passing trouble.
_TOO_LARGE, _REFUSED = 413, 422
_SAID_BYTES: Final = 200


def signature(secret: str, at: int, body: bytes) -> str:
    """`t=seconds,v1=HMAC-SHA256 of "seconds.body"`: an old message cannot be replayed."""
    digest = hmac.new(secret.encode(), b"%d.%b" % (at, body), hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"


class Receiver:
    """A URL that takes rows."""

    def __init__(self, dsn: str, *, job: str) -> None:
        self.description = redact(dsn)
        self._job, self._secret = job, os.environ.get(SECRET, "")
        parts = urlsplit(dsn)
        if parts.username is not None or not parts.hostname:
            raise BadSink(
                f"{self.description} is no address for rows: write https://host/path, without a "
                "password. The signature says who sends them."
            )
        if not self._secret:
            raise BadSink(
                f"rows for {self.description} are signed: set the variable {SECRET} to a secret "
                "that both sides know."
            )
        self._scheme, self._host = parts.scheme.lower(), parts.netloc
        self._path = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"

    def write(self, results: Sequence[Result]) -> None:
        refused: list[tuple[Result, str]] = []
        for some in _batches(rows_of(results)):
            refused += self._send(some)
        if refused:
            raise RowsRefused(refused)

    def close(self) -> None:
        """There is nothing to close: each batch has a connection of its own."""

    def _send(self, rows: Sequence[Row]) -> list[tuple[Result, str]]:
        """Returns those that are refused: they are found by halves."""
        body = b"[" + b",\n".join(row.line for row in rows) + b"]"
        status, said = self._post(body)
        if 200 <= status < 300:
            return []
        why = f"it answers {status}{f': {said}' if said else ''}"
        if status not in (_TOO_LARGE, _REFUSED):
            raise SinkAway(f"{self.description} does not take rows: {why}")
        if len(rows) == 1:
            return [(rows[0].result, why)]
        half = len(rows) // 2
        return self._send(rows[:half]) + self._send(rows[half:])

    def _post(self, body: bytes) -> tuple[int, str]:
        headers = {
            "content-type": "application/json",
            "skitter-job": self._job,
            "skitter-signature": signature(self._secret, int(time.time()), body),
            "connection": "close",
        }
        kind = HTTPConnection if self._scheme == "http" else HTTPSConnection
        try:
            with closing(kind(self._host, timeout=TIMEOUT_S)) as connection:
                connection.request("POST", self._path, body, headers)
                answer = connection.getresponse()
                said = answer.read(_SAID_BYTES).decode(errors="replace")
                return answer.status, shorten(" ".join(said.split()))
        except (OSError, HTTPException, ValueError) as error:
            why = str(error) or type(error).__name__
            raise SinkAway(f"{self.description} cannot be reached: {why}") from error


def _batches(rows: Sequence[Row]) -> list[list[Row]]:
    found: list[list[Row]] = []
    size = BATCH_BYTES
    for row in rows:
        size += len(row.json)
        if size > BATCH_BYTES:
            found.append([])
            size = len(row.json)
        found[-1].append(row)
    return found
