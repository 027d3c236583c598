"""The audit: every URL accounted for, every structure checked against every other.

It works on a live crawl: each fact is taken by a script at one moment, in steps that hold the
server for about a millisecond. Sums over many steps (such as the sizes of all queues) are compared
with their counters only if nothing changed meanwhile; the report says whether that was so.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skitter.frontier.facts import HostFacts, RequestFacts, bucket_of, host_facts, request_facts
from skitter.frontier.scan import scan_keys, scan_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.shard import Shard
    from skitter.settings import JobOptions

TRIES = 3
MAX_PROBLEMS = 1000
STATES = ("pending", "delayed", "leased", "done", "dead", "dropped")


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """Something that must not be."""

    subject: str  # a fingerprint, a host, a key or a counter
    says: str


@dataclass(slots=True, kw_only=True)
class AuditReport:
    """What was looked at, and what was wrong."""

    job: str
    counts: Counter[str] = field(default_factory=Counter)
    problems: set[Problem] = field(default_factory=set)
    requests: int = 0
    hosts: int = 0
    fingerprints: int = 0
    exact: bool = True  # False: the crawl moved too fast to compare sums with counters

    @property
    def clean(self) -> bool:
        return not self.problems

    def note(self, subject: str, findings: Iterable[str]) -> None:
        for says in findings:
            if len(self.problems) < MAX_PROBLEMS:
                self.problems.add(Problem(subject, says))


async def audit(
    frontier: Frontier, *, progress: Callable[[str], None] = lambda _: None
) -> AuditReport:
    """Check a job. Changes nothing."""
    report = AuditReport(job=frontier.job)
    for shard in frontier.shards:
        progress(f"shard {shard.keys.shard}: requests")
        await _check_requests(shard, report)
        progress(f"shard {shard.keys.shard}: fingerprints")
        await _check_seen(shard, report, bloom=frontier.layout.bloom is not None)
        progress(f"shard {shard.keys.shard}: hosts and sums")
        await _check_sums(shard, report, frontier.options)
        await _check_keys(shard, report)
    return report


async def _check_requests(shard: Shard, report: AuditReport) -> None:
    """Every fingerprint that any structure names."""
    seen_here: set[str] = set()
    for name in ("task", "delayed", "lease", "holder", "dead", "trouble"):
        async for fps in scan_names(shard, name):
            fresh = [fp for fp in fps if fp not in seen_here]
            await _check_batch(shard, report, [(fp, "") for fp in fresh])
            seen_here.update(fresh)
    async for hosts in scan_names(shard, "hosts"):
        for host in hosts:
            async for fps in scan_names(shard, "queue", host):
                await _check_batch(shard, report, [(fp, host) for fp in fps])
    report.requests += len(seen_here)


async def _check_batch(shard: Shard, report: AuditReport, batch: list[tuple[str, str]]) -> None:
    for facts in await request_facts(shard, batch):
        report.note(facts.fingerprint, request_problems(facts))


def request_problems(facts: RequestFacts) -> list[str]:
    """What is wrong with one request. Pure: the facts are of one moment."""
    states = [name for name in ("queued", "delayed", "leased", "dead") if getattr(facts, name)]
    problems = []
    if len(states) > 1:
        problems.append(f"is in several states: {', '.join(states)}")
    if states and not facts.host:
        problems.append(f"is {states[0]} without a body")
    if facts.host and not states:
        problems.append("has a body and is in no state")
    if facts.host and facts.request is None:
        problems.append("has a body that cannot be read")
    if facts.strayed:
        problems.append("is in the queue of another host")
    if facts.leased and not facts.token:
        problems.append("is leased to nobody")
    if facts.token and not facts.leased:
        problems.append("is held without a lease")
    if facts.troubled and not facts.host:
        problems.append("is gone and still has a record of trouble")
    if (states or facts.host) and not facts.seen:
        problems.append("is not in the seen-set")
    return problems


async def _check_seen(shard: Shard, report: AuditReport, *, bloom: bool) -> None:
    """Each fingerprint in its bucket; as many of them as were accepted."""
    if bloom:
        return
    for _ in range(TRIES):
        before = await shard.counts()
        buckets = max(1, before[1].get("buckets", 1))
        found = 0
        misplaced: list[tuple[str, int]] = []
        for bucket in range(buckets):
            members = await shard.server.command("SMEMBERS", shard.keys.key("seen", str(bucket)))
            found += len(members)
            misplaced += [
                (member.decode(), bucket)
                for member in members
                if bucket_of(member.decode(), buckets) != bucket
            ]
        if await shard.counts() == before:
            report.fingerprints += found
            for fp, bucket in misplaced:
                report.note(fp, [f"is in bucket {bucket} of the seen-set, where no one looks"])
            if found != before[1].get("seen", 0):
                report.note("seen", [f"counts {before[1].get('seen', 0)}, the sets hold {found}"])
            return
    report.exact = False


async def _check_sums(shard: Shard, report: AuditReport, options: JobOptions) -> None:
    """Counters against sizes. The equation itself is of one moment, and always checked."""
    _, counts = await shard.counts()
    report.counts.update(counts)
    report.note("counters", equation_problems(counts))
    for _ in range(TRIES):
        before = await shard.counts()
        leases = await _leases_by_host(shard)
        findings, pending, shelved, hosts = await _check_hosts(shard, options, leases)
        if await shard.counts() == before:
            for host, problems in findings:
                report.note(host, problems)
            if pending != before[1].get("pending", 0):
                counted = before[1].get("pending", 0)
                report.note("pending", [f"counts {counted}, the queues hold {pending}"])
            if shelved != before[1].get("shelved", 0):
                counted = before[1].get("shelved", 0)
                report.note("shelved", [f"counts {counted}, the hosts say {shelved}"])
            report.hosts += hosts
            return
    report.exact = False


def equation_problems(counts: dict[str, int]) -> list[str]:
    """seen = pending + delayed + leased + done + dead + dropped, and what follows from it."""
    known = Counter(counts)
    problems = []
    if known["seen"] != sum(known[state] for state in STATES):
        sums = " + ".join(f"{state} {known[state]}" for state in STATES)
        problems.append(f"seen {known['seen']} is not {sums}")
    alive = known["pending"] + known["delayed"] + known["leased"] + known["dead"]
    if known["bodies"] != alive:
        problems.append(f"{known['bodies']} bodies for {alive} requests that are not done")
    if known["holders"] != known["leased"]:
        problems.append(f"{known['holders']} holders for {known['leased']} leases")
    problems += [f"{name} is negative: {value}" for name, value in counts.items() if value < 0]
    return problems


async def _leases_by_host(shard: Shard) -> Counter[str]:
    leases: dict[str, str] = {}
    async for fps in scan_names(shard, "lease"):
        for facts in await request_facts(shard, [(fp, "") for fp in fps]):
            leases[facts.fingerprint] = facts.host
    return Counter(leases.values())


async def _check_hosts(
    shard: Shard, options: JobOptions, leases: Counter[str]
) -> tuple[list[tuple[str, list[str]]], int, int, int]:
    findings: list[tuple[str, list[str]]] = []
    pending: dict[str, int] = {}
    shelved = 0
    for source in ("hosts", "due", "wait"):
        async for names in scan_names(shard, source):
            fresh = [name for name in names if name not in pending]
            for facts in await host_facts(shard, fresh):
                pending[facts.name] = facts.queued
                shelved += facts.shelved
                findings.append((facts.name, host_problems(facts, options, leases[facts.name])))
    return findings, sum(pending.values()), shelved, len(pending)


def host_problems(facts: HostFacts, options: JobOptions, leased: int) -> list[str]:
    """What is wrong with one host. Pure."""
    problems = [] if facts.readable else ["has a record that cannot be read"]
    if facts.in_flight != leased:
        problems.append(f"counts {facts.in_flight} in flight and has {leased} leases")
    if facts.due and facts.waiting:
        problems.append("is both due and waiting")
    if (facts.due or facts.waiting) and not facts.queued:
        problems.append("stands in line without work")
    if facts.place != ("due" if facts.due else "wait" if facts.waiting else "nowhere"):
        problems.append(f"says it is {facts.place}, and is not")
    if facts.best is not None and facts.best != facts.head_priority:
        problems.append(f"ranks by priority {facts.best}, its first request has another")
    if facts.may_be_asked(options) and facts.queued and not (facts.due or facts.waiting):
        problems.append(f"has {facts.queued} requests and is never asked")
    return problems


async def _check_keys(shard: Shard, report: AuditReport) -> None:
    """No key that nobody knows."""
    strange: list[tuple[str, int]] = []
    async for key in scan_keys(shard):
        known = shard.keys.name_of(key)
        if known is None:
            report.note(key, ["is a key that nobody knows"])
            continue
        name, member = known
        if name == "seen":
            strange.append((key, int(member or 0)))
        if name == "queue" and not await shard.server.command(
            "HEXISTS", shard.keys.key("hosts"), member
        ):
            report.note(key, ["is a queue of an unknown host"])
        if name == "recent" and await shard.server.command("PTTL", key) == -1:
            report.note(key, ["never expires"])
    # Asked last: a crawl that grows makes new buckets meanwhile.
    buckets = max(1, (await shard.counts())[1].get("buckets", 1))
    for key, number in strange:
        if number >= buckets:
            report.note(key, ["is a bucket that does not exist"])
