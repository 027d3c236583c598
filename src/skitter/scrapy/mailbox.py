"""What the engine's thread and the frontier's thread pass to each other.

Each field has one writer, or is a queue whose ends are safe to use from two threads.
"""

from __future__ import annotations

from collections import deque
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from skitter.engine.memory import LinkMemory
from skitter.engine.outbox import Outbox
from skitter.frontier.pages import page_facts
from skitter.model import Feedback

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy import Request as ScrapyRequest

    from skitter.engine.departures import Gate
    from skitter.frontier.admin.items import RejectedItem
    from skitter.frontier.admin.refusals import Refusal
    from skitter.frontier.offers import Offer
    from skitter.metrics.recorder import Exchange
    from skitter.model import Lease, Response

#: Items of a page that are stored in one step with its end, and their size.
AT_THE_END: Final = 1000
MOST_EXCHANGES: Final = 20_000
BYTES_AT_THE_END: Final = 16 * 2**20


@dataclass(frozen=True, slots=True)
class Link:
    """A request that was found, checked and encoded."""

    key: bytes  # Scrapy's fingerprint; empty: dont_filter
    offer: Offer
    request: ScrapyRequest  # for those who hear that it is a duplicate


@dataclass(slots=True, eq=False)
class Entry:
    """A lease under way, and what came of it so far. Only the engine's thread changes it."""

    lease: Lease
    since_s: float  # on the monotonic clock
    links: list[Link] = field(default_factory=list)
    keys: set[bytes] = field(default_factory=set)  # of its links, those sent ahead too
    items: list[Any] = field(default_factory=list)  # for the job's item stream
    pushes: list[tuple[str, bytes]] = field(default_factory=list)  # for lists: key, item
    #: What is too much for one step of the server, in which it does nothing else: it goes ahead.
    more_items: list[Any] = field(default_factory=list)
    more_pushes: list[tuple[str, bytes]] = field(default_factory=list)
    left: int = AT_THE_END
    left_bytes: int = BYTES_AT_THE_END
    error: str | None = None  # it ended badly: a dead letter
    gate: Gate | None = None  # where its requests leave, if its host wants a delay
    feedback: Feedback = field(default_factory=Feedback)  # what its host said
    answer: Response | None = None  # what came of it
    note: str = ""  # why no callback saw that
    blocked: str = ""  # by whom, if it was a block page
    found: int = 0  # items
    is_returned: bool = False  # it was not sent, and goes back to the queue
    is_over: bool = False

    @property
    def reason(self) -> str:
        """Why it is a dead letter."""
        error = self.error or ""
        if not self.blocked:
            return error
        return self.blocked if error in self.blocked else f"{error} ({self.blocked})"

    def learned(self) -> Feedback:
        """What is told with its end."""
        if self.gate:
            self.feedback.left_ms = self.gate.left_ms
        if self.answer is not None:
            self.feedback.page = page_facts(self.answer, items=self.found, note=self.note)
        return self.feedback

    def add_item(self, item: Any, size_bytes: int) -> None:
        (self.items if self._has_room(size_bytes) else self.more_items).append(item)

    def add_push(self, key: str, item: bytes) -> None:
        (self.pushes if self._has_room(len(item)) else self.more_pushes).append((key, item))

    def _has_room(self, size_bytes: int) -> bool:
        self.left -= 1
        self.left_bytes -= size_bytes
        return self.left >= 0 and self.left_bytes >= 0


@dataclass(slots=True, eq=False)
class FeedBatch:
    """Messages of the feed, and the requests they became."""

    name: str
    messages: list[bytes]
    links: list[Link] = field(default_factory=list)
    rejected: list[tuple[bytes, str]] = field(default_factory=list)  # message, reason


@dataclass(frozen=True, slots=True)
class LooseLinks:
    """Links that belong to no page: of `start`, or of a page that takes its time."""

    links: list[Link]


@dataclass(frozen=True, slots=True)
class LooseItems:
    """Items for lists that belong to no page."""

    pushes: list[tuple[str, bytes]]  # key, item


@dataclass(frozen=True, slots=True)
class Unsent:
    """A request that cannot travel to another node."""

    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class FailedItem:
    """An item that a pipeline failed on."""

    item: RejectedItem


@dataclass(frozen=True, slots=True)
class KeptOut:
    """A request that a middleware ignored."""

    url: str
    why: Refusal


@dataclass(frozen=True, slots=True)
class RobotsFile:
    """What a site answered, for those who ask which line decided."""

    site: str
    status: int
    body: bytes


Parcel = Entry | FeedBatch | LooseLinks | LooseItems | Unsent | FailedItem | KeptOut | RobotsFile

#: Whose children and items come now: everything that Scrapy does for a page happens in its context.
ORIGIN: ContextVar[Entry | FeedBatch | None] = ContextVar("skitter_origin", default=None)


@dataclass(slots=True)
class Mailbox:
    """Between the two threads."""

    ready: deque[Lease] = field(default_factory=deque)  # to the engine
    outbox: Outbox[Parcel] = field(default_factory=Outbox)
    active: dict[ScrapyRequest, Entry] = field(default_factory=dict)  # the engine's alone
    #: What the downloader did: with how many bytes, in how many ms if that is known.
    exchanges: deque[tuple[Exchange, int, float | None]] = field(
        default_factory=lambda: deque(maxlen=MOST_EXCHANGES)
    )
    #: Fingerprints that the frontier has for certain.
    memory: LinkMemory[bytes] = field(default_factory=lambda: LinkMemory(size=400_000))
    #: URLs that were kept out, as the frontier knows.
    refused: LinkMemory[str] = field(default_factory=LinkMemory)
    #: Counts what the engine put in or took out; `finished_at` is the count at which the frontier
    #: was seen to have nothing left. Equal: the crawl is over.
    version: int = 0
    supplied: int = 0  # what the engine had when it was last given more
    finished_at: int = -1
    run: int = 0  # which run of the job this is
    scheduled: int = 0  # what was queued when this node came
    is_adopted: bool = False  # from scrapy-redis, whose fingerprints hold
    idle_s: float = 0.0  # how long the whole cluster has done nothing
    is_fed: bool = False  # there is a batch of the feed that the engine has to read
    #: Items that went through all pipelines of Scrapy, if none of these is ours for the job's
    #: stream, whose items a loader counts.
    scraped: int = 0
    is_streamed: bool = False

    @property
    def entries(self) -> list[Entry]:
        """What is under way, for the other thread to look at."""
        return list(self.active.values())

    @property
    def held(self) -> list[Lease]:
        """Every lease that this node must keep."""
        over = [one for one in self.outbox.waiting if isinstance(one, Entry)]
        return [one.lease for one in over + self.entries] + list(self.ready)

    @property
    def is_working(self) -> bool:
        """A page is under way, or what came of it on its way to the server."""
        return bool(self.active) or any(isinstance(one, Entry) for one in self.outbox.waiting)

    @property
    def runs_low(self) -> bool:
        """A quarter of what the engine was last supplied with is through."""
        return len(self.ready) + len(self.active) <= self.supplied * 3 // 4

    @property
    def is_quiet(self) -> bool:
        return not (self.ready or len(self.outbox) or self.active or self.is_fed)


@dataclass(slots=True)
class EngineCalls:
    """What the engine's thread does for the node."""

    read_feed: Callable[[str, list[bytes]], None] = lambda name, messages: None
    send_ahead: Callable[[], None] = lambda: None  # the children of pages that take their time
    drop: Callable[[list[Link]], None] = lambda duplicates: None
    statistics: Callable[[], Iterable[tuple[Any, ...]]] = list  # commands that send its numbers
