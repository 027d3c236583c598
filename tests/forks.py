"""Processes that have their imports behind them: forks of one that has imported all.

Of the two seconds of processor time that a node of Scrapy takes to begin, nearly all are imports,
and so it is with the second of a Celery worker; tests start a hundred of the one and forty of the
other. A fork is a process like any other, with its own environment, folder, output and signals, and
it ends as an interpreter ends. What `python -m` does before that is proven where it is called: by
tests/cli, tests/storm, and `start_whole` of tests/engine_scrapy.

Run as a script by `Nursery`, with the program and the number of the socket on which orders come.
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
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from waiting import PATIENCE_S

MAX_BYTES = 200_000  # of an order; an environment has a few thousand


@dataclass(frozen=True)
class Program:
    """What it imports when it begins: modules, and all that is in the packages."""

    main: str
    modules: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()


PROGRAMS = {
    "scrapy": Program(
        "scrapy.cmdline:execute",
        modules=(
            "scrapy.core.downloader.handlers.ftp",
            "scrapy.core.downloader.handlers.http11",
            "scrapy.core.downloader.handlers.s3",
            "skitter.frontier.transport.redis_client",
            "skitter.scrapy.scheduler",
            "twisted.internet.asyncioreactor",
        ),
        packages=(
            "scrapy.commands",
            "scrapy.downloadermiddlewares",
            "scrapy.extensions",
            "scrapy.spidermiddlewares",
        ),
    ),
    "celery": Program(
        "celery.__main__:main",
        modules=(
            "celery.apps.worker",
            "celery.backends.redis",
            "celery.bin.celery",
            "celery.bin.worker",
            "celery.concurrency.prefork",
            "celery.worker.worker",
            "kombu.transport.redis",
            "skitter.celery",  # which makes its app when it is first used
            "skitter.celery.pump",
            "skitter.frontier.transport.redis_client",
            "uvloop",
        ),
    ),
    "skitter": Program(
        "skitter.cli.main:run",
        modules=(
            "skitter.cli.commands.check",
            "skitter.cli.commands.prepare",
            "skitter.cli.commands.runs",
            "skitter.cli.crawl",
            "skitter.cli.commands.dead",
            "skitter.cli.commands.jobs",
            "skitter.cli.commands.workers",
            "skitter.frontier.transport.redis_client",
            "skitter.sinks.databases.sqlite",
            "uvloop",
        ),
    ),
    "chaos": Program("chaos.worker:run", modules=("skitter.frontier.transport.redis_client",)),
}


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
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
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

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@dataclass
class Place:
    """What else a new process is given."""

    folder: Path
    environment: dict[str, str]
    out: IO[str]
    errors: IO[str]


class Nursery:
    """The process that forks; it imports while the first order waits."""

    def __init__(self, program: str, *options: str) -> None:
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, *options, __file__, program, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for the test, which then ends its forks
            )

    def start(self, words: Sequence[str], place: Place) -> Fork:
        """The program with those words."""
        order = {"words": words, "folder": str(place.folder), "environment": place.environment}
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            given = [place.out.fileno(), place.errors.fileno(), theirs.fileno()]
            socket.send_fds(self._orders, [json.dumps(order).encode()], given)
        return Fork(ours)

    def call(
        self,
        words: Sequence[str],
        *,
        folder: Path,
        environment: dict[str, str],
        timeout_s: float = PATIENCE_S,
    ) -> subprocess.CompletedProcess[str]:
        """The same, to its end. If the test has no more time for that, its report says how far it
        came."""
        with TemporaryFile("w+") as out, TemporaryFile("w+") as errors:
            fork, code = self.start(words, Place(folder, environment, out, errors)), None
            try:
                code = fork.wait(timeout_s)
            finally:
                fork.kill()
                fork.wait()
                out.seek(0)
                errors.seek(0)
                said = out.read(), errors.read()
                if code is None:
                    sys.stderr.write("\n".join([" ".join(words), *said]))
            return subprocess.CompletedProcess(words, code, *said)

    def close(self) -> None:
        self._orders.close()
        self._process.wait()


# --- in the process that forks --------------------------------------------------------------------


def import_all(program: Program) -> Callable[[], object]:
    """What is to be called in a fork."""
    module, _, name = program.main.partition(":")
    main: Callable[[], object] = getattr(import_module(module), name)
    for one in program.modules:
        import_module(one)
    for package in program.packages:
        for found in pkgutil.iter_modules(import_module(package).__path__, f"{package}."):
            import_module(found.name)
    assert "twisted.internet.reactor" not in sys.modules  # a node chooses its own
    assert threading.active_count() == 1  # others would not be in the fork
    gc.collect()
    gc.freeze()  # or each fork would copy all that its garbage collector looks at
    return main


def serve(orders: socket.socket) -> None:
    """Fork for each order. Returns in the forks alone, which are to become the program."""
    while True:
        text, given, _, _ = socket.recv_fds(orders, MAX_BYTES, 3)
        reap()
        if not text:
            sys.exit()
        if os.fork() == 0:
            orders.close()
            out, errors, answers = given
            if fork_and_tell(socket.socket(fileno=answers)):
                os._exit(0)
            return take_place(out, errors, **json.loads(text))
        for one in given:
            os.close(one)


def fork_and_tell(answers: socket.socket) -> bool:
    """Tell the pid of a fork, and how it ended. Only a parent hears of that, so this one stays
    until then, and True is for it."""
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


def take_place(
    out: int, errors: int, *, words: list[str], folder: str, environment: dict[str, str]
) -> None:
    """All that a new process would be given, and a group of its own."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for given, number in ((out, 1), (errors, 2)):
        os.dup2(given, number)
    os.close(out)
    os.close(errors)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[1:] = words
    paths = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:1] = [folder, *filter(None, paths)]


def main() -> object:
    name, number = sys.argv[1:]
    run = import_all(PROGRAMS[name])
    sys.argv[0] = str(Path(import_module(name).__path__[0], "__main__.py"))
    with socket.socket(fileno=int(number)) as orders:
        serve(orders)
    return run()


if __name__ == "__main__":
    main()
