"""What the fleet has learned about pages: outcomes, robots.txt, rendering, traps.

docs/howto/traps.md is for users; docs/adr/0051-urls-beyond-the-budget-come-last.md explains why.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import msgspec

from skitter.frontier.sites.snapshots import open_body
from skitter.frontier.transport.messages import clip, ms, scatter, side_by_side, with_scores
from skitter.patterns import number_of, shape_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.transport.shard import Shard
    from skitter.model import Lease, Response, Stats


REDIRECT = "-> "
NOTHING = "-"


class DonePage(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one page: kept for the newest pages of each shard."""

    at: float  # seconds since the epoch, by the server's clock
    worker: str
    status: int
    elapsed_s: float
    size_bytes: int
    items: int
    usage: str = ""  # which use of it is reserved, as in page.usage
    note: str = ""  # why its handler did not run
    redirects_to: str = ""


def page_facts(response: Response, *, items: int, usage: str = "", note: str = "") -> str:
    """What a worker reports. The server prepends the time and the worker's name."""
    elapsed_ms = round(1000 * response.elapsed_s)
    line = f"{response.status} {elapsed_ms} {len(response.body)} {items} {usage or NOTHING}"
    return f"{line} {clip(note)}" if note else line


async def find_page(shard: Shard, fp: str) -> DonePage | None:
    """None: it is not done, was done too long ago, or its engine does not report outcomes."""
    for part in ("new", "old"):
        line: bytes | None = await shard.server.command("HGET", shard.keys.key("pages", part), fp)
        if line:
            return open_page(line.decode("utf-8", "replace"))
    return None


def open_page(line: str) -> DonePage | None:
    """None: it cannot be read."""
    try:
        at, worker, status, elapsed_ms, size_bytes, items, usage, *rest = line.split(" ", 7)
        note = rest[0] if rest else ""
        is_redirect = note.startswith(REDIRECT)
        return DonePage(
            at=float(at),
            worker=worker,
            status=int(status),
            elapsed_s=int(elapsed_ms) / 1000,
            size_bytes=int(size_bytes),
            items=int(items),
            usage="" if usage == NOTHING else usage,
            note="" if is_redirect else note,
            redirects_to=note.removeprefix(REDIRECT) if is_redirect else "",
        )
    except (ValueError, OverflowError):
        return None


#: How long one worker may take to fetch it; if it dies, others wait no longer than this.
CLAIM_MS: Final = 60_000
#: An expired failure still says when the trouble began: RFC 9309 2.3.1.4 counts 30 days, and in the
#: end we ask once a day.
KEEP_S: Final = 40 * 86_400.0


@dataclass(frozen=True, slots=True)
class Shared:
    """What the fleet knows of a host's robots.txt."""

    rules: bytes = b""  # the last answer; empty: there was none
    left_s: float = 0.0  # how long it remains valid
    is_ours: bool = False  # it has expired, and we are to fetch it

    @property
    def is_known(self) -> bool:
        return self.left_s > 0


async def ask_robots(frontier: Frontier, host: str) -> Shared:
    """What the fleet knows. If nothing is known, the first to ask is the one to fetch it."""
    what, rules, left_ms = await _call(frontier, host, ttl_ms=CLAIM_MS, keep_s=KEEP_S)
    return Shared(rules, left_ms / 1000, is_ours=what == b"yours")


async def stored_robots(frontier: Frontier, host: str) -> bytes:
    """The last answer, to show to people; empty: none is stored."""
    key = frontier.shard_for(host).keys.key("robots", host)
    stored: bytes | None = await frontier.server.command("GET", key)
    return (stored or b"").partition(b" ")[2].partition(b" ")[2]


async def store_robots(
    frontier: Frontier, host: str, rules: bytes, *, ttl_s: float, keep_s: float = 0.0
) -> None:
    """Share it with the fleet: valid for `ttl_s` seconds, and stored for longer."""
    await _call(frontier, host, rules=rules, ttl_ms=ms(ttl_s), keep_s=keep_s)


async def _call(
    frontier: Frontier, host: str, *, ttl_ms: int, keep_s: float, rules: bytes = b""
) -> Any:
    shard = frontier.shard_for(host)
    # A full server refuses to store rules, but still answers questions.
    return await shard.robots(
        strict=bool(rules), name=host, rules=rules, ttl_ms=ttl_ms, keep_ms=ms(keep_s)
    )


#: Plain HTML was enough, only a browser brought more, neither brought anything.
Tried = Literal["plain", "browser", "neither"]
TRIED: Final[tuple[Tried, ...]] = ("plain", "browser", "neither")
#: The fewest pages to judge by, and how many times more frequent the usual outcome must be.
FEW, USUAL = 3, 4


@dataclass(frozen=True, slots=True)
class Rendering:
    """Which pages of a shape of URLs need a browser: how many had which outcome; counts are halved
    now and then."""

    plain: int = 0
    browser: int = 0
    neither: int = 0

    @property
    def needs_browser(self) -> bool:
        """Plain HTML is not worth trying."""
        return self.browser >= FEW and self.browser > USUAL * self.plain

    @property
    def is_hopeless(self) -> bool:
        """A page without items has none in a browser either."""
        return self.neither >= FEW and self.neither > USUAL * self.browser


def rendering_field(url: str, what: Tried) -> str:
    """The field that an attempt reports."""
    return f"{number_of(shape_of(url))} {what}"


