"""What the engine's thread and the node's thread exchange.

Each field has one writer, or is a queue that is safe to use from two threads.
"""

from __future__ import annotations

from collections import deque
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from skitter.engine.outbox import LinkMemory, Outbox
from skitter.frontier.sites.learned import page_facts
from skitter.model import Feedback

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy import Request as ScrapyRequest

    from skitter.engine.departures import Gate
    from skitter.frontier.feed import ExcludedLink, Messages
    from skitter.frontier.identities import Identify
    from skitter.frontier.items import RejectedItem
    from skitter.frontier.requests import Offer
    from skitter.model import Lease, Response
    from skitter.observe.metrics import Exchange

#: How many items of a page, and how many bytes, are stored in one step with its completion.
AT_THE_END: Final = 1000
MAX_EXCHANGES: Final = 20_000
BYTES_AT_THE_END: Final = 16 * 2**20
#: Cookies of a session by field: as JSON, or None if they are gone.
Changes = dict[str, str | None]


@dataclass(frozen=True, slots=True)
class Link:
    """A new request, checked and encoded."""

    key: bytes  # Scrapy's fingerprint; empty: dont_filter
    offer: Offer
    request: ScrapyRequest  # for the signal that it is a duplicate


@dataclass(slots=True, eq=False)
class OpenLease:
    """A lease in progress and its results so far. Only the engine's thread changes it."""

    lease: Lease
    since_s: float  # on the monotonic clock
    links: list[Link] = field(default_factory=list)
    keys: set[bytes] = field(default_factory=set)  # of its links, including those sent ahead
    items: list[Any] = field(default_factory=list)  # for the job's item stream
    pushes: list[tuple[str, bytes]] = field(default_factory=list)  # for lists: key, item
    #: Sent before the completion, which blocks the server and must stay small.
    more_items: list[Any] = field(default_factory=list)
    more_pushes: list[tuple[str, bytes]] = field(default_factory=list)
    left: int = AT_THE_END
    left_bytes: int = BYTES_AT_THE_END
    error: str | None = None  # why it becomes a dead letter
    gate: Gate | None = None  # paces its requests if its host wants a delay
    feedback: Feedback = field(default_factory=Feedback)  # about its host
    answer: Response | None = None
    note: str = ""  # why no callback saw the answer
    unasked: str = ""  # a refusal that the spider does not name: dead if nothing comes of it
    blocked: str = ""  # by whom, if it was a block page
    found: int = 0  # items
    cookies: dict[str, Changes] = field(default_factory=dict)  # by session
    is_routed: bool = False  # its request names a proxy
    proxy: str | None = None  # chosen by a middleware instead
    is_returned: bool = False  # not sent: it goes back to the queue
    is_over: bool = False

    @property
    def reason(self) -> str:
        """Why it is a dead letter."""
        error = self.error or ""
        if not self.blocked:
            return error
        return self.blocked if error in self.blocked else f"{error} ({self.blocked})"

    @property
    def is_barren(self) -> bool:
        """Neither a request nor an item came of it."""
        return not (self.keys or self.links or self.found or self.items or self.pushes)

    def learned(self) -> Feedback:
        """The feedback to send when its lease ends."""
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
    """Feed messages and the requests made from them."""

    name: str
    place: str  # of the copy that is dropped at the end
    links: list[Link] = field(default_factory=list)
    rejected: list[tuple[bytes, str]] = field(default_factory=list)  # message, reason


@dataclass(frozen=True, slots=True)
class LooseLinks:
    """Links sent without a page: from `start`, or ahead of a slow page's completion."""

    links: list[Link]


@dataclass(frozen=True, slots=True)
class LooseCookies:
    """Cookies that changed without a page, or ahead of a slow page's completion."""

    name: str  # of the session
    changes: Changes


@dataclass(frozen=True, slots=True)
class LooseItems:
    """Items for lists, without a page."""

    pushes: list[tuple[str, bytes]]  # key, item


@dataclass(frozen=True, slots=True)
class Unsent:
    """A request that cannot be sent to another node."""

    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class FailedItem:
    """An item that a pipeline failed on."""

    item: RejectedItem


