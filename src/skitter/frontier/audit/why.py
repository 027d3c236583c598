"""Why a URL is where it is: what the frontier knows about one page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from skitter.errors import BadURL, UsageError
from skitter.frontier.audit.rules import is_fingerprint
from skitter.frontier.completions import open_outlinks
from skitter.frontier.control import host_name
from skitter.frontier.feed import find_refusal
from skitter.frontier.requests import identify_request, slot_of
from skitter.frontier.sites.learned import DonePage, find_page, stored_robots
from skitter.frontier.sites.snapshots import (
    HostFacts,
    RequestFacts,
    Trouble,
    host_facts,
    request_facts,
)
from skitter.frontier.totals import read_totals
from skitter.frontier.transport.shard import scan_names
from skitter.model import Request, State
from skitter.observe.report import duration, moment, some
from skitter.patterns import shape_of
from skitter.urls import fingerprint, fingerprint_of, identify

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.transport.shard import Shard
    from skitter.model import Stats
    from skitter.settings import JobOptions
    from skitter.urls import Target


AT_ONCE = 50  # pages, of a few kilobytes each
REMEMBERED = 1_000_000


class Beyond(NamedTuple):
    """A link that is too deep."""

    depth: int
    parent: str | None
    priority: int


async def find_beyond(frontier: Frontier, fingerprint: str) -> Beyond | None:
    """Find a link beyond max_depth on the pages whose links were not all added.

    The frontier refuses such links, but the pages they were found on keep them: it scans those
    pages, in small steps.
    """
    passed: set[str] = set()  # pages of a site share most of their links
    for shard in frontier.shards:
        async for links in _reopenable_links(shard):
            for link in links:
                if link.is_plain and link.url in passed:
                    continue
                if _fingerprint(link, frontier) == fingerprint:
                    return Beyond(link.depth, link.parent, link.priority)
                if link.is_plain and len(passed) < REMEMBERED:
                    passed.add(link.url)
    return None


async def _reopenable_links(shard: Shard) -> AsyncIterator[list[Request]]:
    async for fps in scan_names(shard, "reopenable"):
        for first in range(0, len(fps), AT_ONCE):
            some = fps[first : first + AT_ONCE]
            depths = await shard.command("HMGET", "depths", *some)
            packed = await shard.command("HMGET", "outlinks", *some)
            for depth, links in zip(depths, packed, strict=True):
                yield open_outlinks(links or b"", int(depth or 0))


def _fingerprint(request: Request, frontier: Frontier) -> str:
    try:
        return identify_request(request, frontier.layout)[1]
    except UsageError:
        return ""


#: Stored rules, a URL, and the user agent they were read for (None: unknown) -> a sentence.
ReadRobots = Callable[[bytes, str, str | None], str]
#: Waits of at least this length are given in minutes and hours.
LONG_S: Final = 120.0
#: For reasons that workers do not record as a sentence.
REFUSED_BY: Final = {
    "robots": "robots.txt disallows it for {reason}",
    "scope": "it is out of scope: {reason}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One page: which state it is in, and why."""

    url: str
    canonical: str
    fingerprint: str
    host: str
    #: unknown, refused, pending, delayed, trapped, unhandled, leased, done, dead, excluded
    state: str
    because: list[str] = field(default_factory=list)
    method: str | None = None
    found_on: str | None = None
    added_at: float | None = None  # None: unknown
    depth: int | None = None
    priority: int | None = None
    failures: int = 0
    losses: int = 0
    last_error: str | None = None
    done: DonePage | None = None  # its outcome, if still known
    refused_by: str | None = None  # robots, scope, ...: see Refusal
    robots_name: str | None = None  # the user agent robots.txt was read for


