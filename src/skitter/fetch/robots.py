"""robots.txt by RFC 9309: what it says, what its absence means, and how long to rely on it.

    answer                    may fetch            ask again after
    2xx                       by its rules         24 h
    3xx (over 5 hops), 4xx    everything           24 h
    429, 5xx, no answer       nothing, for now     10 min or Retry-After, longer if it persists
    the same for 30 days      everything           24 h

`RobotsRules` is a value: its bytes go to the frontier, so that one fetch serves the whole fleet.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Final, Self

import msgspec
from protego import Protego

from skitter.errors import BadURL, FetchError, shorten
from skitter.fetch.http.exchange import retry_after_s
from skitter.model import Request, Response
from skitter.urls import join, origin_of

if TYPE_CHECKING:
    from skitter.fetch.http.fetcher import Fetcher, Leave
    from skitter.fetch.http.guard import Guard

MAX_BYTES: Final = 500 * 1024  # RFC 9309 2.5: parse at least this much
MAX_REDIRECTS: Final = 5  # 2.3.1.2
FRESH_S: Final = 24 * 3600.0  # 2.4
TROUBLE_S: Final = 600.0
LOST_AFTER_S: Final = 30 * 24 * 3600.0  # 2.3.1.4
MAX_USAGE: Final = 100  # rules of Content-Usage

_USER_AGENT: Final = re.compile(r"\s*user[ -]?agent\s*[:\s]([^#]*)", re.IGNORECASE)
_SITE_WIDE: Final = re.compile(r"\s*(?:sitemaps?|site-map|host)\s*[:\s]", re.IGNORECASE)
# Only a rule ends the list of names at the top of a group.
_RULE: Final = re.compile(
    r"[^#]*:|\s*(?:di[as]\w+|allow|crawl.delay|request.rate|visit.time)\s", re.IGNORECASE
)


class RobotsRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """What one origin allows. `dict=True`: the parsed form is kept beside the fields."""

    status: int  # 0: there was no answer
    fetched_at: float  # seconds since the epoch
    body: bytes = b""
    reason: str = ""  # why there was no answer
    retry_after_s: float | None = None
    unreachable_since: float | None = None

    @classmethod
    def from_response(
        cls,
        status: int,
        body: bytes = b"",
        *,
        at: float,
        retry_after: str | None = None,
        unreachable_since: float | None = None,
    ) -> Self:
        """The rules of a response. `unreachable_since` is that of the rules it replaces."""
        if _is_trouble(status):
            return cls(
                status=status,
                fetched_at=at,
                retry_after_s=retry_after_s(retry_after, now=at, longest_s=FRESH_S),
                unreachable_since=at if unreachable_since is None else unreachable_since,
            )
        parsed = _whole_lines(body) if 200 <= status < 300 else b""
        return cls(status=status, fetched_at=at, body=parsed)

    @classmethod
    def unreachable(cls, reason: str, *, at: float, unreachable_since: float | None = None) -> Self:
        """No answer: the network failed, or the response was not HTTP."""
        since = at if unreachable_since is None else unreachable_since
        return cls(status=0, fetched_at=at, reason=reason, unreachable_since=since)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        return msgspec.msgpack.decode(data, type=cls)

    def to_bytes(self) -> bytes:
        return msgspec.msgpack.encode(self)

    @property
    def ttl_s(self) -> float:
        """How long to rely on it. The longer a failure lasts, the less often it is checked."""
        if self._may_fetch_nothing:
            lasted_s = self.fetched_at - (self.unreachable_since or self.fetched_at)
            return min(FRESH_S, max(TROUBLE_S, lasted_s, self.retry_after_s or 0.0))
        return FRESH_S

    @property
    def sitemaps(self) -> tuple[str, ...]:
        return tuple(self._rules("*").sitemaps)

    def allows(self, url: str, user_agent: str) -> bool:
        if self._may_fetch_nothing:
            return False
        token = product_token(user_agent)
        return not self.body or self._rules(token).can_fetch(url, token)

    def crawl_delay_s(self, user_agent: str) -> float | None:
        """What Crawl-delay asks for, or Request-rate if slower; its time of day is ignored."""
        token = product_token(user_agent)
        rules = self._rules(token)
        rate = rules.request_rate(token)
        by_rate = rate.seconds / rate.requests if rate and rate.requests > 0 else 0.0
        delay_s = max(rules.crawl_delay(token) or 0.0, by_rate)
        return delay_s or None

    def usage(self, url: str, user_agent: str) -> str:
        """What Content-Usage says about a URL, such as `train-ai=n`; empty: nothing. AIPREF: the
        rule that matches most of the path."""
        rules = self._usage_rules(product_token(user_agent))
        if not rules:
            return ""
        fitting = [(len(path), said) for path, said, rule in rules if not rule.can_fetch(url, "*")]
        return max(fitting, default=(0, ""), key=itemgetter(0))[1]

    def _usage_rules(self, token: str) -> list[tuple[str, str, Protego]]:
        """Path, usage, and a matcher for the path; parsed once."""
        key = f"usage of {token}"
        found: list[tuple[str, str, Protego]] | None = self.__dict__.get(key)
        if found is None:
            is_there = b"content-usage" in self.body.lower()
            lines = lines_for(self._text, token) if is_there else []
            said = (value for field, value in (_split(line) for _, line in lines)
                    if field == "content-usage")  # fmt: skip
            found = self.__dict__[key] = [_usage_rule(one) for one in islice(said, MAX_USAGE)]
        return found

    def explain(self, url: str, user_agent: str) -> str:
        """The verdict in a sentence, with the deciding line; for people, so it may be slow."""
        if self._may_fetch_nothing:
            return f"robots.txt: nothing may be fetched for now ({self._trouble})."
        if self.unreachable_since is not None:
            return f"robots.txt: everything may be fetched ({self._trouble}, for 30 days)."
        if not 200 <= self.status < 300:
            return f"robots.txt: everything may be fetched (it answered {self.status})."
        verdict = "allowed" if self.allows(url, user_agent) else "disallowed"
        line = self._deciding_line(url, user_agent)
        return f"robots.txt: {verdict} by {line}." if line else f"robots.txt: {verdict}."

    @property
    def _may_fetch_nothing(self) -> bool:
        since = self.unreachable_since
        return since is not None and self.fetched_at - since < LOST_AFTER_S

    @property
    def _trouble(self) -> str:
        return f"it answered {self.status}" if self.status else self.reason or "no answer"

    def _rules(self, token: str) -> Protego:
        """The rules for us, parsed once."""
        rules: Protego | None = self.__dict__.get(token)
        if rules is None:
            ours = "\n".join(line for _, line in lines_for(self._text, token))
            rules = self.__dict__[token] = Protego.parse(f"User-agent: *\n{ours}")
        return rules

    @property
    def _text(self) -> str:
        return self.body.decode("utf-8-sig", "replace")

    def _deciding_line(self, url: str, user_agent: str) -> str | None:
        """2.2.2: the rule that matches most of the path."""
        final = "allow" if self.allows(url, user_agent) else "disallow"
        best, deciding = 0, None
        for number, line in lines_for(self._text, product_token(user_agent)):
            field, value = _split(line)
            if field == final and len(value) > best and _matches(value, url):
                best, deciding = len(value), f"line {number}, `{shorten(line.strip())}`"
        return deciding


def lines_for(text: str, token: str) -> list[tuple[int, str]]:
    """The numbered lines of the groups for a product (2.2.1: by its most specific name), and those
    that apply to all.

    Protego would keep the rules of each of ten thousand names.
    """
    groups: dict[str, list[tuple[int, str]]] = {}
    for_all: list[tuple[int, str]] = []
    current: list[list[tuple[int, str]]] = []
    in_names = False
    for number, line in enumerate(text.splitlines(), start=1):
        if name := _USER_AGENT.match(line):
            current = current if in_names else []
            in_names = True
            agent = _agent(name[1])
            if _speaks_to(agent, token):
                group = groups.setdefault(agent, [])
                current = [*(one for one in current if one is not group), group]
        elif _SITE_WIDE.match(line):
            for_all.append((number, line))
        elif _RULE.match(line):
            in_names = False
            for group in current:
                group.append((number, line))
    best = max(groups, key=lambda agent: (agent != "*", len(agent)), default="")
    return groups.get(best, []) + for_all


def _agent(value: str) -> str:
    """Names must not contain wildcards, but some do."""
    name = value.strip().lower()
    return name if name == "*" else name.replace("*", "")


def _speaks_to(agent: str, token: str) -> bool:
    """`bot` applies to `bot` and `bot-news`, but not to `mybot`."""
    if agent == "*":
        return True
    at = token.find(agent) if agent else -1
    return at == 0 or (at > 0 and not (token[at - 1].isalnum() or token[at - 1] in "-_"))


def open_rules(data: bytes) -> RobotsRules | None:
    """None: there are none, or they are unreadable or larger than this release writes."""
    try:
        return RobotsRules.from_bytes(data) if 0 < len(data) <= 2 * MAX_BYTES else None
    except ValueError:  # msgspec's errors are ValueErrors
        return None


def explain_rules(data: bytes, url: str, user_agent: str) -> str:
    """What stored rules say about a URL; empty: they cannot be read."""
    rules = open_rules(data)
    return rules.explain(url, user_agent) if rules else ""


async def fetch_robots(
    fetcher: Fetcher,
    guard: Guard,
    origin: str,
    *,
    at: float,
    unreachable_since: float | None = None,
    leave: Leave | None = None,
) -> RobotsRules:
    """Fetch the robots.txt of an origin, `at` a moment. Failures become rules too.

    RFC 9309 2.3.1.2: redirects to other hosts are followed, and the rules hold for the first one.
    """
    try:
        response = await _follow(fetcher, guard, robots_url(origin), leave)
    except (FetchError, BadURL) as error:
        return RobotsRules.unreachable(error.reason, at=at, unreachable_since=unreachable_since)
    return RobotsRules.from_response(
        response.status,
        response.body,
        at=at,
        retry_after=response.header("retry-after"),
        unreachable_since=unreachable_since,
    )


def robots_url(url: str) -> str:
    """The URL of the robots.txt for a URL."""
    found = join(url, "/robots.txt")
    if found is None:
        raise BadURL(url, "it has no robots.txt: only http and https do.")
    return found


@lru_cache(maxsize=64)
def product_token(user_agent: str) -> str:
    """Our name in robots.txt (RFC 9309 2.2.1): `Skitter` of `Skitter/0.1 (+...)`.

    The whole header would match groups meant for others, by words in its comment or URL.
    """
    compatible = re.search(r"\(compatible;\s*([A-Za-z_-]+)", user_agent)
    first = re.match(r"[A-Za-z_-]+", user_agent)
    found = compatible[1] if compatible else first[0] if first else user_agent
    return found.lower()


async def _follow(fetcher: Fetcher, guard: Guard, url: str, leave: Leave | None) -> Response:
    hops = 0
    origin = origin_of(url)
    while True:
        guard.check_url(url)
        gate = leave if origin_of(url) == origin else None  # other hosts have other clocks
        response = await fetcher.fetch(Request(url=url), leave=gate)
        location = response.header("location") if 300 <= response.status < 400 else None
        target = join(url, location) if location else None
        if target is None or hops == MAX_REDIRECTS:
            return response
        url, hops = target, hops + 1


def _usage_rule(value: str) -> tuple[str, str, Protego]:
    """`train-ai=n` applies to all paths, `/news/ train-ai=n` to some."""
    path, _, said = value.partition(" ") if value.startswith(("/", "*")) else ("/", "", value)
    return path, said.strip(), Protego.parse(f"User-agent: *\nDisallow: {path}")


def _is_trouble(status: int) -> bool:
    """2.3.1.4; and 429, which it does not mention: Google and Nutch wait, and so do we."""
    return status == 429 or not 200 <= status < 500


def _split(line: str) -> tuple[str, str]:
    field, _, value = line.partition("#")[0].partition(":")
    return field.strip().lower(), value.strip()


def _matches(pattern: str, url: str) -> bool:
    return not Protego.parse(f"User-agent: *\nDisallow: {pattern}").can_fetch(url, "*")


def _whole_lines(body: bytes) -> bytes:
    """A line cut in half could mean something else."""
    if len(body) <= MAX_BYTES:
        return body
    return body[: body.rfind(b"\n", 0, MAX_BYTES) + 1]
