"""The audit: accounts for every URL, and for every key.

It works on a live crawl: scripts read the facts of each subject at one moment, in steps that hold
the server for a few milliseconds. Sums over a whole shard are compared at one moment if the shard
is small enough, and else in steps, which proves something only if nothing changed meanwhile. The
report names what could not be compared.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skitter.errors import JobDamaged
from skitter.frontier.audit.rules import (
    SUMS,
    AuditReport,
    budget_problems,
    control_problems,
    equation_problems,
    host_problems,
    is_fingerprint,
    is_host,
    is_workable,
    request_problems,
    share_problems,
    sum_problems,
)
from skitter.frontier.records.schedule import read_schedule
from skitter.frontier.seen import KEYS as SEEN_KEYS
from skitter.frontier.seen import seen_set
from skitter.frontier.sites.snapshots import host_facts, request_facts, ticket_of
from skitter.frontier.totals import read_budget, read_control, read_options
from skitter.frontier.transport.keys import SHARD_KEYS, feed_key
from skitter.frontier.transport.shard import scan_job, scan_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.transport.shard import Shard
    from skitter.settings import JobOptions


TRIES = 3
FIGURES = ("totals", "counts", "timings", "tables")
EXPIRING = (
    *("recent", "robots", "reopening", "sessions", "pool", "session", "webhook_lease"),
    *FIGURES,
)
#: Fields that differ between shards: only the first has workers and a spare, each has its own
#: clock, and `born` changes when a shard forgets something.
OF_ONE_SHARD = dict.fromkeys(("workers", "fleet", "spare", "clock", "shift", "born"), "")


async def check_keys(frontier: Frontier, report: AuditReport) -> set[int]:
    """Returns the shards with a key of the wrong type, on which scripts would fail."""
    server, feed = frontier.server, feed_key(frontier.job)
    for key, wanted in ((feed, "list"), (f"{feed}:lock", "string")):
        found = await server.command("TYPE", key)
        if key != feed or found not in (b"stream", "stream"):
            report.note(key, _type_problems(found, wanted))
    damaged: set[int] = set()
    async for keys in scan_job(frontier.home):
        for shard, own in _by_shard(frontier, keys):
            if shard is None:
                for key in own:
                    report.note(key, ["belongs to a shard that does not exist"])
            elif not await _check_some(frontier, shard, own, report):
                damaged.add(shard.keys.shard)
    return damaged


def _by_shard(frontier: Frontier, keys: list[str]) -> Iterator[tuple[Shard | None, list[str]]]:
    """Groups keys by shard; None: there is no such shard."""
    shards = {shard.keys.prefix: shard for shard in frontier.shards}
    found: dict[str, list[str]] = defaultdict(list)
    for key in keys:
        tag, brace, _ = key.partition("}:")
        found[tag + brace].append(key)
    for prefix, own in found.items():
        yield shards.get(prefix), own


async def _check_some(
    frontier: Frontier, shard: Shard, keys: list[str], report: AuditReport
) -> bool:
    sound, own = True, seen_set(frontier.layout).key
    answers = await shard.audit_keys(keys)
    for key, found, ttl in zip(keys, answers[::2], answers[1::2], strict=True):
        known = shard.keys.name_of(key)
        if found == b"none":  # gone since
            continue
        if known is None or (known[0] in SEEN_KEYS and known[0] != own):
            report.note(key, ["is an unknown key"])
            continue
        problems = _type_problems(found, SHARD_KEYS[known[0]].type)
        sound = sound and not problems
        if known[0] in EXPIRING and ttl == -1:
            problems.append("never expires")
        report.note(key, problems)
    return sound


def _type_problems(found: bytes | str, wanted: str) -> list[str]:
    kind = found if isinstance(found, str) else found.decode()
    return [] if kind in (wanted, "none") else [f"is a {kind} but should be a {wanted}"]


async def check_families(frontier: Frontier, report: AuditReport, damaged: set[int]) -> None:
    """Check that each queue has its host, and each bucket a valid number."""
    numbered: list[tuple[int, str, str]] = []
    async for keys in scan_job(frontier.home):
        for shard, own in _by_shard(frontier, keys):
            if shard is None or shard.keys.shard in damaged:
                continue
            names = [(key, *(shard.keys.name_of(key) or ("", ""))) for key in own]
            hosts = [host or "" for _, name, host in names if name == "queue"]
            await _check_queues(shard, hosts, report)
            numbered += [
                (shard.keys.shard, key, number or "")
                for key, name, number in names
                if name in SEEN_KEYS
            ]
    # Read last: a growing crawl adds buckets meanwhile.
    limits = {
        shard.keys.shard: await seen_set(frontier.layout).parts(shard)
        for shard in frontier.shards
        if shard.keys.shard not in damaged
    }
    for place, key, number in numbered:
        if not number.isdigit() or int(number) >= limits[place]:
            report.note(key, ["is a bucket that does not exist"])


async def _check_queues(shard: Shard, hosts: list[str], report: AuditReport) -> None:
    if not hosts:
        return
    known = await shard.command("HMGET", "hosts", *hosts)
    for host, record in zip(hosts, known, strict=True):
        key = shard.keys.key("queue", host)
        if record is None and await shard.server.command("EXISTS", key):
            report.note(key, ["is the queue of an unknown host"])


async def check_control(frontier: Frontier, report: AuditReport, damaged: set[int]) -> set[int]:
    """Check state and limits. Returns the shards on which scripts do not run."""
    shards = [shard for shard in frontier.shards if shard.keys.shard not in damaged]
    for _ in range(TRIES):  # a change may be under way, shard by shard
        controls = [await read_control(shard) for shard in shards]
        limits = [{**control, **OF_ONE_SHARD} for control in controls]
        if all(limit == limits[0] for limit in limits):
            break
    else:
        report.note("control", ["differs between shards"])
    for shard, control in zip(shards, controls, strict=True):
        problems = control_problems(control, frontier.layout)
        report.note(shard.keys.key("control"), problems)
    pairs = zip(shards, controls, strict=True)
    return {
        shard.keys.shard for shard, control in pairs if not is_workable(control, frontier.layout)
    }


AUDIT_TRIES = 3
#: How many hosts, leases and buckets one script may add up: a few milliseconds.
AT_ONCE = 1000
#: Keys that name fingerprints, besides the queues.
REQUEST_KEYS = (
    *("task", "delayed", "trapped", "lease", "holder", "probation", "dead", "trouble"),
    "revisits",
    *("depths", "outlinks", "reopenable"),  # only with max_depth
)


async def audit(
    frontier: Frontier, *, progress: Callable[[str], None] = lambda _: None
) -> AuditReport:
    """Check a job, even one too damaged to crawl. Changes nothing."""
    report = AuditReport(job=frontier.job)
    progress("keys")
    damaged = await check_keys(frontier, report)
    damaged |= await check_control(frontier, report, damaged)
    await check_families(frontier, report, damaged)
    if 0 not in damaged:
        options = await read_options(frontier.home, lenient=True)
        budget = await read_budget(frontier.shards)  # before the shards: what they cede only grows
        report.note("budget", budget_problems(budget))
        report.note("schedule", await _schedule_problems(frontier))
    for shard in frontier.shards:
        name = f"shard {shard.keys.shard}"
        if damaged & {0, shard.keys.shard}:
            report.unchecked.append(f"the contents of {name}: repair its keys first")
        else:
            progress(name)
            await _ShardAudit(frontier, shard, options, budget, report).run()
    return report


async def _schedule_problems(frontier: Frontier) -> list[str]:
    try:
        await read_schedule(frontier)
    except JobDamaged as error:
        return [str(error)]
    return []


@dataclass(slots=True)
class _ShardAudit:
    """Checks the contents of one shard whose keys are sound."""

    frontier: Frontier
    shard: Shard
    options: JobOptions
    budget: dict[str, str]
    report: AuditReport
    _last_ticket: float = 0.0

    async def run(self) -> None:
        await self._check_requests()
        await self._check_seen()
        await self._check_hosts()
        counts = await self._counts()
        self.report.counts.update(counts)
        self.report.note("counters", equation_problems(counts))
        full = seen_set(self.frontier.layout).problems(counts.get("seen", 0))
        self.report.note("the Bloom filter", full)
        if len(self.frontier.shards) > 1:
            number = self.shard.keys.shard
            taken_back = self.budget.get(f"ceded:{number}", "0")
            self.report.note(f"shard {number}", share_problems(counts, taken_back))
        if self._last_ticket > counts.get("ticket", 0):
            counted, drawn = counts.get("ticket", 0), self._last_ticket
            self.report.note("ticket", [f"counts {counted}, but {drawn:.0f} was drawn"])
        if not (await self._compare_at_once() or await self._compare_in_steps()):
            name = f"shard {self.shard.keys.shard}"
            self.report.unchecked.append(f"the sums over all hosts of {name}: they kept changing")

    async def _counts(self) -> dict[str, int]:
        """All counters of the shard. One that is not a number is reported and left out."""
        _, *pairs = await self.shard.stats()
        counts: dict[str, int] = {}
        for name, value in zip(pairs[::2], pairs[1::2], strict=True):
            try:
                counts[name.decode("utf-8", "replace")] = int(value)
            except ValueError:
                shown = name.decode("utf-8", "replace")
                self.report.note(shown, [f"counts {value!r}, which is not a number"])
        return counts

    # --- requests ---------------------------------------------------------------------------------

    async def _check_requests(self) -> None:
        """Check every fingerprint that any structure names."""
        for name in REQUEST_KEYS:
            async for fps in scan_names(self.shard, name):
                await self._check_batch(name, [(fp, "") for fp in fps])
        async for hosts in scan_names(self.shard, "hosts"):
            for host in hosts:
                async for fps in scan_names(self.shard, "queue", host):
                    await self._check_batch(f"the queue of {host}", [(fp, host) for fp in fps])

    async def _check_batch(self, where: str, batch: list[tuple[str, str]]) -> None:
        sound = self._fingerprints(where, batch)
        for facts in await request_facts(self.shard, sound):
            problems = request_problems(facts, self.frontier.layout, self.shard.keys.shard)
            self.report.note(facts.fingerprint, problems)
            if facts.score is not None:
                lifo = self.frontier.layout.order == "lifo"
                self._last_ticket = max(self._last_ticket, ticket_of(facts.score, lifo=lifo))
            self.report.requests += where == "task"

    def _fingerprints(self, where: str, batch: list[tuple[str, str]]) -> list[tuple[str, str]]:
        for fp, _ in batch:
            if not is_fingerprint(fp):
                self.report.note(fp, [f"is not a fingerprint (in {where})"])
        return [pair for pair in batch if is_fingerprint(pair[0])]

    async def _check_seen(self) -> None:
        """Check that each fingerprint is in the bucket where lookups expect it."""
        async for bucket in seen_set(self.frontier.layout).scan(self.shard):
            self.report.fingerprints += len(bucket.members)
            sound = self._fingerprints("the seen-set", [(fp, "") for fp in bucket.members])
            strays = [pair for pair in sound if not bucket.is_right_for(pair[0])]
            for facts in await request_facts(self.shard, strays):
                if not facts.seen:  # else the bucket was split meanwhile
                    says = f"is in the wrong bucket of the seen-set: {bucket.number}"
                    self.report.note(facts.fingerprint, [says])

    # --- hosts and sums ---------------------------------------------------------------------------

    async def _check_hosts(self) -> None:
        known: set[str] = set()
        for source in ("hosts", "due", "due_browser", "due_file", "wait"):
            async for names in scan_names(self.shard, source):
                for name in names:
                    if not is_host(name):
                        self.report.note(name, [f"is not a host (in {source})"])
                fresh = [name for name in names if name not in known]
                known.update(fresh)
                for facts in await host_facts(self.shard, fresh):
                    self.report.note(facts.name, host_problems(facts, self.options))
                    self._last_ticket = max(self._last_ticket, facts.turn)
        self.report.hosts += len(known)

    async def _compare_at_once(self) -> bool:
        """Compare all sums at one moment. False: the shard is too big for that."""
        answer = await self.shard.audit_sums(limit=AT_ONCE)
        if not answer:
            return False
        pairs, uneven = answer[: 2 * len(SUMS)], answer[2 * len(SUMS) :]
        found = dict(zip(SUMS, zip(pairs[::2], pairs[1::2], strict=True), strict=True))
        for counter, (sum_of, counted) in found.items():
            self.report.note(counter, sum_problems(counter, counted=counted, found=sum_of))
        for host, in_flight, leases in zip(*(uneven[i::3] for i in range(3)), strict=True):
            self._note_uneven(host.decode("utf-8", "replace"), in_flight, leases)
        return True

    async def _compare_in_steps(self) -> bool:
        """Compare them step by step. False: something changed each time."""
        for _ in range(AUDIT_TRIES):
            before = await self._counts()
            found, uneven = await self._add_up()
            if await self._counts() == before:
                for counter, sum_of in found.items():
                    counted = before.get(counter, 0)
                    self.report.note(counter, sum_problems(counter, counted=counted, found=sum_of))
                for host, in_flight, leases in uneven:
                    self._note_uneven(host, in_flight, leases)
                return True
        return False

    async def _add_up(self) -> tuple[Counter[str], list[tuple[str, int, int]]]:
        leases: dict[str, str] = {}
        async for fps in scan_names(self.shard, "lease"):
            sound = [(fp, "") for fp in fps if is_fingerprint(fp)]
            for request in await request_facts(self.shard, sound):
                leases[request.fingerprint] = request.host
        out = Counter(leases.values())
        sums, known = Counter[str](), set[str]()
        uneven = []
        async for names in scan_names(self.shard, "hosts"):
            fresh = [name for name in names if name not in known]
            known.update(fresh)
            for host in await host_facts(self.shard, fresh):
                sums.update(pending=host.queued, shelved=host.shelved, done=host.pages)
                if host.in_flight != out[host.name]:
                    uneven.append((host.name, host.in_flight, out[host.name]))
        if (fingerprints := await seen_set(self.frontier.layout).count(self.shard)) is not None:
            sums["seen"] = fingerprints
        return sums, uneven

    def _note_uneven(self, host: str, in_flight: int, leases: int) -> None:
        self.report.note(host, [f"counts {in_flight} in flight but has {leases} leases"])
