"""Packages that bring something of their own, installed as users do it."""

from __future__ import annotations

import subprocess
import sys
import zipfile


def install(machine, module: str, source: str, entry_points: str) -> None:
    """A wheel with one module and its entry points, installed by pip for one machine."""
    packages, name = machine.folder / "packages", module.replace("_", "-")
    wheel, info = machine.folder / f"{module}-1.0-py3-none-any.whl", f"{module}-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{module}.py", source)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(
            f"{info}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr(f"{info}/entry_points.txt", entry_points)
        archive.writestr(f"{info}/RECORD", "")
    pip = (sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps")
    subprocess.run([*pip, "--target", packages, wheel], check=True, capture_output=True)
    machine.environment["PYTHONPATH"] = str(packages)