async def why(  # noqa: PLR0913 - what goes into a fingerprint, by keyword
    frontier: Frontier,
    url: str,
    *,
    method: str = "GET",
    body: bytes = b"",
    identity: str = "",
    unique: str = "",
    robots: ReadRobots | None = None,
) -> Explanation:
    """Explain a request, given by all that goes into its fingerprint. Raises BadURL.

    `robots` finds the line of a stored robots.txt that decided about a URL.
    """
    target = identify(url, frontier.layout.canonical)
    plain = fingerprint(target.canonical, method=method, body=body, unique=unique)
    fp = fingerprint_of(identity) if identity else plain
    shard, facts = await _look_up(frontier, fp, slot_of(target.host, frontier.layout))
    found = await _explain(frontier, shard, facts, asked=url, target=target)
    if not facts.seen:
        found = await _refused(frontier, found) or await _too_deep(frontier, found) or found
    return await _with_rule(frontier, found, robots) if robots else found


async def why_fingerprint(frontier: Frontier, fp: str) -> Explanation:
    """Explain a request by its fingerprint. Of a request that is done, the URL is not kept."""
    shard, facts = await _look_up(frontier, fp, "")
    return await _explain(frontier, shard, facts)


async def why_all(frontier: Frontier, url: str) -> list[Explanation]:
    """Explain every unfinished request for a URL, with any method, body, `unique` or slot.

    Their fingerprints differ, so this scans all bodies of the job, in small steps.
    """
    wanted = identify(url, frontier.layout.canonical).canonical
    found: dict[str, Explanation] = {}
    for shard in frontier.shards:
        async for fps in scan_names(shard, "task"):
            sound = [(fp, "") for fp in fps if is_fingerprint(fp)]
            for facts in await request_facts(shard, sound):
                target = _target_of(facts, frontier)
                if target and target.canonical == wanted:
                    found[facts.fingerprint] = await _explain(frontier, shard, facts, asked=url)
    return list(found.values())


def _target_of(facts: RequestFacts, frontier: Frontier) -> Target | None:
    """None: its body cannot be read, or it is not a URL but, say, a fed message."""
    try:
        return identify(facts.request.url, frontier.layout.canonical) if facts.request else None
    except BadURL:
        return None


async def look_at_host(frontier: Frontier, name: str) -> HostFacts:
    """One host, as in a URL: shop.example:8080."""
    host = slot_of(host_name(name), frontier.layout)
    [facts] = await host_facts(frontier.shard_for(host), [host])
    return facts


async def _explain(
    frontier: Frontier,
    shard: Shard,
    facts: RequestFacts,
    *,
    asked: str = "",
    target: Target | None = None,
) -> Explanation:
    request, trouble = facts.request, facts.trouble or Trouble()
    target = target or _target_of(facts, frontier)
    url = asked or (request.url if request else "")
    canonical = target.canonical if target else ""
    slot = facts.host or (slot_of(target.host, frontier.layout) if target else "")
    [host] = await host_facts(shard, [slot])
    state = state_of(facts)
    done = await find_page(shard, facts.fingerprint) if state == "done" else None
    totals = await read_totals(frontier.shards)
    now_s = await frontier.server_time()
    options = await frontier.fresh_options()
    return Explanation(
        url=url,
        canonical=canonical,
        fingerprint=facts.fingerprint,
        host=slot,
        state=state,
        because=[
            *_same_page(url, canonical, request),
            *(_outcome(done) if done else _standing(facts, now_s)),
            *(_trapped(facts, frontier.job) if facts.trapped else []),
            *(_unhandled(facts, frontier.job) if facts.unhandled else []),
            *_next_visit(facts, now_s),
            *_gone(facts, options),
            *(_waiting(host, options, totals.stats.state, now_s) if facts.queued else []),
            *_lane(facts),
            *_budget(options, totals.stats, facts),
        ],
        method=request.method if request else None,
        found_on=request.parent if request else None,
        added_at=facts.added_at,
        depth=_depth_of(request, facts) if request else None,
        priority=facts.priority if request else None,
        failures=trouble.failures,
        losses=trouble.losses,
        last_error=trouble.error or None,
        done=done,
    )