async def read_rendering(frontier: Frontier, host: str, url: str) -> Rendering:
    """What the fleet knows about the shape of a URL."""
    shard = frontier.shard_for(host)
    fields = [rendering_field(url, what) for what in TRIED]
    found = await shard.command("HMGET", "rendering", *fields)
    return Rendering(*(int(one) if one and one.isdigit() else 0 for one in found))


BATCH = 200
FREE_AT_ONCE = 500
MAX_NAMED = 1000  # shapes in a report


class Permit(NamedTuple):
    """The frontier's decision about one lease: each shape of URLs has a budget."""

    is_ours: bool  # it may be fetched; else it is held, or lost
    ahead: int  # further pages of its shape that may be fetched without asking


async def ask_permits(frontier: Frontier, asked: Sequence[tuple[Lease, int]]) -> list[Permit]:
    """Ask for leases, each with the number of its shape. Leases without a permit have ended."""

    async def send(shard: int, part: list[int]) -> list[Permit]:
        answer = await frontier.shards[shard].trap([_row(*asked[i]) for i in part])
        pairs = zip(answer[::2], answer[1::2], strict=True)
        return [Permit(said == 1, ahead) for said, ahead in pairs]

    places = [frontier.layout.shard_of(lease.host) for lease, _ in asked]
    return await scatter(places, send, batch=BATCH)


def _row(lease: Lease, number: int) -> tuple[str, str, int, int]:
    return lease.fingerprint, lease.token, number, lease.moment_ms


async def look_again(frontier: Frontier, stats: Stats) -> int:
    """If nothing else is left, it is the turn of held URLs. Returns how many became pending."""
    if not stats.looks or stats.remaining or stats.reopened or stats.due:
        return 0
    return sum(await side_by_side(shard.look() for shard in frontier.shards))


async def held_shapes(frontier: Frontier) -> dict[str, int]:
    """How many URLs are held, by shape, most first."""
    found = Counter[str]()
    for shard in frontier.shards:
        left = await shard.command("ZCOUNT", "trapped", 0, "+inf")
        for member in await shard.command("ZRANGE", "looks", 0, MAX_NAMED - 1) if left else ():
            number, _, host = member.decode("utf-8", "replace").partition(" ")
            of_it = ("trapped", number, number)
            if held := await shard.command("ZCOUNT", *of_it):
                [first] = await shard.command("ZRANGEBYSCORE", *of_it, "LIMIT", 0, 1)
                record = await shard.command("HGET", "task", first)
                found[_name_of(record, host, int(number))] += held
                left -= held
        if left > 0:
            found["other shapes"] += left
    return dict(found.most_common())


def _name_of(record: bytes | None, host: str, number: int) -> str:
    """The server knows shapes by their numbers only."""
    request = open_body(record)[2] if record else None
    shape = shape_of(request.url) if request else ""
    return shape if number_of(shape) == number else f"{host}/..."  # one of many that share a budget


async def free_trapped(frontier: Frontier) -> int:
    """Make all URLs in traps pending again, in small steps. Returns how many."""
    return await _free(frontier, 0, "+inf")


async def _free(frontier: Frontier, least: int, most: int | str, handler: str = "") -> int:
    async def free(shard: Shard) -> int:
        left = total = await shard.command("ZCOUNT", "trapped", least, most)
        while left > 0:  # no more than there were: those over budget are held again
            some = min(left, FREE_AT_ONCE)
            left -= await shard.free_trapped(at_most=some, handler=handler) or left
        return int(total)

    return sum(await side_by_side(free(shard) for shard in frontier.shards))


# --- pages for a handler that no worker has -------------------------------------------------------


def handler_number(name: str) -> int:
    """By which the frontier knows a handler, among the numbers of shapes."""
    return -1 - number_of(name)


async def hold_unhandled(frontier: Frontier, leases: Sequence[Lease]) -> None:
    """End the leases: their requests wait, among those in traps, until a worker has their
    handlers."""
    await ask_permits(
        frontier, [(lease, handler_number(lease.request.handler or "")) for lease in leases]
    )


async def unhandled(frontier: Frontier) -> dict[str, int]:
    """How many URLs wait for a worker with their handler, by its name, most first."""
    found = Counter[str]()
    for shard in frontier.shards:
        above = "-inf"
        for _ in range(MAX_NAMED):
            row = await shard.command(
                "ZRANGEBYSCORE", "trapped", above, "(0", "WITHSCORES", "LIMIT", 0, 1
            )
            if not row:
                break
            [(first, at)] = with_scores(row)
            score = int(float(at))
            record = await shard.command("HGET", "task", first)
            request = open_body(record)[2] if record else None
            name = request.handler if request else None
            found[name or "?"] += await shard.command("ZCOUNT", "trapped", score, score)
            above = f"({score}"
    return dict(found.most_common())


async def free_handled(frontier: Frontier, handlers: Collection[str]) -> int:
    """Make pending what waits for one of these handlers. Returns how many."""
    if not await _has_unhandled(frontier):
        return 0
    numbers = [handler_number(name) for name in await unhandled(frontier) if name in handlers]
    return sum([await _free(frontier, number, number, str(number)) for number in numbers])


async def _has_unhandled(frontier: Frontier) -> bool:
    counts = await side_by_side(
        shard.command("ZCOUNT", "trapped", "-inf", "(0") for shard in frontier.shards
    )
    return any(counts)
