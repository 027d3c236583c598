"""The image at work, with the rights that compose.yaml gives it.

Building it takes a registry: `podman build -f deploy/Containerfile -t skitter .` comes first. The
test is skipped where nobody has done so.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from needs import need

COMPOSE = Path(__file__).parents[2] / "deploy" / "compose.yaml"
IMAGE = "localhost/skitter"


def podman(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([need("podman"), *words], capture_output=True, text=True, check=False)


def rights() -> list[str]:
    """Of the services of compose.yaml, as podman's options."""
    common = yaml.safe_load(COMPOSE.read_text())["x-skitter"]
    assert common["read_only"]
    return [
        "--read-only",
        *(f"--tmpfs={place}" for place in common["tmpfs"]),
        *(f"--cap-drop={one}" for one in common["cap_drop"]),
        *(f"--security-opt={one.removesuffix(':true')}" for one in common["security_opt"]),
    ]


@pytest.mark.chaos
@pytest.mark.timeout(300)
def test_the_image_crawls_with_few_rights():
    if podman("image", "exists", IMAGE).returncode:
        pytest.skip("there is no image: podman build -f deploy/Containerfile -t skitter .")

    done = podman("run", "--rm", *rights(), IMAGE, "demo", "--books", "60")

    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Every URL is accounted for.") == 3
