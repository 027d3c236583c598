"""start: how long a command takes to start, compared with a Python that does nothing."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from benchmarks.contest import Contender, Figure, Goal, Part, Row, take_turns
from benchmarks.crawl.job import begin
from benchmarks.processes import ROOT
from skitter.errors import InfrastructureError

if TYPE_CHECKING:
    from benchmarks.contest import Sample
    from benchmarks.ground import Ground

CPU = Figure("ms", min)
#: The baseline for all.
BARE = ("-c", "pass")


@dataclass(frozen=True, kw_only=True)
class Start(Part):
    """CPU time, which other programs disturb least. Bytecode is compiled, as in an installation;
    redis-py alone, for comparison, is what every client of a server must import."""

    name: ClassVar[str] = "start"
    rounds: int = 10

    async def measure(self, ground: Ground) -> list[Row]:
        await begin(ground, "https://example.com/")
        status = ("-m", "skitter", "status")
        by_url = ("--redis", f"unix://{ground.socket}")
        embedded = ("--dir", str(ground.socket.parent))
        ten = Goal("at most 10 times", most=10.0)
        asked = {
            "skitter --help": (("-m", "skitter", "--help"), Goal("at most 5 times", most=5.0)),
            "skitter status --redis URL": ((*status, *by_url), ten),
            "skitter status": ((*status, *embedded), ten),
            "import redis.asyncio": (("-c", "import redis.asyncio"), None),
        }
        bare = Contender("python -c pass", partial(begun, BARE), fresh=False)
        ours = {
            name: Contender(name, partial(begun, words), fresh=False)
            for name, (words, _) in asked.items()
        }
        for one in (bare, *ours.values()):
            await one.run()  # writes the bytecode
        await take_turns(ground, [bare, *ours.values()], part=self.name, rounds=self.rounds)
        return [
            Row(
                what=f"`{name}`, CPU time from start to end, least of {self.rounds}",
                figure=CPU,
                ours=ours[name],
                theirs=bare,
                beside="python -c pass",
                goal=goal,
            )
            for name, (_, goal) in asked.items()
        ]


async def begun(words: tuple[str, ...]) -> Sample:
    return {CPU: [1000 * await asyncio.to_thread(cpu_time_s, words)]}


def cpu_time_s(words: tuple[str, ...]) -> float:
    """The CPU time of this process only."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(
        [sys.executable, *words],
        cwd=ROOT,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise InfrastructureError(f"{' '.join(words)} failed: see above.")
    return used.ru_utime + used.ru_stime
