"""Encode values for the scripts, decode their replies, and send batches to shards."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from skitter.errors import JobNewer, shorten
from skitter.frontier.transport.sync import has_loop
from skitter.model import Feedback, Lease, Pace, Request, State
from skitter.redact import redact_text

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterable,
        AsyncIterator,
        Awaitable,
        Callable,
        Coroutine,
        Iterable,
        Sequence,
    )

MAX_ERROR_CHARS = 2000
#: What encoding raises for objects, integers over 64 bits, lone surrogates and cycles.
NOT_PLAIN = (TypeError, ValueError, OverflowError, RecursionError)

T = TypeVar("T")

encode = msgspec.msgpack.Encoder().encode
NO_FEEDBACK = encode(Feedback())


class _Tally(msgspec.Struct):
    """What a lease needs of the trouble that a request had."""

    failures: int = 0
    losses: int = 0


def _decoder(kind: type[T]) -> Callable[[bytes], T]:
    """Raises ValueError for anything else, however deeply it is nested."""
    read = msgspec.msgpack.Decoder(kind).decode

    def decode_it(packed: bytes) -> T:
        try:
            return read(packed)
        except RecursionError:
            raise ValueError("it is nested too deeply") from None

    return decode_it


decode: Callable[[bytes], Any] = _decoder(Any)
decode_request = _decoder(Request)
_decode_tally = _decoder(_Tally)


def _open_tally(trouble: bytes) -> _Tally:
    try:
        return _decode_tally(trouble) if trouble else _Tally()
    except ValueError:
        return _Tally()


#: The first key of a request that says when it was added, and the type of what follows: seconds, in
#: four bytes. Requests have no such field, so that releases which do not know of it skip it.
_ADDED: Final = b"\xa5added\xce"
#: As msgspec begins a struct that omits fields: a map, and its size in two bytes.
_MAP: Final = b"\xde"


def stamped(body: bytes, at_s: float) -> bytes:
    """A request as msgpack, with the time at which it was added."""
    if body[:1] != _MAP:
        return body
    size = int.from_bytes(body[1:3]) + 1
    return _MAP + size.to_bytes(2) + _ADDED + int(at_s).to_bytes(4) + body[3:]


def added_at(record: bytes) -> float | None:
    """When the request of a record was added; None: it does not say."""
    body = record.split(b" ", 2)[-1]
    return float(int.from_bytes(body[10:14])) if body[3:10] == _ADDED else None


def open_record(record: bytes) -> tuple[int, str, Request]:
    """`priority host body`, as lua/lib/record.lua writes it."""
    priority, host, body = record.split(b" ", 2)
    return int(priority), host.decode(), decode_request(body)


def without_lane(name: str) -> str:
    """The host, without the suffix that lua/lib/lane.lua adds."""
    return name.removesuffix("|browser").removesuffix("|file")


def open_paces(pace: bytes, leases: int, *, since: float) -> list[Pace | None]:
    """Parse what lua/lib/leasing.lua writes."""
    if not pace:
        return [None] * leases
    words = iter([int(word) for word in pace.split()])
    return [
        Pace(moment_ms, delay_ms / 1000, slack_ms / 1000, since) if delay_ms else None
        for moment_ms, delay_ms, slack_ms in zip(words, words, words, strict=True)
    ]


def open_lease(
    fp: bytes,
    record: bytes,
    trouble: bytes,
    depth: bytes = b"",
    *,
    token: str,
    pace: Pace | None = None,
) -> Lease:
    """Decode a lease. One with an unreadable body has no URL, and the caller buries it."""
    try:
        priority, host, request = open_record(record)
        if depth and int(depth) < request.depth:  # a shorter path was found since
            request = msgspec.structs.replace(request, depth=int(depth))
    except ValueError:  # msgspec's errors are ValueErrors
        words = [*record.split(b" ", 2), b"?", b"?"]
        priority, host, request = 0, words[1].decode("utf-8", "replace"), Request(url="")
    known = _open_tally(trouble)
    return Lease(
        request=request,
        fingerprint=fp.decode(),
        host=without_lane(host),
        priority=priority,
        added_at=added_at(record),
        attempt=known.failures + 1,
        losses=known.losses,
        token=token,
        pace=pace,
    )


def pack_feedback(feedback: Feedback | None) -> bytes:
    """Encode for lua/lib/feedback.lua."""
    packed = encode(feedback) if feedback is not None else NO_FEEDBACK
    return b"" if packed == NO_FEEDBACK else packed


PURGE = "purge"  # not a State: every script refuses such a job

#: The words used by scripts and by jobs of older releases.
_STORED = {
    State.RUNNING: "run",
    State.PAUSED: "pause",
    State.DRAINING: "drain",
    State.CANCELLED: "cancel",
}
_STATES = {word: state for state, word in _STORED.items()}


def stored_state(state: State) -> str:
    return _STORED[state]


def is_state(word: str) -> bool:
    return word in _STATES


def open_state(job: str, word: str) -> State:
    """Raises JobNewer."""
    if word not in _STATES:
        raise JobNewer(job, f"its state is {shorten(repr(word))}, which it does not know")
    return _STATES[word]


def with_scores(reply: list[Any]) -> list[tuple[bytes, Any]]:
    """Pairs from a WITHSCORES reply, which is a list of pairs or flat, by protocol version."""
    if reply and isinstance(reply[0], list | tuple):
        return [(pair[0], pair[1]) for pair in reply]
    return list(zip(reply[::2], reply[1::2], strict=True))


def ms(seconds: float) -> int:
    return max(0, round(seconds * 1000))


def cut(error: str) -> str:
    """Shorten and redact: errors may contain whole pages, passwords in URLs and lone surrogates."""
    return clip(redact_text(error[: 2 * MAX_ERROR_CHARS]))


def clip(text: str) -> str:
    """The part of a message that is stored."""
    return text[:MAX_ERROR_CHARS].encode("utf-8", "replace").decode()


async def scatter(
    shards: Sequence[int],
    send: Callable[[int, list[int]], Awaitable[Sequence[T]]],
    *,
    weights: Sequence[int] | None = None,
    batch: int,
) -> list[T]:
    """Send items to their shards in batches, and return the answers in the order of the items.

    `shards[i]` is where item i goes; `send` gets a shard and positions. Shards run concurrently,
    the batches of one shard in sequence.
    """
    if len(shards) == 1:  # the usual case of a queue
        return list(await send(shards[0], [0]))
    answers: dict[int, T] = {}
    by_shard: dict[int, list[int]] = defaultdict(list)
    for position, shard in enumerate(shards):
        by_shard[shard].append(position)

    async def send_all(shard: int, positions: list[int]) -> None:
        for part in _batches(positions, weights, batch):
            answers.update(zip(part, await send(shard, part), strict=True))

    await side_by_side(send_all(shard, positions) for shard, positions in by_shard.items())
    return [answers[position] for position in range(len(shards))]


async def batched(source: AsyncIterable[T], size: int) -> AsyncIterator[list[T]]:
    """Lists of `size`; the last may be shorter."""
    batch: list[T] = []
    async for one in source:
        batch.append(one)
        if len(batch) >= size:
            yield batch
            batch = []
    if batch:
        yield batch


async def side_by_side(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Await all concurrently, or in sequence without a loop. After an error the others go on, as a
    call that is cut off may have been carried out; then the first error is raised."""
    todo = list(work)
    if len(todo) == 1:
        return [await todo[0]]  # the usual case, without a task
    if not has_loop():
        return await _in_turn(todo)
    import asyncio

    tasks = [asyncio.ensure_future(work) for work in todo]
    try:
        await asyncio.gather(*tasks, return_exceptions=True)
    except asyncio.CancelledError:  # gather has cancelled them
        await asyncio.wait(tasks)
        raise
    return [task.result() for task in tasks]


async def _in_turn(todo: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    answers, errors = list[T](), list[Exception]()
    for work in todo:
        try:
            answers.append(await work)
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]
    return answers


def _batches(
    positions: list[int], weights: Sequence[int] | None, limit: int
) -> Iterable[list[int]]:
    part: list[int] = []
    load = 0
    for position in positions:
        weight = weights[position] if weights else 1
        if part and load + weight > limit:
            yield part
            part, load = [], 0
        part.append(position)
        load += weight
    if part:
        yield part
