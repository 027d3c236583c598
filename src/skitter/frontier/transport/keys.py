"""The names of all keys on the server, defined only here.

A job has one or more shards; the host of a URL determines its shard. All keys of a shard carry the
hash tag `{job:shard}`, so that they are in one cluster slot and one script may use them all. Lua
refers to a key by its name in this table; docs/reference/keys.md is generated from it.
"""

from __future__ import annotations

import msgspec

#: hash: job -> JSON of its layout
JOBS = "skitter:jobs"


#: hash: job -> JSON of what pumps of another engine must know about it
PUMPED = "skitter:pumped"
#: hash: a machine of such an engine -> how many pumps it can run at a time, and when it reported
PUMP_SLOTS = "skitter:pumped:rooms"
#: string: signs what tasks of Celery send when their page is done, if its broker is here, too
PUMP_SECRET = "skitter:pumped:secret"

#: hash: id of a token of the HTTP API -> JSON: its name, scopes and hash
TOKENS = "skitter:tokens"
#: hash: pattern of jobs -> JSON: the quotas that they keep together
TENANTS = "skitter:tenants"
#: zset: nonce of a browser session that was logged out -> when it would have expired
LOGOUTS = "skitter:logouts"
#: stream: who did what to which job; capped
ACTIONS = "skitter:actions"


def feed_key(job: str) -> str:
    """list: URLs or JSON that other programs may LPUSH; workers take them from the other end. Or a
    stream, for those who XADD."""
    return f"skitter:{job}:feed"


def job_prefix(job: str) -> str:
    """The prefix of the keys of all shards of a job."""
    return f"skitter:{{{job}:"


class KeySpec(msgspec.Struct, frozen=True):
    """What a key holds. A family has one key per member: `queue:<host>`."""

    type: str
    holds: str
    family: str | None = None
    stored: str = ""  # its name on the server, kept for existing jobs
    outside: bool = False  # belongs to no shard, and its member is the hash tag


