"""The values that travel between the layers.

Those that exist once per URL are msgspec structs: they cost a tenth of a dataclass to make.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from skitter.errors import BadOption

#: Where a dead letter came from that never was a request: it was fed, adopted from another system,
#: or yielded by a spider and could not be sent. Its URL begins with this word.
Origin = Literal["feed", "adopted", "unsent"]
MESSAGES = ("feed:", "adopted:", "unsent:")


#: Plain HTTP, or a browser.
Lane = Literal["", "browser"]
LANES: tuple[Lane, ...] = ("", "browser")


class _Address(msgspec.Struct, frozen=True, omit_defaults=True):
    url: str  # the one field that may be given without its name


class Visited(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of a page from its last visit."""

    etag: str = ""
    modified: str = ""  # Last-Modified, as it came
    digest: bytes = b""  # of its body
    interval_s: float = 0.0  # until the next visit
    visits: int = 0
    at: float = 0.0  # seconds since the epoch

    @property
    def found_nothing(self) -> bool:
        """The page was gone. One that comes back is not the page it was, whatever it says."""
        return not self.digest


class Request(_Address, frozen=True, kw_only=True, omit_defaults=True):
    """A page to fetch. Its msgpack form is what the frontier stores."""

    method: str = "GET"
    headers: dict[str, str] = {}
    body: bytes = b""
    depth: int = 0
    parent: str | None = None
    handler: str | None = None
    meta: dict[str, Any] = {}
    priority: int = 0
    #: Requests are the same if their canonical URL, method and body are; a value here sets this
    #: one apart, so that it is fetched although the page is known.
    unique: str = ""
    #: An engine with a notion of its own of what is the same gives it here instead.
    identity: str = ""
    #: Whom to be polite to, if it is not the URL's host.
    slot: str = ""
    #: Who fetches it: a lane has a queue of its own at each host, and workers that serve it.
    lane: Lane = ""
    #: The class of sessions to fetch it with: see skitter.SessionPool.
    session: str = ""
    visited: Visited | None = None  # None: this is the first visit
    #: Seconds for the whole request, in place of fetch.total_timeout_s and first_byte_timeout_s.
    timeout_s: float | None = None
    #: Below fetch.max_body_mb; above it, that one counts.
    max_body_mb: float | None = None
    #: Leave from this country: two lower case letters, for proxies that can.
    country: str = ""
    #: Given to `Request(json=...)`, it becomes the body, with its content type; None afterwards.
    json: Any = None

    if TYPE_CHECKING:

        def __init__(  # noqa: PLR0913 - the fields, of which two take more than they hold
            self,
            url: str,
            *,
            method: str = "GET",
            headers: dict[str, str] = ...,
            body: bytes | str = b"",
            depth: int = 0,
            parent: str | None = None,
            handler: str | None = None,
            meta: dict[str, Any] = ...,
            priority: int = 0,
            unique: str = "",
            identity: str = "",
            slot: str = "",
            lane: Lane = "",
            session: str = "",
            timeout_s: float | None = None,
            max_body_mb: float | None = None,
            country: str = "",
            json: Any = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        if isinstance(self.body, str):
            msgspec.structs.force_setattr(self, "body", self.body.encode())
        if self.json is not None:
            self._take_json()

    def _take_json(self) -> None:
        if self.body:
            raise BadOption("json", "(given with a body)", "one of body and json")
        headers = {"content-type": "application/json"}
        headers |= {name.lower(): value for name, value in self.headers.items()}
        fields = {"body": msgspec.json.encode(self.json), "headers": headers, "json": None}
        for name, value in fields.items():
            msgspec.structs.force_setattr(self, name, value)

    @property
    def is_plain(self) -> bool:
        """Whether its URL alone says which request it is: a GET with nothing to set it apart."""
        return self.method == "GET" and not (
            self.body or self.unique or self.identity or self.slot or self.session
        )


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """What a server answered to one request; redirects are answers like any other."""

    url: str  # what was asked; where a browser ended, if one rendered it
    status: int
    headers: tuple[tuple[str, str], ...] = ()  # names in lower case, in the order they came
    body: bytes = b""
    remote_address: str | None = None  # the IP that answered
    elapsed_s: float = 0.0
    connect_s: float = 0.0  # to dial, with TLS; 0: it was connected, or the client does not tell
    first_byte_s: float = 0.0  # until its head was there; 0: the client does not tell
    moved_bytes: int = 0  # what a browser sent and received for it, with all that it loaded
    screenshot: bytes | None = None  # of a rendered page, if it was asked for

    def header(self, name: str, default: str | None = None) -> str | None:
        """The first header of that name, in any case."""
        name = name.lower()
        return next((value for key, value in self.headers if key == name), default)


class State(StrEnum):
    """What the operator wants of a job."""

    RUNNING = "running"
    PAUSED = "paused"  # hand out nothing; take new URLs
    DRAINING = "draining"  # finish what is queued; take nothing new
    CANCELLED = "cancelled"  # hand out nothing, take nothing


class Added(StrEnum):
    """What became of one request that was offered."""

    NEW = "new"
    SEEN = "seen"
    FULL = "full"  # over max_pending: offer it again later
    DEEP = "deep"  # beyond max_depth
    CLOSED = "closed"  # the job is draining or cancelled


class BadEntry(msgspec.Struct, frozen=True):
    """One that cannot be crawled, by its place among those that were sent: the first is 1."""

    line: int
    reason: str


class Pushed(msgspec.Struct, kw_only=True):
    """What became of them. `bad` names the first hundred that cannot be crawled."""

    new: int = 0
    seen: int = 0
    deep: int = 0
    bad: list[BadEntry] = []


class Ended(StrEnum):
    """What became of one lease that was handed back."""

    DONE = "done"
    RETRIED = "retried"
    BURIED = "buried"
    RELEASED = "released"
    EXTENDED = "extended"
    LOST = "lost"  # not ours any more; nothing was changed


class Pace(msgspec.Struct, frozen=True, eq=False):
    """How the host of a lease wants to be asked, if it wants a delay."""

    moment_ms: int  # when its turn was, by the server's clock
    delay_s: float
    slack_s: float  # so late it may leave unasked, as there may be others; 0: there are none
    since: float  # no later than that moment, by this process's monotonic clock

    def __eq__(self, other: object) -> bool:
        """A lease that is given again is the same lease, whenever it was asked for."""
        return isinstance(other, Pace) and self._said == other._said

    def __hash__(self) -> int:
        return hash(self._said)

    @property
    def _said(self) -> tuple[int, float, float]:
        return self.moment_ms, self.delay_s, self.slack_s


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """A request that is ours until it expires. The token proves it."""

    request: Request
    fingerprint: str
    host: str
    priority: int
    attempt: int  # 1 for the first try
    losses: int  # how many workers vanished with it
    token: str
    pace: Pace | None = None  # None: as fast as it goes

    @property
    def url(self) -> str:
        return self.request.url


class Leased(msgspec.Struct, frozen=True):
    """The answer to `lease`: what may be fetched now, and when to ask again if it is not enough."""

    leases: list[Lease]
    state: State
    again_in_s: float | None  # None: nothing is waiting for a moment to come


class SessionNews(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an attempt learned of its session, as lua/lib/learn_session.lua reads it."""

    name: str  # site/class
    number: int = 0  # 0: the one there is, or a new one
    fields: list[str] = []  # name, value, ...: cookies that were set
    gone: list[str] = []  # names of those that expired
    errors: float = 0.0
    logged_out: int = 0  # a page said so, which was fetched after so many log-ins


class Revisit(msgspec.Struct, frozen=True, kw_only=True):
    """What a visit found, and when the next one is: never, of a page that is gone."""

    after_ms: int
    how: Literal["new", "changed", "unchanged", "gone"]
    record: msgspec.Raw  # as `task` will hold it
    emptied: msgspec.Raw | None = None  # for loaders: the page has no items any more


class Feedback(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What an attempt learned besides its result. It counts in the step that ends the lease, and
    only if the lease is still ours: lua/lib/feedback.lua."""

    rest_ms: int = 0  # leave the host alone for so long, e.g. Retry-After
    latency_ms: int | None = None  # so long the host took to answer, if it wants a delay
    left_ms: int = 0  # when its request left, by the server's clock, if the host wants a delay
    incident: int = 0  # how the host said that it has had enough: frontier/delay.py
    rendering: str = ""  # of a page with render="auto": `frontier.rendering.told`
    page: str = ""  # of a page that is done: `frontier.pages.page_facts`
    session: SessionNews | None = None
    yields: dict[int, int] = {}  # number of a URL shape -> what the page is worth to it
    revisit: Revisit | None = None


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """How a lease ended well: what was found, in one step with the end itself."""

    lease: Lease
    items: Sequence[Any] = ()
    links: Sequence[Request] = ()
    #: Links that the frontier has, as deep or less: offered again if a shorter way is found.
    again: Sequence[Request] = ()
    feedback: Feedback | None = None


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """How a lease ended badly: retried after a while, or dead after the last try."""

    lease: Lease
    error: str
    after_s: float | None = None  # None: exponential backoff with full jitter
    feedback: Feedback | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A URL that was given up, and why."""

    shard: int
    fingerprint: str
    url: str
    reason: str
    at: float  # seconds since the epoch, the server's clock
    failures: int
    losses: int
    priority: int
    request: Request

    @property
    def is_message(self) -> bool:
        """It never was a request of the frontier: its text is in `request.meta`."""
        return self.url.startswith(MESSAGES)

    @property
    def can_be_fetched(self) -> bool:
        return bool(self.url) and not self.is_message


@dataclass(frozen=True, slots=True)
class Result:
    """One item that a completion brought; or notice that its page has none any more."""

    id: str  # its place in the stream
    fingerprint: str
    index: int  # which of the page's items; -1: it has none
    url: str
    item: Any
    fetched_at: float  # seconds since the epoch, the server's clock, when the page was completed

    @property
    def is_notice(self) -> bool:
        """Not an item: loaders remove what earlier visits of its page brought."""
        return self.index < 0


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """One moment of a job, over all its shards."""

    job: str
    state: State
    pending: int = 0
    delayed: int = 0
    leased: int = 0
    done: int = 0
    dead: int = 0
    dropped: int = 0  # dead letters that were removed
    seen: int = 0
    shelved: int = 0  # pending, but their host's budget is spent
    trapped: int = 0  # held, as the budget of their shape is spent
    looks: int = 0  # shapes of those that are looked at once more, when nothing else is left
    revisits: int = 0  # done, and to be visited again
    due: int = 0  # of those, the ones whose moment has come
    new: int = 0  # pages visited for the first time, in a job that visits pages again
    changed: int = 0  # visited again, and not as they were
    unchanged: int = 0  # visited again, and as they were: no handler ran
    gone: int = 0  # visited again, and not there any more (404, 410)
    items: int = 0  # results waiting to be read
    duplicates: int = 0
    refused: int = 0  # too deep, or offered to a closed job
    kept_out: dict[str, int] = {}  # links that were not followed, by kind
    retried: int = 0
    lost: int = 0  # leases that ran out
    late: int = 0  # ends that came after that, and had no effect
    stored: int = 0  # items that a loader has stored
    rejected: int = 0  # items that could not be stored
    blocked: int = 0  # answers that were a block page
    incidents: int = 0  # how often a host was slowed down, as it had had enough
    skipped: int = 0  # pages of a type that the spider does not want
    undeclared: int = 0  # values of fields that the declared item type does not have: left out
    capped: int = 0  # pages that brought more items or links than a page may
    damaged: int = 0  # records that made no sense, and were begun anew or given up
    reopened: int = 0  # done, and to offer their links again: a shorter way, or a higher max_depth
    hosts: int = 0
    fed: int = 0  # messages in the feed list
    crawled: bool = False  # nothing left to fetch: nothing pending, delayed, leased or fed
    finished: bool = False  # and no item waits for a loader

    @property
    def remaining(self) -> int:
        """Requests still to be fetched; not those that their host's budget will never reach."""
        return self.pending - self.shelved + self.delayed + self.leased

    @property
    def status(self) -> str:
        """What people are shown: running, paused, draining, cancelled or finished."""
        is_over = self.finished and self.state is not State.CANCELLED
        return "finished" if is_over else self.state.value
