"""The values passed between the layers.

Those that exist once per URL are msgspec structs: creating one costs a tenth of a dataclass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from skitter.errors import BadOption

#: Dead letters that were never requests: from the feed, adopted from another system, or yielded by
#: a spider but impossible to send. Their URL begins with this word.
Origin = Literal["feed", "adopted", "unsent"]
MESSAGES = ("feed:", "adopted:", "unsent:")


#: Plain HTTP, a browser, or files that are downloaded.
Lane = Literal["", "browser", "file"]
LANES: tuple[Lane, ...] = ("", "browser", "file")
#: The field that says of which type an item is, if its spider declares several.
TYPE: Final = "_type"


class _Address(msgspec.Struct, frozen=True, omit_defaults=True):
    url: str  # the only positional field


class Visited(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known about a page from its last visit."""

    etag: str = ""
    modified: str = ""  # Last-Modified, unparsed
    digest: bytes = b""  # of its body
    interval_s: float = 0.0  # until the next visit
    visits: int = 0
    at: float = 0.0  # seconds since the epoch
    missing: int = 0  # how many visits in a row have not found it (404, 410)
    kept: str = (
        ""  # where an archive has it, as a line of its index; see archive/index.py `place_of`
    )

    @property
    def found_nothing(self) -> bool:
        """The page was gone. If it comes back, it counts as changed whatever its headers say."""
        return not self.digest


