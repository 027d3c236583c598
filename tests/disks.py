"""Disks of a test's own that can be full; a real one is never filled."""

from __future__ import annotations

import subprocess
from pathlib import Path

from scripts.programs import find_program


def mount_disk(place: Path, *, size: str) -> str:
    """A small disk in memory at that new directory. Why it cannot be; empty if it is there."""
    place.mkdir(mode=0o700)
    mount = find_program("mount")
    if not mount:
        return "there is no mount"
    options = ["-t", "tmpfs", "-o", f"size={size},mode=700"]
    done = subprocess.run(
        [mount, *options, "tmpfs", str(place)], capture_output=True, text=True, check=False
    )
    return done.stderr.strip()


def unmount_disk(place: Path) -> None:
    if place.is_mount() and (umount := find_program("umount")):
        subprocess.run([umount, "--lazy", str(place)], check=False)


def fill_disk(place: Path) -> Path:
    """Not a byte is free afterwards, until this file is removed."""
    filler = place / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (2**16, 1):
            try:
                while file.write(b"x" * size):
                    pass
            except OSError:
                continue
    return filler
