"""Rows for a program of the user, which answers over HTTP."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from sinks.making import JOB, result, results, write
from skitter.sinks import BadSink, RowsRefused, SinkAway
from skitter.sinks.receiver import SECRET
from skitter.sinks.registry import place_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass
class Program:
    """Stores rows by their ids, as its user would."""

    url: str = ""
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    sizes: list[int] = field(default_factory=list)
    judge: Callable[[list[dict[str, Any]]], int] = lambda _: 204


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Iterator[Program]:
    monkeypatch.setenv(SECRET, "s3cret")
    found = Program()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            at, said = self.headers["skitter-signature"].removeprefix("t=").split(",v1=")
            own = hmac.new(b"s3cret", f"{at}.".encode() + body, hashlib.sha256).hexdigest()
            assert (own, self.headers["skitter-job"]) == (said, JOB)
            rows = json.loads(body)
            found.sizes.append(len(rows))
            status = found.judge(rows)
            if status == 204:
                found.rows |= {row["_id"]: row for row in rows}
            self.send_response(status)
            self.end_headers()
            if status != 204:
                self.wfile.write(b"no, thanks")

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    found.url = f"http://127.0.0.1:{server.server_port}/rows?of=books"
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


def numbers(program: Program) -> list[int]:
    return sorted(row["n"] for row in program.rows.values())


def test_rows_come_in_signed_batches(program: Program, monkeypatch: pytest.MonkeyPatch):
    write(program.url, results([{"n": n} for n in range(5)]))
    assert (numbers(program), program.sizes) == ([0, 1, 2, 3, 4], [5])
    row = program.rows[f"{3:016x}-0"]
    assert row.keys() == {"_id", "_url", "_fetched_at", "n"}
    monkeypatch.setattr("skitter.sinks.receiver.BATCH_BYTES", 100)
    write(program.url, results([{"n": n, "text": "x" * 60} for n in range(3)]))
    assert program.sizes == [5, 1, 1, 1]


@pytest.mark.parametrize("status", [301, 400, 401, 404, 500, 503])
def test_any_trouble_but_one_with_a_row_means_later(program: Program, status: int):
    program.judge = lambda _: status
    with pytest.raises(SinkAway, match=f"it answers {status}: no, thanks"):
        write(program.url, results([{"n": 1}]))
    program.judge = lambda _: 204
    write(program.url, results([{"n": 1}]))
    assert numbers(program) == [1]


def test_a_program_that_is_away_is_away():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SECRET, "x")
        with pytest.raises(SinkAway, match="cannot be reached"):
            write("http://127.0.0.1:9/rows", [result(1, {})])


def test_rows_that_it_refuses_are_named_and_the_others_are_there(program: Program):
    program.judge = lambda rows: 422 if any(row["n"] in (2, 5) for row in rows) else 204
    with pytest.raises(RowsRefused) as caught:
        write(program.url, results([{"n": n} for n in range(8)]))
    assert [one.item["n"] for one, _ in caught.value.refused] == [2, 5]
    assert caught.value.refused[0][1] == "it answers 422: no, thanks"
    assert numbers(program) == [0, 1, 3, 4, 6, 7]


def test_what_is_not_set_is_said(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(SECRET, raising=False)
    with pytest.raises(BadSink, match=f"set the variable {SECRET}"):
        write("https://you.example/rows", [])
    with pytest.raises(BadSink, match="without a password") as caught:
        write("https://me:hunter2@you.example/rows", [])
    assert "hunter2" not in str(caught.value)


def test_a_query_is_part_of_the_place():
    assert place_of("https://you.example/rows?of=a") != place_of("https://you.example/rows?of=b")