SHARD_KEYS: dict[str, KeySpec] = {
    "control": KeySpec("hash", "the desired state (run, pause, drain, cancel), limits, the clock"),
    "stats": KeySpec("hash", "counters: pending, done, seen, ticket, buckets, late, granted, ..."),
    "budget": KeySpec("hash", "of shard 0: each shard's share of max_pages", stored="pot"),
    "hosts": KeySpec(
        "hash", "host -> packed: in_flight, asked_at, turn, pages, listed_in, its own limits"
    ),
    "due": KeySpec("zset", "host -> rank: hosts that may be contacted now, best first"),
    "due_browser": KeySpec("zset", "the same for pages that need a browser: lua/lib/lane.lua"),
    "due_file": KeySpec("zset", "the same for files to download"),
    "wait": KeySpec("zset", "host -> ms: hosts with work that may not be contacted before then"),
    "queue": KeySpec("zset", "fingerprint -> score (priority, then arrival)", family="host"),
    "task": KeySpec(
        "hash",
        "fingerprint -> `priority host msgpack`: the request, until it is done and not revisited",
    ),
    "seen": KeySpec("set", "fingerprints as an intset, split before it grows too big", family="n"),
    "bloom": KeySpec("string", "one block of the Bloom filter, in place of seen", family="n"),
    "delayed": KeySpec("zset", "fingerprint -> ms: retries and scheduled work"),
    "lease": KeySpec("zset", "fingerprint -> ms at which the lease expires"),
    "holder": KeySpec("hash", "fingerprint -> fencing token of the lease"),
    "trouble": KeySpec("hash", "fingerprint -> msgpack: failures, losses, last error and its time"),
    "dead": KeySpec(
        "zset", "fingerprint -> ms at which it was given up; plus 2^46: excluded by a pattern"
    ),
    "depths": KeySpec("hash", "fingerprint -> links from a seed; if the job has or had max_depth"),
    "outlinks": KeySpec("hash", "fingerprint of a page that is done -> zlib of msgpack: its links"),
    "reopenable": KeySpec(
        "zset", "fingerprint of such a page -> max_depth above which its links go in", stored="edge"
    ),
    "reopening": KeySpec("string", "which client is offering their links again; expires"),
    "shapes": KeySpec(
        "hash", "host -> msgpack: shape of URLs -> pages, doublings of its budget, credit"
    ),
    "probation": KeySpec("hash", "fingerprint of a lease -> the shape whose budget it uses"),
    "trapped": KeySpec(
        "zset", "fingerprint -> shape whose budget is spent; below 0: handler that no worker has"
    ),
    "looks": KeySpec("zset", "shape and host -> how many were held at the last look; -1: a trap"),
    "revisits": KeySpec("zset", "fingerprint of a page that is done -> ms of its next visit"),
    "webhooks": KeySpec(
        "hash", "of shard 0: id of a webhook -> JSON: where messages go, and about what"
    ),
    "deliveries": KeySpec("hash", "of shard 0: webhook messages that are not delivered yet"),
    "webhook_lease": KeySpec("string", "of shard 0: which server sends them; expires"),
    "schedule": KeySpec("hash", "of shard 0: when rounds begin, and how many were missed"),
    "round": KeySpec("zset", "fingerprint of a start page -> ms of the last round that visits it"),
    "items": KeySpec("stream", "what handlers yielded, until a reader acknowledges it"),
    "watched": KeySpec("string", "exists while somebody watches items as they are found; expires"),
    "live": KeySpec("stream", "copies of items, while somebody watches; capped, expires"),
    "marks": KeySpec("zset", "ms -> last ticket drawn before: how long requests wait; capped"),
    "totals": KeySpec("hash", "counter -> its total; expires a week after the last count"),
    "counts": KeySpec(
        "string",
        "a counter, 360 slots of 5 bytes: docs/reference/metrics.md; expires",
        family="step/chunk/name",
    ),
    "timings": KeySpec(
        "hash",
        "log bucket -> how many durations; `us`: their sum; expires",
        family="step/slot/name",
    ),
    "tables": KeySpec(
        "hash",
        "of shard 0: host, worker, ... -> `ok failed bytes ms ...`; expires",
        family="step/slot/name",
    ),
    "daily": KeySpec(
        "hash", "of no job: name and tags -> users' own counts of a day; expires", family="day"
    ),
    "durations": KeySpec(
        "hash", "of no job: log bucket -> count of users' own timings; expires", family="day/name"
    ),
    "quality": KeySpec("hash", "of shard 0: handler -> msgpack: what it found, by windows"),
    "handled": KeySpec("hash", "of shard 0: what a handler did -> how often: lua/handled.lua"),
    "thresholds": KeySpec("string", "of shard 0: msgpack: when the quality of items is bad"),
    "sink": KeySpec("hash", "of shard 0: the main output, and when that was claimed"),
    "also": KeySpec("hash", "of shard 0: a further output -> filling, full or leaving"),
    "rejected": KeySpec("stream", "items that could not be stored, with the reason; capped"),
    "pages": KeySpec(
        "hash", "fingerprint of a page that is done -> its outcome; capped", family="part"
    ),
    "downloads": KeySpec("hash", "of shard 0: how many bytes of files the job has downloaded"),
    "archived": KeySpec("set", "lines for the index of the archive that are not written yet"),
    "failed": KeySpec(
        "hash", "of shard 0: fingerprint of a page that failed -> zlib of msgpack: the page; capped"
    ),
    "failed_of": KeySpec("hash", "of shard 0: fingerprint of such a page -> kind of failure"),
    "refused": KeySpec(
        "hash", "fingerprint of a link that was kept out -> msgpack of why; capped", family="part"
    ),
    "kept_out": KeySpec("string", "HyperLogLog of links kept out, by kind", family="kind"),
    "rendering": KeySpec(
        "hash", "shape of URLs and plain, browser or neither -> how many pages; capped"
    ),
    "robots": KeySpec("string", "robots.txt as the host served it; expires", family="host"),
    "sessions": KeySpec("string", "exists while this shard has a pool of sessions; expires"),
    "pool": KeySpec(
        "string",
        "msgpack: the live sessions of a site and class, with uses and errors; expires",
        family="site/class",
    ),
    "session": KeySpec(
        "hash", "its cookies, headers, route and log-in; expires", family="site/class/number"
    ),
    "bell": KeySpec(
        "list", "of shard 0: each wakes a worker that waits, as a caller waits for a page; expires"
    ),
    "answer": KeySpec(
        "string",
        "of shard 0: JSON: what became of a page that a caller asked for; expires",
        family="id",
    ),
    "feeding": KeySpec("hash", "batch -> fed messages that are not in the frontier yet"),
    "trips": KeySpec("list", "the last requests to hosts with a delay, and when they left; capped"),
    "workers": KeySpec("hash", "worker -> msgpack of its last heartbeat"),
    "machines": KeySpec(
        "hash", "of shard 0: supervisor of a machine -> msgpack of its last heartbeat"
    ),
    "permits": KeySpec("zset", "permit -> ms: pumps of another engine that may work"),
    "callback": KeySpec(
        "hash", "the callback of a finished job: who runs it, its result", stored="finale"
    ),
    "reporter": KeySpec(
        "string", "which pump reports dead pages to their callers; expires", stored="telling"
    ),
    "events": KeySpec("stream", "the log of all workers, capped"),
    "routes": KeySpec("hash", "of the fleet: route:field -> sent, bytes, money, good, rests, ..."),
    "flights": KeySpec("zset", "of the fleet: place -> ms at which it expires", family="route"),
    "arms": KeySpec(
        "string", "of the fleet: msgpack, results of routes to a domain; expires", family="domain"
    ),
    "recent": KeySpec("hash", "verb -> number and answer of a client's last call", family="client"),
    "runs": KeySpec("zset", "of no job: run -> ms at which it was asked for"),
    "run": KeySpec("hash", "of no job: what is known of a run", family="id"),
    "run_queue": KeySpec(
        "zset", "of no job: run -> ms from which an agent may take it", family="spider"
    ),
    "run_leases": KeySpec("zset", "of no job: run -> ms until which its agent has it"),
    "run_lanes": KeySpec("hash", "of no job: job -> the run that works on it"),
    "shares": KeySpec(
        "hash", "of no job: job -> requests begun per share, and when; expires", family="machine"
    ),
    "begun": KeySpec("hash", "of no job: tenant -> pages begun on that day; expires", family="day"),
    "rooms": KeySpec(
        "hash",
        "of no job: tenant -> when URLs were counted, and how many may be added; expires",
    ),
    "run_ended": KeySpec("zset", "of no job: run -> ms at which it ended; capped"),
    "agents": KeySpec("hash", "of no job: agent -> JSON of its last heartbeat, what it offers"),
    "clock": KeySpec(
        "string",
        "of no job, as `skitter:clock:{name}`: when requests that share a clock may leave; expires",
        family="name",
        outside=True,
    ),
}

