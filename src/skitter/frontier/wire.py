"""Between our values and what scripts take and answer: checks, encodings, batches."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from skitter.errors import BadOption, TooBig
from skitter.frontier.outlinks import Outlinks, pack_outlinks
from skitter.model import Completion, Lease, Pace, Request
from skitter.redact import redact_text
from skitter.settings import Layout, check_number, check_priority
from skitter.urls import fingerprint, fingerprint_of, identify, shard_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence

MAX_RECORD_BYTES = 256 * 1024
MAX_ITEM_BYTES = 8 * 1024 * 1024
MAX_ERROR_CHARS = 2000
#: Links that travel inside a completion; a page with more sends the others ahead of it.
MAX_LINKS = 2000
MAX_LINK_BYTES = 2 * 1024 * 1024
#: What weighs as much in a batch as one more thing in it.
WEIGHT_BYTES = 4096

#: What encoding raises for objects, numbers beyond 64 bits, half characters and circles.
NOT_PLAIN = (TypeError, ValueError, OverflowError, RecursionError)

NOTHING: dict[str, Any] = {}

T = TypeVar("T")

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder().decode
decode_request = msgspec.msgpack.Decoder(Request).decode


class Offer(msgspec.Struct, frozen=True):
    """A request, checked and encoded: nothing is half written because of a bad one."""

    shard: int
    arguments: tuple[str, str, int, int, bytes]  # as EACH in add.lua

    @property
    def size_bytes(self) -> int:
        return len(self.arguments[-1])

    @property
    def weight(self) -> int:
        return 1 + self.size_bytes // WEIGHT_BYTES

    @property
    def priority(self) -> int:
        return self.arguments[2]

    @property
    def depth(self) -> int:
        return self.arguments[3]

    @property
    def body(self) -> bytes:
        """The request as msgpack, without its priority."""
        return self.arguments[4].split(b" ", 2)[2]


def offer(request: Request, layout: Layout, *, limit_bytes: int = MAX_RECORD_BYTES) -> Offer:
    """Raises BadURL, BadOption or TooBig, naming the value."""
    priority = check_priority(request.priority)
    _check_fields(request)
    url, fp, host = place_of(request, layout)
    body = _encode_request(request, url)
    check_record(body, request, limit_bytes=limit_bytes)
    record = b"%d %b %b" % (priority, host.encode(), body)
    return Offer(shard_of(host, layout.shards), (fp, host, priority, request.depth, record))


def check_record(body: bytes, request: Request, *, limit_bytes: int = MAX_RECORD_BYTES) -> bytes:
    """As it came, or TooBig."""
    if len(body) > limit_bytes:
        raise TooBig(
            f"the request for {request.url}", size_bytes=len(body), limit_bytes=limit_bytes
        )
    return body


def place_of(request: Request, layout: Layout) -> tuple[str, str, str]:
    """What is fetched, its fingerprint, and whom to be polite to."""
    if request.identity and request.slot:  # an engine that knows best, of schemes of its own too
        fp = fingerprint_of(request.identity, unique=request.unique)
        return request.url, fp, _check_slot(request.slot)
    target = identify(request.url, layout.canonical)
    slot = _check_slot(request.slot) if request.slot else target.host
    if request.identity:
        return target.url, fingerprint_of(request.identity, unique=request.unique), slot
    fp = fingerprint(
        target.canonical, method=request.method, body=request.body, unique=request.unique
    )
    return target.url, fp, slot


def _check_slot(slot: str) -> str:
    """It becomes part of a key and of the record, which is divided by spaces."""
    if not isinstance(slot, str) or not slot.isprintable() or " " in slot or len(slot) > 255:
        raise BadOption("slot", slot, "up to 255 characters without spaces")
    return slot


def _check_fields(request: Request) -> None:
    """Structs do not check their values, and a script that meets nonsense stops half way."""
    check_number("depth", request.depth, low=0, high=2**31, whole=True)
    if not isinstance(request.method, str) or not request.method.isalpha():
        raise BadOption("method", request.method, "a word such as GET")
    if not isinstance(request.body, bytes):
        raise BadOption("body", request.body, "bytes")
    for name, value in (
        ("unique", request.unique),
        ("identity", request.identity),
        ("slot", request.slot),
        ("parent", "" if request.parent is None else request.parent),
        ("handler", "" if request.handler is None else request.handler),
    ):
        if not isinstance(value, str):
            raise BadOption(name, value, "text")
    if request.headers != NOTHING and not _is_table(request.headers, str):
        raise BadOption("headers", request.headers, "a dict of text to text")
    if request.meta != NOTHING and not _is_table(request.meta, object):
        raise BadOption("meta", request.meta, "a dict whose keys are text")


def _is_table(value: object, kind: type) -> bool:
    return isinstance(value, dict) and all(
        isinstance(key, str) and isinstance(one, kind) for key, one in value.items()
    )


def _encode_request(request: Request, url: str) -> bytes:
    # The priority lives in front of the body, where Lua can read and lower it.
    if request.priority or request.url != url:
        request = msgspec.structs.replace(request, url=url, priority=0)
    try:
        return encode(request)
    except NOT_PLAIN as error:
        name = next(filter(partial(_is_not_plain, request), request.__struct_fields__), "meta")
        expected = f"made of plain values ({error})"
        raise BadOption(name, getattr(request, name), expected) from None


def _is_not_plain(request: Request, name: str) -> bool:
    try:
        encode(getattr(request, name))
    except NOT_PLAIN:
        return True
    return False


class Sealed(msgspec.Struct, frozen=True, kw_only=True):
    """A completion, checked and encoded."""

    shard: int
    lease: Lease
    block_ms: int
    links: list[Offer]  # of the lease's own shard: they go into the completion
    ahead: list[Offer]  # of other shards, or too many: they go first
    items: list[bytes]
    again: list[Request]  # links that are known, and kept with the others
    outlinks: Outlinks | None = None  # all of them, if the job keeps depths

    @property
    def grows(self) -> bool:
        """Whether the server will hold more after it than before."""
        return bool(self.links or self.items or self.outlinks)

    @property
    def brings(self) -> str:
        """As in complete.lua; empty is by far the quickest to read."""
        if not (self.links or self.items or self.block_ms or self.outlinks):
            return ""
        brings = f"{len(self.links)} {len(self.items)} {self.block_ms}"
        kept = self.outlinks
        return f"{brings} {kept.depth} {kept.reach}" if kept else brings

    @property
    def size_bytes(self) -> int:
        kept = len(self.outlinks.packed) if self.outlinks else 0
        return sum(one.size_bytes for one in self.links) + sum(map(len, self.items)) + kept

    @property
    def weight(self) -> int:
        return 1 + len(self.links) + len(self.items) + self.size_bytes // WEIGHT_BYTES


def seal(completion: Completion, layout: Layout, *, raw: bool = False) -> Sealed:
    """Check and encode. Raw: the items are bytes already, for a list that others read."""
    return seal_offers(
        completion, [offer(link, layout) for link in completion.links], layout, raw=raw
    )


def seal_offers(
    completion: Completion, offers: Sequence[Offer], layout: Layout, *, raw: bool
) -> Sealed:
    """The same for those who check their links one by one; those of the completion are left out."""
    lease = completion.lease
    shard = shard_of(lease.host, layout.shards)
    here = [one for one in offers if one.shard == shard]
    surplus = _surplus(here)
    return Sealed(
        shard=shard,
        lease=lease,
        block_ms=ms(completion.block_s),
        links=here[surplus:],
        ahead=here[:surplus] + [one for one in offers if one.shard != shard],
        items=[_check_item(item, lease, raw=raw) for item in completion.items],
        again=list(completion.again),
    )


def _surplus(offers: Sequence[Offer]) -> int:
    """How many of the first go ahead: the last ones fit into a completion."""
    size_bytes = 0
    for count, one in enumerate(reversed(offers)):
        size_bytes += one.size_bytes
        if count == MAX_LINKS or size_bytes > MAX_LINK_BYTES:
            return len(offers) - count
    return 0


def keep_outlinks(sealed: Sealed, *, is_cut: bool) -> Sealed:
    """With all its links, for a job that keeps depths. Cut: some were refused on their way."""
    offers = [*sealed.ahead, *sealed.links]
    depth = sealed.lease.request.depth
    packed = pack_outlinks(depth, offers, sealed.again, is_cut=is_cut)
    return msgspec.structs.replace(sealed, outlinks=packed)


def encode_item(item: Any, lease: Lease) -> bytes:
    """As the item stream holds it. Raises BadOption."""
    try:
        # The address travels with the item: the frontier forgets a request that is done.
        return encode({"url": lease.url, "item": item})
    except NOT_PLAIN as error:
        raise BadOption(
            f"the item of {lease.url}", item, f"made of plain values ({error})"
        ) from None


def _check_item(item: Any, lease: Lease, *, raw: bool) -> bytes:
    data: bytes = item if raw else encode_item(item, lease)
    if len(data) > MAX_ITEM_BYTES:
        raise TooBig(f"an item of {lease.url}", size_bytes=len(data), limit_bytes=MAX_ITEM_BYTES)
    return data


def completion_arguments(sealed: Sequence[Sealed]) -> list[object]:
    """As complete.lua wants them: all leases, then all links, then all items."""
    args: list[object] = []
    for one in sealed:
        args += (one.lease.fingerprint, one.lease.token, one.brings)
    for one in sealed:
        for link in one.links:
            args += link.arguments
    for one in sealed:
        if one.outlinks:
            args.append(one.outlinks.packed)
        args += one.items
    return args


def open_record(record: bytes) -> tuple[int, str, Request]:
    """`priority host body`, as lua/lib/record.lua writes it."""
    priority, host, body = record.split(b" ", 2)
    return int(priority), host.decode(), decode_request(body)


def open_paces(pace: bytes, leases: int, *, since: float) -> list[Pace | None]:
    """As lua/lib/pace.lua writes them."""
    if not pace:
        return [None] * leases
    words = iter([int(word) for word in pace.split()])
    return [
        Pace(moment_ms, delay_ms / 1000, bool(shared), since) if delay_ms else None
        for moment_ms, delay_ms, shared in zip(words, words, words, strict=True)
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
    """A body that cannot be read gives a lease without URL, for the caller to bury."""
    try:
        priority, host, request = open_record(record)
        if depth and int(depth) < request.depth:  # a shorter way was found since
            request = msgspec.structs.replace(request, depth=int(depth))
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
        words = [*record.split(b" ", 2), b"?", b"?"]
        priority, host, request = 0, words[1].decode("utf-8", "replace"), Request(url="")
    known = decode(trouble) if trouble else {}
    return Lease(
        request=request,
        fingerprint=fp.decode(),
        host=host,
        priority=priority,
        attempt=known.get("failures", 0) + 1,
        losses=known.get("losses", 0),
        token=token,
        pace=pace,
    )


def ms(seconds: float) -> int:
    return max(0, round(seconds * 1000))


def cut(error: str) -> str:
    """Errors may carry whole pages, passwords in URLs, and lone surrogates from bad decoding."""
    return clip(redact_text(error[: 2 * MAX_ERROR_CHARS]))


def clip(text: str) -> str:
    """As much of a message as is kept."""
    return text[:MAX_ERROR_CHARS].encode("utf-8", "replace").decode()


async def scatter(
    shards: Sequence[int],
    send: Callable[[int, list[int]], Awaitable[Sequence[T]]],
    *,
    weights: Sequence[int] | None = None,
    batch: int,
) -> list[T]:
    """Send items to their shards in batches, and bring the answers back into their order.

    `shards[i]` is where item i goes; `send` gets a shard and positions. Shards work side by side,
    the batches of one shard one after the other.
    """
    answers: dict[int, T] = {}
    by_shard: dict[int, list[int]] = defaultdict(list)
    for position, shard in enumerate(shards):
        by_shard[shard].append(position)

    async def send_all(shard: int, positions: list[int]) -> None:
        for part in _batches(positions, weights, batch):
            answers.update(zip(part, await send(shard, part), strict=True))

    await side_by_side(send_all(shard, positions) for shard, positions in by_shard.items())
    return [answers[position] for position in range(len(shards))]


async def side_by_side(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Await all; the first error ends the others."""
    todo = list(work)
    if len(todo) == 1:
        return [await todo[0]]  # the usual case, without a task
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in todo]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


def _batches(positions: list[int], weights: Sequence[int] | None, most: int) -> Iterable[list[int]]:
    part: list[int] = []
    load = 0
    for position in positions:
        weight = weights[position] if weights else 1
        if part and load + weight > most:
            yield part
            part, load = [], 0
        part.append(position)
        load += weight
    if part:
        yield part
