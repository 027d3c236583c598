"""Lines of the documents that change a machine: here they change a folder that stands for it.

`/etc` and `/opt` are in that folder, and systemctl enables units there. pip asks no index: it works
in an environment that sees what the tests are installed with, so that Skitter is all it has to
install. kubectl writes what it would send to a cluster. The folder is a clone too, of links.
"""

from __future__ import annotations

import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from documents import ROOT
from needs import need

CLONED = (
    *("LICENSE", "Makefile", "README.md", "benchmarks", "constraints.txt", "pyproject.toml"),
    *("requirements.lock", "scripts", "src"),
)
CHANGING = re.compile(r"install -d /|echo SKITTER_|cp books\.py /|python3 -m venv |systemctl ")
PIP = "-m pip --no-input --disable-pip-version-check"
SIMULATION = re.compile(r"python -m benchmarks\.simulate ")


@dataclass(frozen=True)
class Machine:
    folder: Path

    @property
    def environment(self) -> Path:
        """Where `pip` installs."""
        return self.folder / "venv"

    def clone(self) -> None:
        for name in CLONED:
            (self.folder / name).symlink_to(ROOT / name)
        (self.folder / ".venv").symlink_to(sys.prefix)
        shutil.copytree(ROOT / "deploy", self.folder / "deploy")  # pages write into it
        (self.folder / "etc/systemd/system").mkdir(parents=True)

    def translated(self, command: str) -> str:
        """The line as it is typed here."""
        if CHANGING.match(command):
            command = re.sub(r"(?<= )/(etc|opt)/", rf"{self.folder}/\1/", command)
        command = re.sub(r"^python3 -m venv (\S+)", lambda one: self._new(one[1]), command)
        if re.match("pip ", command) and not self.environment.exists():
            command = f"{self._new('venv')} && {command}"
        if found := re.search(r"(?:^|(?<= ))(\S*/bin/)?pip (install|wheel) .*", command):
            command = command[: found.start()] + self._pip(found[0], found[1], found[2])
        if command.startswith("systemctl "):
            systemctl = f"{need('systemctl')} --root={self.folder}"
            # Nothing can be started there, only enabled.
            command = command.replace("systemctl", systemctl, 1).replace(" --now", "")
        if command.startswith("kubectl "):
            command = self._kubectl(command)
        if command.startswith("make demo"):
            command = f"{need('make')} -o .venv/.core demo ARGS='--books 60'"
        if command == "skitter demo" and self.environment.exists():
            command = f"{self.environment / 'bin' / 'skitter'} demo --books 60"
        if SIMULATION.match(command):
            command = re.sub(r"000\b", "", command)  # a thousandth of it
        return command

    def _new(self, place: str) -> str:
        """A new environment. To install a pip of its own would take three seconds of CPU time."""
        python = f"python{sys.version_info.major}.{sys.version_info.minor}"
        peers = Path(sys.prefix, "lib", python, "site-packages")
        return (
            f"{sys.executable} -m venv --without-pip {place}"
            f" && echo {peers} > {place}/lib/{python}/site-packages/peers.pth"
        )

    def _pip(self, line: str, place: str | None, verb: str) -> str:
        options = "--no-index --no-build-isolation"
        line = line.replace("/path/to/", f"{self.folder}/dist/")
        words = line.partition(f"pip {verb} ")[2]
        python = Path(place or self.environment / "bin", "python")
        told = "2>&1 | { ! grep WARNING; }"  # one says that Skitter has no such extra
        return f"set -o pipefail; {python} {PIP} {verb} {options} {words} {told}"

    def _kubectl(self, command: str) -> str:
        """No cluster is asked, not even if the user of this machine has one."""
        command = command.replace("kubectl apply -k", "kubectl kustomize")
        command += " --dry-run=client -o name" if " create " in command else ""
        return command.replace("kubectl", f"KUBECONFIG=/dev/null {need('kubectl')}", 1)
