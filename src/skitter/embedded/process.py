"""The server process: spawn it, ask it, mend its files, shut it down."""

from __future__ import annotations

import os
import re
import socket
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from mmap import ACCESS_READ, mmap
from typing import TYPE_CHECKING, Any, BinaryIO

import hiredis

from skitter.embedded import home, program
from skitter.embedded.home import Progress, Wait
from skitter.embedded.program import environment, examine_binary
from skitter.errors import DiskFull, InfrastructureError, ServerFailed, ServerRefused
from skitter.trust import open_append

if TYPE_CHECKING:
    from pathlib import Path

    from skitter.embedded.home import EmbeddedServer
    from skitter.embedded.program import ServerBinary, ServerOptions


_COMPLAINT = re.compile(r"Bad file format reading the append only file ([\w.]+):")
#: A command is `*2`, then `$3` and `GET` for each word, all ended by CRLF.
_WORDS = re.compile(rb"\*(\d+)\r\n")
_LENGTH = re.compile(rb"\$(\d+)\r\n")
_ZEROS = re.compile(rb"\0+")


def mend(directory: Path, log_text: str) -> bool:
    """Close gaps in the append-only file that the server complains about. False: there are none.

    A write that does not fit on a full disk is cut off again. But in a file that it opened for a
    rewrite, and so not for appending, the server continues where that write had ended: once there
    is room, zeros are left between two commands, and the next start fails with "Bad file format".
    Nothing is missing: what did not fit is written again behind the gap.

    But the server also takes the file for shorter than it is, by the gap: a second write that does
    not fit cuts off what was written before. That cannot be mended; `Server` prevents it with a
    rewrite after a full disk (frontier/transport/connection.py). Seen with Valkey 9.1.2 and Redis
    7.0.15.
    """
    complaint = _COMPLAINT.search(log_text)
    return complaint is not None and close_gaps(directory / "appendonlydir" / complaint[1])


def close_gaps(file: Path) -> bool:
    """Remove zeros between commands, and no other byte. False: there are none, or more is wrong."""
    with file.open("rb") as damaged, mmap(damaged.fileno(), 0, access=ACCESS_READ) as content:
        gaps = _gaps(content)
        if not gaps:
            return False
        draft, kept = file.with_name(f"temp-{file.name}"), 0
        draft.touch(mode=0o600)
        with draft.open("wb") as mended, memoryview(content) as view:
            for start, end in [*gaps, (len(content), 0)]:
                mended.write(view[kept:start])
                kept = end
            mended.flush()
            os.fsync(mended.fileno())
    draft.replace(file)
    return True


def _gaps(content: mmap) -> list[tuple[int, int]]:
    """Start and end of the zeros between commands. None if there is anything else between them."""
    gaps: list[tuple[int, int]] = []
    at = 0
    while at < len(content):
        if end := _end_of_command(content, at):
            at = end
        elif gap := _ZEROS.match(content, at):
            gaps.append(gap.span())
            at = gap.end()
        else:
            return []
    return gaps


def _end_of_command(content: mmap, at: int) -> int:
    """0: none begins there. Beyond the file: it is cut off, which the server mends itself."""
    if not (words := _WORDS.match(content, at)):
        return 0
    end = words.end()
    for _ in range(int(words[1])):
        if not (length := _LENGTH.match(content, end)):
            return 0
        end = length.end() + int(length[1]) + 2
        if end > len(content):
            break
        if content[end - 2 : end] != b"\r\n":
            return 0
    return end


REPLY_TIMEOUT_S = 1.0
READ_BYTES = 65_536


def send(server: EmbeddedServer, *words: str) -> Any:
    """The reply to one command, over the server's socket: importing redis-py would take longer than
    most of what `skitter` does with an embedded server.

    Raises ReplyError with the server's own words; TimeoutError if it is silent; any other OSError
    if nobody is there.
    """
    reader = hiredis.Reader()
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(REPLY_TIMEOUT_S)
        link.connect(str(server.socket))
        if server.password:
            _ask(link, reader, ("AUTH", server.password))
        return _ask(link, reader, words)