class Request(_Address, frozen=True, kw_only=True, omit_defaults=True):
    """A page to fetch. The frontier stores it as msgpack."""

    method: str = "GET"  # the HTTP method
    headers: dict[str, str] = {}  # sent in addition to the crawl's own
    body: bytes = b""  # text is sent as UTF-8
    depth: int = 0  # links from a start URL to here
    parent: str | None = None  # the URL of the page that links here
    #: The name of the spider's function for its page; None: the default one.
    handler: str | None = None
    meta: dict[str, Any] = {}  # data of your own for the handler: `page.meta`
    priority: int = 0  # higher is sooner; -1000 to 1000
    #: Requests are equal if their canonical URL, method and body are; a value here sets this one
    #: apart, so that it is fetched even though the page is known.
    unique: str = ""
    #: For engines with their own notion of equal requests: used instead of URL, method and body.
    identity: str = ""
    #: The host to be polite to, if it is not the URL's.
    slot: str = ""
    #: Who fetches it: each lane has its own queue at each host, and workers that serve it.
    lane: Lane = ""
    #: The class of sessions to fetch it with: see skitter.SessionPool.
    session: str = ""
    visited: Visited | None = None  # None: this is the first visit
    #: Of a start page in a round of a schedule: when that was due, in ms. Where it redirects to is
    #: visited again, too.
    round: int = 0
    #: Of a page that is handled again (`skitter redo`): where the archive has its response, as a
    #: line of its index; or `fetch`.
    redo: str = ""
    #: Seconds for the whole request, overriding fetch.total_timeout_s and first_byte_timeout_s.
    timeout_s: float | None = None
    #: Lowers fetch.max_body_mb for this request; cannot raise it.
    max_body_mb: float | None = None
    #: The country to leave from, as two lower case letters, for proxies that support it.
    country: str = ""
    #: `Request(json=...)` becomes the body, with its content type; None afterwards.
    json: Any = None

    if TYPE_CHECKING:

        def __init__(  # noqa: PLR0913 - the fields, two of which accept more types than they hold
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
        if type(self.body) is not bytes and isinstance(self.body, str):  # the cheaper check first
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
        """Whether its URL alone identifies it: a GET with nothing to set it apart."""
        return self.method == "GET" and not (
            self.body or self.unique or self.identity or self.slot or self.session
        )


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """A server's answer to one request; a redirect is an answer like any other."""

    url: str  # as requested; if rendered, where the browser ended up
    status: int  # the HTTP status
    headers: tuple[tuple[str, str], ...] = ()  # names in lower case, in order of arrival
    body: bytes = b""  # decompressed
    remote_address: str | None = None  # the IP that answered
    elapsed_s: float = 0.0  # from sending the request to the end of the body
    connect_s: float = 0.0  # to connect, with TLS; 0: reused connection, or unknown
    first_byte_s: float = 0.0  # until the headers arrived; 0: unknown
    moved_bytes: int = 0  # sent and received by a browser, including subresources
    screenshot: bytes | None = None  # of a rendered page, if requested

    def header(self, name: str, default: str | None = None) -> str | None:
        """The first header of that name, ignoring case."""
        name = name.lower()
        return next((value for key, value in self.headers if key == name), default)


class State(StrEnum):
    """What the operator wants a job to do."""

    RUNNING = "running"
    PAUSED = "paused"  # lease nothing; accept new URLs
    DRAINING = "draining"  # finish what is queued; accept nothing new
    CANCELLED = "cancelled"  # lease nothing, accept nothing


class Added(StrEnum):
    """What became of an offered request."""

    NEW = "new"
    SEEN = "seen"
    FULL = "full"  # over max_pending: offer it again later
    DEEP = "deep"  # beyond max_depth
    CLOSED = "closed"  # the job is draining or cancelled


class BadEntry(msgspec.Struct, frozen=True):
    """An entry that cannot be crawled, by its position in the batch, from 1."""

    line: int
    reason: str


class Pushed(msgspec.Struct, kw_only=True):
    """What became of pushed URLs. `bad` lists the first hundred that cannot be crawled."""

    new: int = 0  # added to the queue
    seen: int = 0  # known already
    deep: int = 0  # beyond max_depth
    bad: list[BadEntry] = []  # cannot be crawled


class Ended(StrEnum):
    """What became of a returned lease."""

    DONE = "done"
    RETRIED = "retried"
    BURIED = "buried"
    RELEASED = "released"
    EXTENDED = "extended"
    LOST = "lost"  # no longer ours; nothing was changed


class Pace(msgspec.Struct, frozen=True, eq=False):
    """When a leased request may leave, if its host wants a delay."""

    moment_ms: int  # when its turn was, on the server's clock
    delay_s: float
    slack_s: float  # it may leave this late without asking; 0: it is alone at its host
    since: float  # at or before that moment, on this process's monotonic clock

    def __eq__(self, other: object) -> bool:
        """A lease that is granted again is the same lease, whenever it was requested."""
        return isinstance(other, Pace) and self._said == other._said

    def __hash__(self) -> int:
        return hash(self._said)

    @property
    def _said(self) -> tuple[int, float, float]:
        return self.moment_ms, self.delay_s, self.slack_s


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """A request that is ours until the lease expires. The token proves it."""

    request: Request  # what to fetch
    fingerprint: str  # identifies the page in the frontier
    host: str  # whom to be polite to
    priority: int  # that of the request, less one for each retry
    attempt: int  # 1 for the first try
    losses: int  # how many workers vanished while holding it
    token: str  # proves that the lease is ours
    pace: Pace | None = None  # None: no delay
    #: When it was added, in seconds since the epoch, by the clock of who added it. None: unknown.
    added_at: float | None = None

    @property
    def url(self) -> str:
        """The URL of the request."""
        return self.request.url

    @property
    def moment_ms(self) -> int:
        """The turn of its host; 0: the host has no delay."""
        return self.pace.moment_ms if self.pace else 0


class Leased(msgspec.Struct, frozen=True):
    """The reply to `lease`: what may be fetched now, and when to ask again for more."""

    leases: list[Lease]
    state: State
    again_in_s: float | None  # None: nothing is waiting for its time
    has_files: bool = False  # the file lane has some that may be downloaded now


class SessionNews(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an attempt learned about its session, as lua/lib/feedback.lua reads it."""

    name: str  # site/class
    number: int = 0  # 0: the existing one, or a new one
    fields: list[str] = []  # name, value, ...: cookies that were set
    gone: list[str] = []  # names of those that expired
    errors: float = 0.0
    logged_out: int = 0  # a page fetched after this many logins says that we are logged out


class Revisit(msgspec.Struct, frozen=True, kw_only=True):
    """What a visit found, and when the next one is: never, if the page is gone."""

    after_ms: int
    how: Literal["new", "changed", "unchanged", "missing", "gone"]
    record: msgspec.Raw  # as stored in `task`
    emptied: msgspec.Raw | None = None  # tells loaders that the page has no items any more


class Feedback(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What an attempt learned besides its result. Applied in the step that ends the lease, and only
    if the lease is still ours: lua/lib/feedback.lua."""

    rest_ms: int = 0  # leave the host alone for this long, e.g. Retry-After
    latency_ms: int | None = None  # how long the host took to answer, if it wants a delay
    left_ms: int = 0  # when the request left, on the server's clock, if the host wants a delay
    incident: int = 0  # how the host signalled overload: frontier/delays.py
    rendering: str = ""  # for a page with render="auto": `frontier.rendering.rendering_field`
    page: str = ""  # for a page that is done: `frontier.pages.page_facts`
    session: SessionNews | None = None
    yields: dict[int, int] = {}  # number of a URL shape -> the page's value to it
    archived: str = ""  # for a page that is done: its line in the archive's index
    cached: bool = False  # the archive answered, not the site
    unused_ms: int = 0  # the turn of its host, if no request left: others may have it
    emptied: msgspec.Raw | None = None  # rows of earlier visits to the page are not valid any more
    revisit: Revisit | None = None


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """A successful lease: what was found, stored in the same step that ends it."""

    lease: Lease  # what was leased
    items: Sequence[Any] = ()  # what the handler yielded
    links: Sequence[Request] = ()  # requests to add
    #: Links the frontier already has at this depth or less: offered again if a shorter way is
    #: found.
    again: Sequence[Request] = ()
    feedback: Feedback | None = None  # what the frontier learns about the host


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A failed lease: retried after a delay, or dead after the last try."""

    lease: Lease  # what was leased
    error: str  # the reason, as shown to people
    after_s: float | None = None  # None: exponential backoff with full jitter
    feedback: Feedback | None = None  # what the frontier learns about the host
    excluded_by: str = ""  # the job's patterns (`Limits.patterns`): nothing has failed


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A URL that was given up, and why."""

    shard: int
    fingerprint: str
    url: str
    reason: str
    at: float  # seconds since the epoch, server's clock
    failures: int
    losses: int
    priority: int
    request: Request

    @property
    def is_message(self) -> bool:
        """It was never a request of the frontier: its text is in `request.meta`."""
        return self.url.startswith(MESSAGES)

    @property
    def can_be_fetched(self) -> bool:
        return bool(self.url) and not self.is_message


@dataclass(frozen=True, slots=True)
class Result:
    """One item from a completed page; or a notice that the page has none any more."""

    id: str  # its position in the stream
    fingerprint: str  # identifies the page
    index: int  # position among the page's items; -1: it has none
    url: str  # of the page
    item: Any  # what the handler yielded
    fetched_at: float  # seconds since the epoch, server's clock, when the page was completed
    #: Sent apart from the completion of its page, so perhaps seconds earlier than other items of
    #: the same visit.
    is_part: bool = False
    is_later: bool = False  # since the job has begun to visit pages again

    @property
    def is_notice(self) -> bool:
        """Not an item: loaders remove the rows of earlier visits to its page."""
        return self.index < 0


#: The keys of a `File`, which is a plain dict once its item is stored.
FILE_KEYS = frozenset({"url", "path", "size", "type", "sha256"})


def files_in(item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The files that an item names, at any depth."""
    values = list(item.values())
    for value in values:  # which grows meanwhile: an item may be nested deeper than our stack
        if isinstance(value, dict):
            if value.keys() == FILE_KEYS:
                yield value
            else:
                values += value.values()
        elif isinstance(value, list | tuple):
            values += value


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a job at one moment, over all its shards."""

    job: str  # the name of the job
    state: State  # what the operator wants it to do
    pending: int = 0  # in the queue
    delayed: int = 0  # waiting for a time, such as that of a retry
    leased: int = 0  # being fetched
    done: int = 0  # completed
    dead: int = 0  # given up; kept with the reason
    excluded: int = 0  # by the job's patterns, while they waited; neither fetched nor dead
    dropped: int = 0  # dead letters that were removed
    seen: int = 0  # accepted, each URL once
    shelved: int = 0  # pending, but their host's budget is spent
    trapped: int = 0  # held because their shape's budget is spent
    unhandled: int = 0  # held because no worker has their handler
    looks: int = 0  # shapes among those that get another look when nothing else is left
    revisits: int = 0  # done, and to be revisited
    due: int = 0  # revisits that are due
    next_visit_s: float | None = None  # until there is one
    again: int = 0  # done, and made pending again by a round of a schedule
    new: int = 0  # pages visited for the first time, in a job with revisits
    changed: int = 0  # revisited, and different
    unchanged: int = 0  # revisited, and the same: no handler ran
    missing: int = 0  # revisited, and not found; visited once more before they count as gone
    gone: int = 0  # revisited, and gone (404, 410)
    items: int = 0  # results waiting to be read
    duplicates: int = 0  # offers of known URLs
    refused: int = 0  # too deep, or offered to a closed job
    kept_out: dict[str, int] = {}  # links not followed, by kind
    retried: int = 0  # failed attempts that were tried again
    lost: int = 0  # leases that expired
    late: int = 0  # ended after that, without effect
    stored: int = 0  # items stored by a loader
    updated: int = 0  # rows of earlier visits that they replaced
    changes: int = 0  # noted in the output: `skitter changes`
    rejected: int = 0  # items that could not be stored
    blocked: int = 0  # block pages received
    incidents: int = 0  # how often a host was slowed down because it signalled overload
    skipped: int = 0  # pages of a type that the spider does not want
    undeclared: int = 0  # values of fields that the declared item type lacks: dropped
    cached: int = 0  # pages that the archive answered, not the site
    capped: int = 0  # pages with more items or links than allowed
    damaged: int = 0  # unreadable records that were restarted or given up
    reopened: int = 0  # done, but to offer their links again: a shorter way, or a higher max_depth
    hosts: int = 0  # hosts that the job knows
    fed: int = 0  # messages in the feed list
    today: int = 0  # pages done since 00:00 UTC, if there is a limit on them
    crawled: bool = False  # nothing left to fetch: nothing pending, delayed, leased or fed
    finished: bool = False  # and no item waits for a loader

    @property
    def remaining(self) -> int:
        """Requests still to be fetched, without those beyond their host's budget."""
        return self.pending - self.shelved + self.delayed + self.leased

    @property
    def status(self) -> str:
        """The state shown to users: running, paused, draining, cancelled or finished."""
        is_over = self.finished and self.state is not State.CANCELLED
        return "finished" if is_over else self.state.value