_NAMES = {spec.stored or name: name for name, spec in SHARD_KEYS.items() if not spec.outside}


#: In place of a job: a shard that all jobs of a server share. No job can have this name.
FLEET = "~fleet"
#: The same for what users count in their own code.
OWN = "~own"
#: The same for runs and agents.
RUNS = "~runs"


class ShardKeys(msgspec.Struct, frozen=True):
    """The keys of one shard of one job."""

    job: str
    shard: int

    @property
    def prefix(self) -> str:
        return f"{job_prefix(self.job)}{self.shard}}}:"

    def spec(self, name: str) -> KeySpec:
        return SHARD_KEYS[name]

    def key(self, name: str, member: str | None = None) -> str:
        """`due`, or in a family `queue` and a host; without a host, the family's prefix."""
        spec = self.spec(name)
        if spec.outside:
            return f"skitter:{name}:{{{member}}}"
        key = f"{self.prefix}{spec.stored or name}"
        return key if spec.family is None else f"{key}:{member or ''}"

    def name_of(self, key: str) -> tuple[str, str | None] | None:
        """The reverse of `key`; None for an undeclared key."""
        stored, colon, member = key.removeprefix(self.prefix).partition(":")
        name = _NAMES.get(stored, "")
        if not name or bool(colon) != bool(self.spec(name).family):
            return None
        return name, member if colon else None
