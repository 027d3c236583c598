"""The invariants of a job: each rule takes facts of one moment and says what is wrong. Pure."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from skitter.errors import UsageError
from skitter.frontier.requests import identify_request, with_lane
from skitter.frontier.seen import is_seen_set_of
from skitter.frontier.sites.snapshots import TICKETS, priority_of
from skitter.frontier.totals import KNOWN_FIELDS, WORDS
from skitter.frontier.transport.messages import PURGE, is_state
from skitter.model import MESSAGES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from skitter.frontier.sites.snapshots import HostFacts, RequestFacts
    from skitter.settings import JobOptions, Layout


MAX_PROBLEMS = 1000


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """A broken rule."""

    subject: str  # a fingerprint, a host, a key or a counter
    says: str


@dataclass(slots=True, kw_only=True)
class AuditReport:
    """What was checked, what was wrong, and what could not be compared."""

    job: str
    counts: Counter[str] = field(default_factory=Counter)
    problems: set[Problem] = field(default_factory=set)
    unchecked: list[str] = field(default_factory=list)
    requests: int = 0
    hosts: int = 0
    fingerprints: int = 0

    @property
    def clean(self) -> bool:
        return not self.problems

    @property
    def exact(self) -> bool:
        """Everything was compared."""
        return not self.unchecked

    @property
    def full(self) -> bool:
        """There may be more problems than are listed."""
        return len(self.problems) >= MAX_PROBLEMS

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "job": self.job,
            "clean": self.clean,
            "exact": self.exact,
            "counts": dict(self.counts),
            "checked": {
                "requests": self.requests,
                "hosts": self.hosts,
                "fingerprints": self.fingerprints,
            },
            "unchecked": self.unchecked,
            "problems": sorted(self.problems),
        }

    def note(self, subject: str, findings: Iterable[str]) -> None:
        for says in islice(findings, max(0, MAX_PROBLEMS - len(self.problems))):
            self.problems.add(Problem(subject, says))


STATES = (
    *("pending", "delayed", "trapped", "unhandled", "leased"),
    *("done", "dead", "excluded", "dropped"),
)


def request_problems(facts: RequestFacts, layout: Layout, shard: int) -> Iterator[str]:
    """A request is in one state, with its own body and what that state needs."""
    places = (
        *("queued", "delayed", "trapped", "unhandled", "leased"),
        *("dead", "excluded", "resting"),
    )
    states = [name for name in places if getattr(facts, name)]
    if len(states) > 1:
        yield f"is in several states: {', '.join(states)}"
    if states and not facts.host:
        yield f"is {states[0]} but has no body"
    if facts.host and not states:
        yield "has a body but no state"
    if facts.strayed:
        yield "is in another host's queue"
    if (states or facts.host) and not facts.seen:
        yield "is not in the seen-set"
    yield from _body_problems(facts, layout, shard)
    yield from _state_problems(facts)
    yield from _depth_problems(facts)


def _depth_problems(facts: RequestFacts) -> Iterator[str]:
    """Checks what lua/lib/depth.lua stores. A job that got its limit late has less of it."""
    if facts.depth and not facts.depth.isdigit():
        yield f"has depth {facts.depth!r}, which is not a number"
    if facts.depth and not facts.seen:
        yield "has a depth but is not in the seen-set"
    is_again = facts.request is not None and facts.request.visited is not None
    if facts.has_outlinks and ((facts.host and not is_again) or not facts.seen):
        yield "has links to offer again but is not done"
    if facts.reopenable is not None and not facts.has_outlinks:
        yield "should offer its links again but has none"


def _body_problems(facts: RequestFacts, layout: Layout, shard: int) -> Iterator[str]:
    if not facts.host:
        return
    if facts.request is None:
        yield "has a body that cannot be read"
        return
    if facts.request.url.startswith(MESSAGES):  # not a URL: feed.py
        return
    try:
        url, own, host = identify_request(facts.request, layout)
    except UsageError as error:
        yield f"has a body that is not a request: {error}"
        return
    if own != facts.fingerprint:
        yield f"has the body of another request: {url}"
    elif with_lane(host, facts.request.lane) != facts.host:
        yield f"is a request to {host} but is queued for {facts.host}"
    elif layout.shard_of(host) != shard:
        yield f"belongs in shard {layout.shard_of(host)}"


def _state_problems(facts: RequestFacts) -> Iterator[str]:
    """A request has what its state needs: a place in the queue, a holder, a time, a reason."""
    if facts.score is not None and facts.request is not None:
        if priority_of(facts.score) != facts.priority:
            yield f"has priority {facts.priority} but is queued with another"
        elif facts.score != math.floor(facts.score):
            yield "has a fractional score in its queue"
    if facts.leased != bool(facts.token):
        yield "has a lease but no holder" if facts.leased else "has a holder but no lease"
    if facts.on_probation and not facts.leased:
        yield "uses its shape's budget without a lease"
    moments = ("delayed_until", "leased_until", "dead_since", "excluded_since", "visited_again_at")
    for name in moments:
        moment = getattr(facts, name)
        if moment is not None and not 0 <= moment < math.inf:
            yield f"is {name.replace('_', ' ')} an impossible time"
    yield from _trouble_problems(facts)


def _trouble_problems(facts: RequestFacts) -> Iterator[str]:
    if facts.troubled and facts.trouble is None:
        yield "has a failure record that cannot be read"
    if facts.troubled and not facts.host:
        yield "is gone but still has a failure record"
    if (facts.dead or facts.excluded) and not facts.troubled:
        yield f"is {'dead' if facts.dead else 'excluded'} without a reason"


def host_problems(facts: HostFacts, options: JobOptions) -> Iterator[str]:
    """A host is where it belongs."""
    if not facts.readable:
        yield "has a record that cannot be read"
        return
    if facts.due and facts.waiting:
        yield "is both due and waiting"
    if (facts.due or facts.waiting) and not facts.queued:
        yield "is due or waiting but has no requests"
    if facts.listed_in != ("due" if facts.due else "wait" if facts.waiting else "nowhere"):
        yield f"is marked {facts.listed_in!r} but is not"
    if facts.best is not None and facts.best != facts.head_priority:
        yield f"is ranked by priority {facts.best}, but its first request has another"
    elif facts.due and facts.best is not None and facts.rank != _rank_of(facts):
        yield "has the wrong rank among the due hosts"
    if facts.opens_ms is not None and math.isinf(facts.opens_ms):
        yield "waits forever"
    if facts.may_be_asked(options) and facts.queued and not (facts.due or facts.waiting):
        yield f"has {facts.queued} requests but is never scheduled"


def _rank_of(facts: HostFacts) -> float:
    """The rank that lua/lib/settle.lua gives it."""
    return -(facts.best or 0) * TICKETS + facts.turn


def equation_problems(counts: Mapping[str, int]) -> Iterator[str]:
    """seen equals the sum of the states, and what follows from that."""
    known = Counter(counts)
    if known["seen"] != sum(known[state] for state in STATES):
        sums = " + ".join(f"{state} {known[state]}" for state in STATES)
        yield f"seen {known['seen']} is not {sums}"
    alive = sum(known[state] for state in STATES if state not in ("done", "dropped"))
    if known["bodies"] != alive + known["revisits"]:
        again = f" and {known['revisits']} to revisit" if known["revisits"] else ""
        yield f"{known['bodies']} bodies for {alive} unfinished requests{again}"
    if known["holders"] != known["leased"]:
        yield f"{known['holders']} holders for {known['leased']} leases"
    if known["damaged"]:
        yield f"{known['damaged']} damaged records were found, and replaced or given up"
    yield from (f"{name} is negative: {value}" for name, value in counts.items() if value < 0)


def budget_problems(budget: Mapping[str, str]) -> Iterator[str]:
    """All shards together get no more than max_pages, by the record of grant.lua."""
    strange = [
        f"has {value!r} for {name}" for name, value in budget.items() if not _is_number(value)
    ]
    if budget and not strange:
        signs = {"granted": 1, "ceded": -1}
        out = sum(signs.get(name.partition(":")[0], 0) * int(budget[name]) for name in budget)
        if out > int(budget.get("limit", 0)):
            yield f"granted {out} pages, over the limit of {budget.get('limit', 0)}"
    yield from (f"{says}, which is not a number" for says in strange)


def share_problems(counts: Mapping[str, int], taken_back: str) -> Iterator[str]:
    """A shard stays within its share of max_pages, and no more is taken back than it ceded."""
    known = Counter(counts)
    used, share = known["done"] + known["leased"], known["granted"] - known["ceded"]
    if known["max_pages"] and used > share:
        yield f"has {used} pages done or leased, but was granted {share}"
    if _is_number(taken_back) and int(taken_back) > known["ceded"]:
        yield f"ceded {known['ceded']} pages, but {taken_back} were taken back"


#: A counter, and a phrase for what it must equal.
SUMS = {
    "pending": "the queues hold",
    "shelved": "the hosts report",
    "done": "the pages of all hosts add up to",
    "seen": "the sets hold",
}


def sum_problems(counter: str, *, counted: int, found: int) -> Iterator[str]:
    """A counter equals what it counts."""
    if counted != found:
        yield f"counts {counted}, but {SUMS[counter]} {found}"


def control_problems(control: Mapping[str, str], layout: Layout) -> Iterator[str]:
    """The state is known, limits are numbers, the Bloom filter matches the layout."""
    state = control.get("state")
    if state is None:
        yield "has no state, so no worker can use it"
    elif state == PURGE:
        yield "is half purged: run `skitter purge` to finish"
    elif not is_state(state):
        yield f"has the state {state!r}, which is unknown"
    for name, value in control.items():
        if name in KNOWN_FIELDS - WORDS and not _is_number(value.replace(".", "", 1)):
            yield f"has {value!r} for {name}, which is not a number"
    if not is_seen_set_of(control, layout):
        yield "has a different Bloom filter from the one the job was created with"


def is_workable(control: Mapping[str, str], layout: Layout) -> bool:
    """Whether scripts run on the shard at all."""
    return control.get("state", PURGE) != PURGE and is_seen_set_of(control, layout)


def _is_number(text: str) -> bool:
    return text.removeprefix("-").isascii() and text.removeprefix("-").isdigit()


def is_fingerprint(name: str) -> bool:
    """A number of 64 bits, in decimal."""
    return name.isascii() and name.isdigit() and len(name) <= 20


def is_host(name: str) -> bool:
    """A host, or any slot that offers.py accepts. Invalid UTF-8 was read with replacements."""
    return bool(name) and name.isprintable() and not {" ", "\ufffd"} & set(name)
