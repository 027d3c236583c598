"""One child process, and when it may be started again."""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skitter.fleet.plan import restart_after_s
from skitter.frontier.client import MARK, client_name, new_mark

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skitter.fleet.output import Output

#: A process that lived so long was healthy: its death is the first in a row.
HEALTHY_S = 10.0
#: Who goes home sooner than this with work left is not sent for again at once.
SHORT_S = 1.0


@dataclass(frozen=True, slots=True)
class Death:
    """A process that ended badly: its name on the server, and what to tell people."""

    client: str
    what: str
    cause: str
    again_in_s: float
    code: int
    in_a_row: int

    def __str__(self) -> str:
        return f"{self.cause}; it is started again in {self.again_in_s:.1f} s"


@dataclass(slots=True)
class Child:
    """A command that should be running. Exit code 0 means that it has nothing left to do."""

    what: str  # for people
    command: list[str]
    environment: Mapping[str, str]
    output: Output | None = None  # None: what it prints goes where ours goes
    process: asyncio.subprocess.Process | None = None
    finished: bool = False
    deaths: int = 0
    restarts: int = 0
    _client: str = ""
    _started_at: float = 0.0
    _not_before: float = field(default=0.0)

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.returncode is None

    async def ensure(self) -> Death | None:
        """Start it if it should run and may. Returns how the one before died."""
        if self.running or self.finished:
            return None
        death = self.bury()
        if self.finished or time.monotonic() < self._not_before:
            return death
        mark = new_mark()
        with self.output.open() if self.output else nullcontext() as file:
            self.process = await asyncio.create_subprocess_exec(
                *self.command,
                env={**self.environment, MARK: mark, "PYTHONUNBUFFERED": "1"},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,  # Ctrl-C goes to the supervisor, which stops them in order
            )
        self._client = client_name(pid=self.process.pid, mark=mark)
        self._started_at = time.monotonic()
        return death

    def bury(self) -> Death | None:
        """Note how it ended, if it did. Answers how, if badly."""
        if self.process is None or self.running:
            return None
        code, pid = self.process.returncode or 0, self.process.pid
        lived_s = time.monotonic() - self._started_at
        self.process = None
        if code == 0:
            self.finished = True
            self._not_before = time.monotonic() + (SHORT_S if lived_s < SHORT_S else 0.0)
            return None
        self.deaths = 1 if lived_s > HEALTHY_S else self.deaths + 1
        self.restarts += 1
        pause_s = restart_after_s(self.deaths)
        self._not_before = time.monotonic() + pause_s
        return Death(
            client=self._client,
            what=self.what,
            cause=f"the {self.what}, process {pid}, {_cause(code)}",
            again_in_s=pause_s,
            code=code,
            in_a_row=self.deaths,
        )

    def tell(self, number: signal.Signals) -> None:
        if self.process is not None and self.running:
            self.process.send_signal(number)

    async def ended(self) -> None:
        if self.process is not None:
            await self.process.wait()

    async def kill(self) -> str:
        """Without mercy. Returns its name on the server."""
        self.tell(signal.SIGKILL)
        await self.ended()
        return self._client


def _cause(code: int) -> str:
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"
