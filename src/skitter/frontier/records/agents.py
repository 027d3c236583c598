"""Agents: which of them are there, and which spiders they have.

An agent runs what its own list names. What it offers is what forms and commands may ask for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from skitter.errors import UsageError, did_you_mean, shorten
from skitter.frontier.records.runs import Runs
from skitter.frontier.transport.endpoints import client_name
from skitter.frontier.transport.keys import RUNS, ShardKeys
from skitter.frontier.transport.shard import Shard

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skitter.frontier.records.runs import Spec
    from skitter.frontier.transport.connection import Server

#: An agent that has not reported for so long is gone; what it offered is known for a day.
SILENT_S: Final = 20.0
KNOWN_S: Final = 86_400.0


class Argument(msgspec.Struct, frozen=True, kw_only=True):
    """An argument of a spider, for a form."""

    name: str
    type: str
    default: str | None = None  # None: it has to be given
    choices: list[str] = []


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """A spider that an agent can run, by the name that runs use."""

    name: str
    target: str = ""  # how the agent calls it
    job: str = ""  # empty: its arguments decide
    arguments: list[Argument] = []
    takes_any: bool = False  # arguments of any other name, too
    settings: list[str] = []  # all that a run of it may set; empty: what any run may
    version: str = ""
    error: str = ""  # it cannot be loaded


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent reports every few seconds."""

    name: str
    host: str
    pid: int
    at: float = 0.0
    started_at: float = 0.0
    at_most: int  # runs at a time
    runs: list[str] = []
    offers: list[Offer] = []


async def report_agent(server: Server, agent: Agent) -> None:
    """Store a heartbeat; those of agents that left long ago are dropped."""
    shard, now = _shard(server), await _now(server)
    seen = msgspec.structs.replace(agent, at=now)
    await shard.command("HSET", "agents", agent.name, msgspec.json.encode(seen))
    for old in await list_agents(server):
        if now - old.at > KNOWN_S:
            await shard.command("HDEL", "agents", old.name)


async def leave_agent(server: Server, agent: Agent) -> None:
    """It is gone; what it offered stays known, as it may be restarted."""
    at = await _now(server) - SILENT_S - 1
    gone = msgspec.structs.replace(agent, at=at, runs=[])
    await _shard(server).command("HSET", "agents", agent.name, msgspec.json.encode(gone))


async def list_agents(server: Server, *, alive: bool = False) -> list[Agent]:
    """All that are known, or those that reported a moment ago."""
    found = []
    for raw in (await _shard(server).command("HGETALL", "agents")).values():
        try:
            found.append(msgspec.json.decode(raw, type=Agent))
        except msgspec.MsgspecError:  # others can write to the server
            continue
    if alive:
        now = await _now(server)
        found = [agent for agent in found if now - agent.at <= SILENT_S]
    return sorted(found, key=lambda agent: agent.name)


def _shard(server: Server) -> Shard:
    return Shard(server, ShardKeys(RUNS, 0), client_name())


async def _now(server: Server) -> float:
    return float((await server.command("TIME"))[0])


async def find_offer(server: Server, spec: Spec) -> Offer:
    """The spider that the spec asks for. Raises UsageError if no agent has it, or not with these
    arguments."""
    offer = choose(offers_of(await list_agents(server)), spec.spider)
    check_arguments(offer, spec.arguments)
    check_settings(offer, spec)
    return offer


async def start_run(server: Server, offer: Offer, spec: Spec, identity: str) -> bool:
    """False: there is a run of that id already."""
    chosen = msgspec.structs.replace(spec, spider=offer.name)
    return await Runs.on(server).start(chosen, identity, job=offer.job)


def offers_of(agents: Sequence[Agent]) -> dict[str, Offer]:
    """What agents offer, by name; a version without an error comes first."""
    found: dict[str, Offer] = {}
    for agent in sorted(agents, key=lambda agent: -agent.at):
        for offer in agent.offers:
            if offer.name not in found or (found[offer.name].error and not offer.error):
                found[offer.name] = offer
    return found


def choose(offers: Mapping[str, Offer], asked: str) -> Offer:
    """The spider of that name, or in that file. Raises UsageError."""
    if not offers:
        raise UsageError(
            "there was no agent yet: start one where the spiders are, with "
            "`skitter agent --spiders 'spiders/*.py'`."
        )
    by_file = {offer.target: offer for offer in offers.values()}
    by_file |= {target.rpartition("/")[2]: offer for target, offer in by_file.items()}
    offer = offers.get(asked) or by_file.get(asked)
    if offer is None:
        hint = did_you_mean(asked, offers) or f"agents offer {', '.join(sorted(offers))}."
        raise UsageError(f"no agent offers a spider {shorten(asked)!r}: {hint}")
    if offer.error:
        raise UsageError(f"{offer.name} cannot be loaded by its agent: {offer.error}")
    return offer


def check_arguments(offer: Offer, given: Mapping[str, str]) -> None:
    """Raises UsageError for an argument that the spider has not, or needs."""
    known = {argument.name: argument for argument in offer.arguments}
    for name in () if offer.takes_any else given:
        if name not in known:
            hint = did_you_mean(name, known) or f"it takes {', '.join(known) or 'none'}."
            raise UsageError(f"{offer.name} has no argument {shorten(name)!r}: {hint}")
    for argument in offer.arguments:
        if argument.default is None and argument.name not in given:
            raise UsageError(f"{offer.name} needs an argument: {argument.name}.")


def check_settings(offer: Offer, spec: Spec) -> None:
    """Raises UsageError for what a run of this spider may not set: Scrapy's take little."""
    for name in spec.settings if offer.settings else ():
        if name not in offer.settings:
            takes = f"it takes {', '.join(offer.settings)}; its project sets all others."
            hint = did_you_mean(name, offer.settings) or takes
            raise UsageError(f"a run of {offer.name} cannot set {shorten(name)!r}: {hint}")
    if offer.settings and spec.out:
        raise UsageError(f"a run of {offer.name} has no output: its project says where items go.")