def info(server: EmbeddedServer, *sections: str) -> dict[str, str]:
    """What INFO says. Raises as `send` does."""
    lines = send(server, "INFO", *sections).decode(errors="replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def _ask(link: socket.socket, reader: hiredis.Reader, words: tuple[str, ...]) -> Any:
    link.sendall(hiredis.pack_command(words))  # type: ignore[arg-type] # it takes more than one
    while (reply := reader.gets()) is False:  # not all of it has arrived
        if not (data := link.recv(READ_BYTES)):
            raise ConnectionResetError
        reader.feed(data)
    if isinstance(reply, hiredis.ReplyError):
        raise reply
    return reply


KILLED = "it was killed, perhaps because memory ran out"
#: For a server that is alive but silent; one that reports loading is not silent.
PATIENCE_S = 60.0
#: When there is room on its disk again, the server writes what it has accepted within a second.
WRITE_S = 5.0
#: Every start adds some 2 KB to the log. A larger one is kept once more, under another name.
MAX_LOG_BYTES = 10 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProcess:
    """A running server."""

    pid: int
    name: str  # Valkey or Redis
    version: str
    run_id: str
    uptime_s: int
    loading: bool


class KilledAtStart(ServerFailed):
    """Killed while starting, perhaps along with all processes of an earlier crawl."""


class Answer(Enum):
    """What a PING of the socket shows."""

    READY = auto()
    LOADING = auto()
    SILENT = auto()
    NOBODY = auto()


def ask(server: EmbeddedServer) -> Answer:
    """PING it once."""
    try:
        send(server, "PING")
    except hiredis.ReplyError as error:
        _check_password(server, error)
        # -MISCONF on a full disk, -BUSY during a long script: it does answer
        return Answer.LOADING if str(error).startswith("LOADING") else Answer.READY
    except TimeoutError:
        return Answer.SILENT
    except OSError:
        return Answer.NOBODY
    return Answer.READY


def is_alive(server: EmbeddedServer) -> bool:
    """Whether a server process lives in the directory, reachable or not."""
    return home.is_held_alone(server.server_lock)


def is_ready(server: EmbeddedServer, progress: Progress | None) -> bool:
    """Wait until the server answers. False if there is none, or it is gone."""
    wait = Wait(progress, patience_s=PATIENCE_S)
    while (answer := ask(server)) is not Answer.READY:
        if answer is Answer.NOBODY and not is_alive(server):
            return False
        if answer is Answer.LOADING:
            wait.restart()
            wait.pause("the embedded server is loading its data")
        elif wait.too_long:
            raise _unreachable(server)
        else:
            wait.pause("waiting for the embedded server to answer")
    return True


def spawn(server: EmbeddedServer, options: ServerOptions, progress: Progress | None) -> None:
    """Start a server in a directory that has none, and wait until it is ready."""
    binary = examine_binary()
    program.write(server.config, options)
    server.socket.unlink(missing_ok=True)
    with open_log(server) as log, home.inheritable(server.server_lock) as lock:
        log_start = log.tell()
        _run(binary, server.directory, output=log, lock=lock)
    if not is_ready(server, progress):
        log_text = server.log.read_bytes()[log_start:].decode(errors="replace")
        if not mend(server.directory, log_text):
            raise _not_started(server, log_text)
        if progress:
            progress("closed a gap that a full disk left in the append-only file: starting again")
        spawn(server, options, progress)


def _not_started(server: EmbeddedServer, log_text: str) -> InfrastructureError:
    if "No space left on device" in log_text:
        return DiskFull(server.directory)
    reason = last_words(log_text)
    return (KilledAtStart if reason == KILLED else ServerFailed)(
        f"the embedded server did not start: {reason}. See {server.log}, fix that and start again."
    )


def open_log(server: EmbeddedServer) -> BinaryIO:
    """Never through a link: the server would write to its target."""
    with suppress(FileNotFoundError):
        if server.log.lstat().st_size > MAX_LOG_BYTES:
            server.log.replace(server.log.with_suffix(".old.log"))
    return os.fdopen(open_append(server.log), "ab")


def _run(binary: ServerBinary, directory: Path, *, output: BinaryIO, lock: int) -> None:
    """Returns once the server has detached itself, or failed to."""
    subprocess.run(
        [binary.path.absolute(), "valkey.conf"],
        cwd=directory,
        env=environment(binary.preload),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,  # Ctrl-C in our terminal must not reach the server
        pass_fds=[lock],
        umask=0o077,
        check=False,  # checked later; the process that forked it cannot tell whether it runs
    )


def shut_down(server: EmbeddedServer, progress: Progress | None) -> bool:
    """Ask the server to sync and exit, and wait until it is gone. False if there was none.

    Raises ServerFailed while its disk is full: it would exit without what it accepted last.
    """
    wait = Wait(progress, patience_s=PATIENCE_S)
    found = False
    while (answer := ask(server)) is not Answer.NOBODY or is_alive(server):
        found = True
        if wait.too_long:
            raise _unreachable(server)
        if answer in (Answer.READY, Answer.LOADING):
            _wait_until_written(server, progress)
            _send_shutdown(server)
        wait.pause("waiting for the embedded server to stop")
    return found


def inspect(server: EmbeddedServer) -> ServerProcess | None:
    """Describe the server, allowing a moment for a start or stop in progress."""
    wait = Wait(None, patience_s=min(PATIENCE_S, 2.0))
    while (said := _info(server)) is None:
        if not is_alive(server):
            return None
        if wait.too_long:
            raise _unreachable(server)
        wait.pause("waiting for the embedded server to answer")
    return ServerProcess(
        pid=int(said["process_id"]),
        name="Valkey" if "valkey_version" in said else "Redis",
        version=said.get("valkey_version") or said["redis_version"],
        run_id=said["run_id"],
        uptime_s=int(said["uptime_in_seconds"]),
        loading=said["loading"] != "0",
    )


def last_words(log: str) -> str:
    """Why the server stopped, from its log since the start."""
    # "4711:M 15 Nov 2026 19:13:41.791 # Failed listening on port 80 (tcp), aborting."
    # The line before gives the reason. "# WARNING ..." is advice on system settings.
    complaints = re.findall(r"^\d+:\w .+? # (?!WARNING)(.+)$", log, re.MULTILINE)
    last_line = log.strip().split("\n")[-1]
    if not complaints and re.match(r"\d+:\w ", last_line):
        return KILLED
    return "; ".join(line.strip(" .:") for line in complaints[-2:] or [last_line])


def _info(server: EmbeddedServer) -> dict[str, str] | None:
    try:
        return info(server, "server", "persistence")
    except hiredis.ReplyError as error:
        _check_password(server, error)
        return None  # -BUSY during a long script
    except OSError:
        return None


def _wait_until_written(server: EmbeddedServer, progress: Progress | None) -> None:
    """The write that meets a full disk is answered, and stays in memory until there is room."""
    wait = Wait(progress, patience_s=WRITE_S)
    while (said := _info(server)) and said["aof_last_write_status"] != "ok":
        if wait.too_long:
            raise ServerFailed(
                f"the embedded server was not stopped: its disk is full, and what it accepted last "
                f"is only in memory. Free some space in {server.directory}, then stop it again."
            )
        wait.pause("waiting for the embedded server to write to its disk")


def _send_shutdown(server: EmbeddedServer) -> None:
    # It hangs up instead of replying. A reply is a refusal.
    try:
        with suppress(OSError):
            send(server, "SHUTDOWN")
    except hiredis.ReplyError as error:
        raise ServerFailed(
            f"the embedded server refuses to stop: {error}. See {server.log}, then try again."
        ) from error


def _check_password(server: EmbeddedServer, error: hiredis.ReplyError) -> None:
    if str(error).startswith(("NOAUTH", "WRONGPASS", "ERR AUTH")):
        raise ServerRefused(
            f"the server in {server.directory} expects another password than "
            f"{server.config.name} has: stop it with the client that changed it."
        ) from error


def _unreachable(server: EmbeddedServer) -> ServerFailed:
    # The pid file is a hint for a human, who can check that the process is a valkey-server. Never
    # signal it: in a directory shared by containers, the pid may be of any process.
    pid_file = server.directory / "valkey.pid"
    pid = pid_file.read_text().strip() if pid_file.exists() else "unknown"
    return ServerFailed(
        f"a server is running in {server.directory} but does not answer on its socket: "
        f"see {server.log}, then stop its process (pid {pid}) with `kill`."
    )