@dataclass(frozen=True, slots=True)
class Ignored:
    """A request that a middleware ignored."""

    url: str
    why: ExcludedLink


@dataclass(frozen=True, slots=True)
class RobotsFile:
    """A site's robots.txt, so that `why` can show which line decided."""

    site: str
    status: int
    body: bytes


Loose = LooseLinks | LooseItems | LooseCookies
Parcel = OpenLease | FeedBatch | Loose | Unsent | FailedItem | Ignored | RobotsFile

#: Owner of the requests and items produced now: Scrapy handles each page in its own context.
ORIGIN: ContextVar[OpenLease | FeedBatch | None] = ContextVar("skitter_origin", default=None)


class Stored(NamedTuple):
    """A session as the server has it, for the engine's thread."""

    name: str
    fields: dict[str, bytes]


class Settled(NamedTuple):
    """Changes that the server has answered, for the engine's thread."""

    name: str
    changes: Changes


@dataclass(slots=True)
class Mailbox:
    """Shared by the two threads."""

    ready: deque[Lease] = field(default_factory=deque)  # for the engine
    outbox: Outbox[Parcel] = field(default_factory=Outbox)
    active: dict[ScrapyRequest, OpenLease] = field(
        default_factory=dict
    )  # written by the engine only
    #: What the downloader did: exchange, bytes, and milliseconds if known.
    exchanges: deque[tuple[Exchange, int, float | None]] = field(
        default_factory=lambda: deque(maxlen=MAX_EXCHANGES)
    )
    #: What the server says about sessions, for the engine.
    cookies: deque[Stored | Settled] = field(default_factory=deque)
    #: Fingerprints that the frontier is known to have.
    memory: LinkMemory[bytes] = field(default_factory=lambda: LinkMemory(size=400_000))
    #: Refused URLs that the frontier has recorded.
    refused: LinkMemory[str] = field(default_factory=LinkMemory)
    #: Counts what the engine put in or took out; `finished_at` is the count at which the frontier
    #: was last found empty. Equal: the crawl is over.
    version: int = 0
    begun: int = 0  # requests that the engine has taken
    fed: int = 0  # requests that were made of messages
    supplied: int = 0  # what the engine held after it was last supplied
    finished_at: int = -1
    run: int = 0  # number of this run of the job
    scheduled: int = 0  # queue length when this node joined
    is_adopted: bool = False  # from scrapy-redis, whose fingerprints it keeps
    idle_s: float = 0.0  # how long the whole cluster has been idle
    is_fed: bool = False  # the engine still has to read a feed batch
    #: Items that passed all Scrapy pipelines. Not counted if ItemPipeline is among them: the loader
    #: counts those.
    scraped: int = 0
    is_streamed: bool = False

    @property
    def entries(self) -> list[OpenLease]:
        """A copy of the active entries, for the node's thread."""
        return list(self.active.values())

    @property
    def held(self) -> list[Lease]:
        """Every lease that this node must extend."""
        over = [one for one in self.outbox.waiting if isinstance(one, OpenLease)]
        return [entry.lease for entry in over + self.entries] + list(self.ready)

    @property
    def is_working(self) -> bool:
        """A page is in progress, or its results are not delivered yet."""
        return bool(self.active) or any(
            isinstance(parcel, OpenLease) for parcel in self.outbox.waiting
        )

    @property
    def runs_low(self) -> bool:
        """A quarter of what the engine was last supplied with is done."""
        return len(self.ready) + len(self.active) <= self.supplied * 3 // 4

    @property
    def is_quiet(self) -> bool:
        return not (self.ready or len(self.outbox) or self.active or self.is_fed)


@dataclass(slots=True)
class EngineCalls:
    """What the engine's thread does for the node."""

    read_feed: Callable[[Messages], None] = lambda messages: None
    send_ahead: Callable[[], None] = lambda: None  # links of slow pages
    drop: Callable[[list[Link]], None] = lambda duplicates: None
    statistics: Callable[[], Iterable[tuple[Any, ...]]] = list  # commands that send its stats
    identify: Identify | None = None  # also from the node's thread; None: nothing is filtered