async def _refused(frontier: Frontier, unknown: Explanation) -> Explanation | None:
    """Explain a link that was not followed. None: it is not among the newest of those."""
    met = await find_refusal(frontier, unknown.fingerprint)
    if met is None:
        return None
    says = REFUSED_BY.get(met.kind, "").format(reason=met.reason) or met.reason
    because = [says, *([f"it was found on {met.found_on}"] if met.found_on else [])]
    return replace(
        unknown,
        state="refused",
        because=because,
        found_on=met.found_on or None,
        refused_by=met.kind,
        robots_name=met.reason if met.kind == "robots" else None,
    )


async def _with_rule(frontier: Frontier, found: Explanation, robots: ReadRobots) -> Explanation:
    """Add the line of robots.txt, where that is the reason."""
    is_dead = found.state == "dead" and (found.last_error or "").startswith("robots.txt disallows")
    if not is_dead and found.refused_by != "robots":
        return found
    stored = await stored_robots(frontier, identify(found.canonical).host)
    said = robots(stored, found.canonical, found.robots_name) if stored else ""
    says = said or "its robots.txt is no longer stored: `skitter fetch` fetches it again"
    return replace(found, because=[*found.because, says])


async def _too_deep(frontier: Frontier, unknown: Explanation) -> Explanation | None:
    """Explain a link that is too deep. None: it was never found."""
    met = await find_beyond(frontier, unknown.fingerprint)
    if met is None:
        return None
    limit = (await frontier.fresh_options()).limits.max_depth
    is_beyond = limit is not None and met.depth > limit
    then = (
        f"the limit is {limit}: raise it with `skitter set {frontier.job} --max-depth {met.depth}`"
        if is_beyond
        else "it will be offered again: is a worker running?"
    )
    return replace(
        unknown,
        state="refused" if is_beyond else "unknown",
        because=[f"it was found at depth {met.depth}, on {met.parent or 'an unknown page'}", then],
        found_on=met.parent,
        depth=met.depth,
        priority=met.priority,
    )


async def _look_up(frontier: Frontier, fp: str, host: str) -> tuple[Shard, RequestFacts]:
    """Try the host's shard first; a request with its own slot may be in another."""
    home = frontier.shard_for(host)
    for shard in (home, *frontier.shards):
        [facts] = await request_facts(shard, [(fp, "")])
        if facts.seen:
            return shard, facts
    return home, facts


def _depth_of(request: Request, facts: RequestFacts) -> int:
    """Its depth when it was found, unless a shorter path was found since."""
    return min(request.depth, int(facts.depth)) if facts.depth.isdigit() else request.depth


def state_of(facts: RequestFacts) -> str:
    if facts.queued:
        return "pending"
    for state in ("delayed", "trapped", "unhandled", "leased", "dead", "excluded"):
        if getattr(facts, state):
            return state
    return "done" if facts.seen else "unknown"


def _same_page(asked: str, canonical: str, request: Request | None) -> list[str]:
    if request and request.url != asked:
        return [f"it is the same page as {request.url}"]
    return [f"its canonical form is {canonical}"] if asked != canonical else []


def _standing(facts: RequestFacts, now_s: float) -> list[str]:
    error = (facts.trouble or Trouble()).error
    if facts.delayed_until is not None:
        why_again = f", after: {error}" if error else ""
        return [f"its next attempt is due {_when(facts.delayed_until, now_s)}{why_again}"]
    if facts.leased_until is not None:
        holder = facts.token.rsplit(".", 2)[0]  # name, number of the call, second
        return [f"worker {holder} has it; the lease ends {_when(facts.leased_until, now_s)}"]
    if facts.dead_since is not None:
        return [
            f"it was given up at {moment(facts.dead_since)}: {error}",
            "bring it back with `skitter dead retry`",
        ]
    if facts.excluded_since is not None:
        return [
            f"it has been excluded since {moment(facts.excluded_since)}: {error}",
            "it comes back when `skitter set` changes that option",
        ]
    if facts.trapped or facts.unhandled:
        return []
    if not facts.seen:
        return ["it was never pushed, and no handler found it"]
    return [] if facts.queued else ["it was finished, or dropped from the dead letters"]


