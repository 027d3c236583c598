"""The terminal that types what the documents show: for real, in one folder and on one server.

The pages speak of machines that nobody has (10.0.0.5), of sites that do not exist (books.example)
and of ids that are different each time. Here these are the server of the test, the demo's bookshop,
and the id that was made last.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from chaos.servers import Node, free_ports
from cli.conftest import Answer
from documents import ROOT, agrees
from forks import Nursery
from machines import Machine
from needs import need
from skitter.embedded import server_binary
from waiting import Child, until

SHOP = "localhost:8000"  # as the pages have it
#: Sites of the pages; where nothing is fetched they stay what they are.
SITES = re.compile(r"https?://(?:[\w-]+\.example|example\.com)")
FETCHING = re.compile(r"skitter (run|worker|crawl|map|test add) ")
ONE_SERVER = re.compile(r"redis://(?::[^@\s]*@)?(?:10\.0\.0\.5|crawl\.example)(?::6379)?")
CLUSTER = "redis+cluster://10.0.0.5:6379"
#: Commands that go on until they are stopped, and what each of them says when it is at work.
STAYING = {
    r"skitter serve": r"Serving http",
    r"skitter worker .*--keep-alive": r"Working on",
    r"skitter celery worker": r"\[queues\]",
    r"skitter schedule watch": r"the next round begins at",
    r"skitter load": r"Loading the items of",
    r"skitter top": r"\d\d:\d\d:\d\d",
    r"skitter demo .*--dashboard": r"Dashboard: http",
    r"skitter run .*--keep-alive": r"\d+ pages?, ",
    r"python -m skitter.demo.site": r"http://localhost:\d+/",
}
#: Enough of a crawl to see that it works. A flag of the line, such as --delay 2, still counts.
SHORT = {
    "SKITTER_LIMITS_MAX_PAGES": "2",
    "SKITTER_POLITENESS_DELAY_S": "0",
    "SKITTER_RETRIES_BASE_S": "0.05",
    "SKITTER_WORKERS_PROCESSES": "1",
}
MOMENT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
IN_SHELL = re.compile(r"[|&<]|\$\(|^\w+=")


@dataclass
class Terminal:
    folder: Path
    server: Path
    host: str  # of the shop
    skitter: Callable[..., Answer]
    nursery: Nursery
    postgres: Callable[[], str]
    monkeypatch: pytest.MonkeyPatch
    open: ExitStack
    cluster: Node | None = None
    staying: list[tuple[str, Child[str], Path]] = field(default_factory=list)

    def type(self, line: str, output: list[str]) -> None:
        """Run a line of a page; it must end well and print what the page shows, if that is shown.
        What goes on until it is stopped goes on until the page ends."""
        command = self.translated(line)
        for pattern, said in STAYING.items():
            if re.match(pattern, command):
                printed = self._stay(command, said)
                assert _begins_as(output, self._as_shown(printed)), f"{line}\n{printed}"
                return
        code, printed = self._end(command, {} if output else SHORT)
        assert code == 0, f"{line}\n{command}\n{printed}"
        assert "Traceback" not in printed, f"{line}\n{printed}"
        if output:
            assert agrees(output, self._as_shown(printed)), f"{line}\n{printed}"

    def print(self, line: str) -> str:
        """What a line prints that ends by itself, and well."""
        code, printed = self._end(self.translated(line), {})
        assert code == 0, f"{line}\n{printed}"
        return self._as_shown(printed)

    def script(self, lines: list[str]) -> None:
        """Lines that share one shell."""
        code, printed = self._shell("\n".join(map(self.translated, lines)), SHORT)
        assert code == 0, printed

    def python(self, code: str) -> None:
        """Code that needs an interpreter of its own."""
        here = SITES.sub(f"http://{self.host}", code.replace(SHOP, self.host))
        words = [sys.executable, "-c", here]
        done = subprocess.run(
            words,
            cwd=self.folder,
            env=self._environment(SHORT),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{code}\n{done.stdout}{done.stderr}"

    def translated(self, line: str) -> str:
        command = line.partition(" #")[0].strip().replace(SHOP, self.host)
        command = Machine(self.folder).translated(command)
        if CLUSTER in command:
            command = command.replace(CLUSTER, self._cluster())
        command = ONE_SERVER.sub(f"unix://{self.server}/valkey.sock", command)
        command = command.replace("--redis ...", f"--redis unix://{self.server}/valkey.sock")
        command = re.sub(r"\bJOB\b", "books", command)
        if "postgresql://..." in command:
            command = command.replace("postgresql://...", self.postgres())
        if command.startswith("skitter proxy bench "):  # of pages that are there
            command = re.sub(rf"{SITES.pattern}/\w", f"http://{self.host}/", command)
        if FETCHING.match(command):
            command = SITES.sub(f"http://{self.host}", command)
        if "deploy/backup/backup /backups/" in command:
            need("redis-cli")
            command = command.removeprefix("REDISCLI_AUTH=... ")  # no password here
            command = command.replace("deploy/backup", f"{ROOT}/deploy/backup", 1)
            command = command.replace(" /backups/", f" {self.folder}/")
            command = command.replace("-h valkey.internal", f"-s {self.server}/valkey.sock")
        command = command.replace("file:///data/", f"file://{self.folder}/data/")
        if command.startswith("redis-cli "):
            client = need("redis-cli")
            command = command.replace("redis-cli", f"{client} -s {self.server}/valkey.sock", 1)
        command = command.replace("skitter demo --dashboard", "skitter demo --books 60 --dashboard")
        command = command.replace("--bind 10.0.0.5", "--bind 127.0.0.1")
        command = re.sub(r"(?<=--port )6379", lambda _: str(free_ports(1)[0]), command)
        if re.fullmatch("skitter run .* --fresh", command):
            command += " --yes"  # a person would be asked
        if re.search("skitter up ", command):
            command += f" --dir {self.server}-up"
            self.open.callback(self.skitter, "down", "--dir", f"{self.server}-up")
        if re.match("skitter serve|python -m skitter.demo.site", command):
            command += " --port 0"
        return self._with_ids(command)

    def _with_ids(self, command: str) -> str:
        words = shlex.split(command, comments=True)
        if "revoke" in words:
            listed = self.skitter("token", "list", "--json").json
            return command.replace(words[-1], listed[-1]["id"])
        if words[1:3] == ["webhook", "remove"]:
            listed = self.skitter("webhook", "list", words[3], "--json").json
            return command.replace(words[-1], listed[-1]["id"])
        return command

    def _cluster(self) -> str:
        """The URL of a cluster of one node."""
        if not self.cluster:
            options = {"cluster-enabled": "yes", "cluster-node-timeout": "2000"}
            node = Node(server_binary(), self.server.with_name("cluster"), **options)
            node.start()
            self.open.callback(node.kill)
            until(node.answers)
            node.ask("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            until(lambda: b"cluster_state:ok" in node.ask("CLUSTER", "INFO"))
            self.cluster = node
        return f"redis+cluster://127.0.0.1:{self.cluster.port}"

    def _as_shown(self, printed: str) -> str:
        return re.sub(r"localhost:\d+", SHOP, printed)

    def _environment(self, more: dict[str, str]) -> dict[str, str]:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        return {**os.environ, **more, "PATH": path}

    def _end(self, command: str, more: dict[str, str]) -> tuple[int, str]:
        """A command that ends by itself: in this process, which has all modules already."""
        if command.startswith("export "):
            return self._export(command)
        if not command.startswith("skitter ") or IN_SHELL.search(command):
            return self._shell(command, more)
        words = shlex.split(command)
        if words[1] in ("run", "crawl", "worker"):  # they start processes, and take signals
            environment = self._environment(more)
            done = self.nursery.call(words[1:], folder=self.folder, environment=environment)
            return done.returncode, _shown(done)
        answer = self.skitter(*words[1:])
        return answer.exit_code, answer.out + answer.err

    def _shell(self, command: str, more: dict[str, str]) -> tuple[int, str]:
        done = subprocess.run(
            [need("bash"), "-ec", command],
            cwd=self.folder,
            env=self._environment(more),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, _shown(done)

    def _export(self, command: str) -> tuple[int, str]:
        names = re.findall(r"(\w+)=", command)
        code, printed = self._shell(f"{command}\nprintenv {' '.join(names)}", {})
        for name, value in zip(names, printed.splitlines(), strict=True):
            self.monkeypatch.setenv(name, value)
        return code, ""

    def _stay(self, command: str, said: str) -> str:
        log = self.folder / f"staying-{len(self.staying)}.log"
        words = shlex.split(command)
        words = [sys.executable, "-m", *words] if words[0] == "skitter" else words
        words = [sys.executable, *words[1:]] if words[0] == "python" else words
        with log.open("w") as file:
            process = Child(
                words,
                cwd=self.folder,
                env=self._environment(SHORT | {"PYTHONUNBUFFERED": "1"}),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                text=True,
            )
        self.staying.append((command, process, log))
        until(lambda: re.search(said, log.read_text()) or process.poll() is not None)
        printed = log.read_text()
        assert re.search(said, printed), f"{command}\n{printed}"
        return printed

    def stop(self) -> None:
        """Ctrl-C for all that still goes on: each ends, and none with a stack trace."""
        while self.staying:
            command, process, log = self.staying.pop()
            with process:
                process.send_signal(signal.SIGINT)
                process.wait()
            printed = log.read_text()
            usual = {1} if " celery " in command else {0, 130}  # Celery has its own
            assert process.returncode in usual, f"{command}: {process.returncode}\n{printed}"
            assert "Traceback" not in printed, f"{command}\n{printed}"


def _shown(done: subprocess.CompletedProcess[str]) -> str:
    """Progress goes to stderr: a page does not show it, and a mistake is told there."""
    is_fine = done.returncode == 0 and "Traceback" not in done.stderr
    return done.stdout if is_fine else done.stdout + done.stderr


def _begins_as(shown: list[str], printed: str) -> bool:
    """As far as it got until now; moments differ."""
    lines = [MOMENT.sub("...", line) for line in shown[: printed.count("\n")]]
    return agrees(lines, printed) if lines else True
