"""`scrapy` processes that have their imports behind them: forks of one process that imported it.

Of the two seconds of processor time that a node takes to begin, nearly all are imports, and tests
start a hundred nodes. A fork is a process like any other, with its own environment, folder, output
and signals, and it ends as an interpreter ends. What `python -m scrapy` does before that is proven
where one is started: in tests/storm and on the pages of the docs.

Run as a script by `Nursery`, with the number of the socket on which orders come.
"""

from __future__ import annotations

import gc
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any

MAX_BYTES = 200_000  # of an order; an environment has a few thousand
#: What a node imports when it begins: these, and all that is in the packages.
MODULES = (
    "scrapy.cmdline",
    "scrapy.core.downloader.handlers.ftp",
    "scrapy.core.downloader.handlers.http11",
    "scrapy.core.downloader.handlers.s3",
    "skitter.frontier.redis_client",
    "skitter.scrapy.scheduler",
    "twisted.internet.asyncioreactor",
)
PACKAGES = (
    "scrapy.commands",
    "scrapy.downloadermiddlewares",
    "scrapy.extensions",
    "scrapy.spidermiddlewares",
)


class Fork:
    """What tests use of `subprocess.Popen`, of a process that is not a child of ours."""

    def __init__(self, answers: socket.socket) -> None:
        self._answers = answers
        self.pid = self._read()
        self.returncode: int | None = None

    def _read(self) -> int:
        answer = self._answers.recv(64)
        assert answer, "the process that forks is gone: its stderr says why"
        return int(answer)

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._answers], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("scrapy", timeout or 0)
            self.returncode = self._read()
            self._answers.close()
        return self.returncode

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(timeout=0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Nursery:
    """The process that forks; it imports while the first order waits."""

    def __init__(self) -> None:
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

    def start(
        self, words: Sequence[str], *, folder: Path, environment: Mapping[str, str], log: IO[str]
    ) -> Fork:
        """`scrapy` with those words."""
        order = {"words": words, "folder": str(folder), "environment": dict(environment)}
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            given = [log.fileno(), theirs.fileno()]
            socket.send_fds(self._orders, [json.dumps(order).encode()], given)
        return Fork(ours)

    def close(self) -> None:
        self._orders.close()
        self._process.wait()


# --- in the process that forks --------------------------------------------------------------------


def import_all() -> None:
    for name in MODULES:
        import_module(name)
    for package in PACKAGES:
        for one in pkgutil.iter_modules(import_module(package).__path__, f"{package}."):
            import_module(one.name)
    assert "twisted.internet.reactor" not in sys.modules  # a node chooses its own
    assert threading.active_count() == 1  # others would not be in the fork
    gc.collect()
    gc.freeze()  # or each fork would copy all that its garbage collector looks at


def serve(orders: socket.socket) -> None:
    """Fork for each order. Returns in the forks alone, which are to become `scrapy`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: it is for pytest and the nodes
    while True:
        text, given, _, _ = socket.recv_fds(orders, MAX_BYTES, 2)
        reap()
        if not text:
            sys.exit()
        if os.fork() == 0:
            orders.close()
            if fork_and_tell(socket.socket(fileno=given[1])):
                os._exit(0)
            return take_place(given[0], **json.loads(text))
        for one in given:
            os.close(one)


def fork_and_tell(answers: socket.socket) -> bool:
    """The pid of the fork, and how it ended. Only a parent hears of that, so this one stays and
    listens, and is told True."""
    with answers:
        if (pid := os.fork()) == 0:
            return False
        answers.send(str(pid).encode())
        ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with suppress(BrokenPipeError):  # nobody waits for it any more
            answers.send(str(ended).encode())
        return True


def reap() -> None:
    with suppress(ChildProcessError):  # there is none
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def take_place(log: int, *, words: list[str], folder: str, environment: dict[str, str]) -> None:
    """All that a new process would be given."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [str(Path(import_module("scrapy").__path__[0], "__main__.py")), *words]
    paths = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:1] = [folder, *filter(None, paths)]


def main() -> Any:
    with socket.socket(fileno=int(sys.argv[1])) as orders:
        import_all()
        serve(orders)
    return import_module("scrapy.cmdline").execute()


if __name__ == "__main__":
    main()