def _outcome(done: DonePage) -> list[str]:
    """The outcome of a page that is done."""
    went = f"{done.status}, {done.size_bytes:,} bytes in {done.elapsed_s * 1000:,.0f} ms"
    parts = [f"it was done at {moment(done.at)} by {done.worker}: {went}"]
    if done.redirects_to:
        parts.append(f"it redirects to {done.redirects_to}")
    elif done.note:
        parts.append(f"its handler did not run: {done.note}")
    else:
        parts.append(f"its handler found {some(done.items, 'item')}")
    return [*parts, *([f"it restricts its use: {done.usage}"] if done.usage else [])]


def _next_visit(facts: RequestFacts, now_s: float) -> list[str]:
    at = facts.visited_again_at
    return [] if at is None else [f"its next visit is due {_when(at, now_s)}"]


def _gone(facts: RequestFacts, options: JobOptions) -> list[str]:
    visited = facts.request.visited if facts.request else None
    if facts.dead_since is None or visited is None or not visited.found_nothing:
        return []
    rows = "are removed from the output" if options.visits.revisit_prune else "stay"
    return [f"the page has gone since the last visit: its rows {rows} (revisit_prune)"]


def _trapped(facts: RequestFacts, job: str) -> list[str]:
    shape = shape_of(facts.request.url) if facts.request else "its shape"
    return [
        f"it is held because many pages like {shape} are done: it comes last, or never if there "
        "are ten times too many",
        f"for more of them, raise the budget: `skitter set {job} --shape-budget 10000`, or none",
    ]


def _unhandled(facts: RequestFacts, job: str) -> list[str]:
    name = facts.request.handler if facts.request else None
    return [
        f"no worker has handler {name!r}: it waits for one that has",
        f"start one with a spider that has it: `skitter worker SPIDER --job {job}`",
    ]


def _waiting(host: HostFacts, options: JobOptions, state: State, now_s: float) -> list[str]:
    """What keeps a pending request from being leased now."""
    reasons = []
    if state in (State.PAUSED, State.CANCELLED):
        reasons.append(f"the job is {state.value}: run `skitter resume`")
    opens_at = host.opens_at(options)
    if opens_at > now_s:
        reasons.append(f"the next request to its host may leave {_when(opens_at, now_s)}")
        reasons += _slowed(host, options)
    limit = int(host.own.get("max_in_flight", options.politeness.max_in_flight))
    if host.in_flight >= limit:
        reasons.append(f"its host has {host.in_flight} of {limit} requests in flight")
    elif not host.may_be_asked(options):
        reasons.append(f"its host's budget is spent: {host.pages} pages")
    if host.queued > 1:
        reasons.append(f"its host has {host.queued:,} requests waiting")
    return reasons or ["it can be leased now: is a worker running?"]


def _lane(facts: RequestFacts) -> list[str]:
    if not (facts.queued and facts.request and facts.request.lane == "browser"):
        return []
    return ["it needs a browser: workers with --only http do not take it"]


def _slowed(host: HostFacts, options: JobOptions) -> list[str]:
    """The reason for the delay, if it is not the job's."""
    delay = host.delay(options)
    usual = delay.why == "configured"
    return [] if usual else [f"its host gets a request every {delay.seconds:g} s: {delay.why}"]


def _budget(options: JobOptions, stats: Stats, facts: RequestFacts) -> list[str]:
    if not facts.queued:
        return []
    limit, daily = options.limits.max_pages, options.limits.max_pages_per_day
    reasons = []
    if limit is not None and stats.done >= limit:
        reasons.append(f"the crawl's budget is spent: {limit:,} pages (max_pages)")
    if daily is not None and stats.today >= daily:
        reasons.append(f"the day's budget is spent until 00:00 UTC: {daily:,} pages")
    return reasons


def _when(moment_s: float, now_s: float) -> str:
    seconds = moment_s - now_s
    if seconds <= 0:
        return "now"
    return f"in {seconds:.1f} s" if seconds < LONG_S else f"in {duration(seconds)}"
