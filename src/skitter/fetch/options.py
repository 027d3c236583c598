"""How pages are asked for: time, size, and who we say we are."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from skitter.errors import BadOption

if TYPE_CHECKING:
    from pathlib import Path

PROJECT_URL: Final = "https://github.com/skitter/skitter"

MAX_BODY_BYTES: Final = 10 * 2**20

_HTML_FIRST: Final = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


def honest_user_agent(contact: str = PROJECT_URL) -> str:
    """Name the product and where to complain: a URL, or `mailto:you@example.com`."""
    release = ".".join(version("skitter").split(".")[:2])  # pyproject.toml is the one place
    return f"Skitter/{release} (+{contact})"


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOptions:
    """Limits and manners of one client. A limit that is reached is a FetchError."""

    connect_timeout_s: float = 10.0  # name, TCP and TLS
    first_byte_timeout_s: float = 30.0  # until the headers are here; then the longest silence
    total_timeout_s: float = 60.0
    max_body_bytes: int = MAX_BODY_BYTES  # after decompression
    max_header_bytes: int = 64 * 2**10
    max_idle_connections: int = 256  # a broad crawl meets more hosts than it may open files
    user_agent: str = field(default_factory=honest_user_agent)
    accept: str = _HTML_FIRST
    http2: bool = True
    verify_tls: bool = True
    ca_file: Path | None = None  # trust the authorities in this PEM file, and no others

    def __post_init__(self) -> None:
        for name in ("connect_timeout_s", "first_byte_timeout_s", "total_timeout_s"):
            _check(name, getattr(self, name), low=0.001, high=86_400)
        _check("max_body_bytes", self.max_body_bytes, low=0, high=2**40)
        _check("max_header_bytes", self.max_header_bytes, low=8192, high=2**24)
        _check("max_idle_connections", self.max_idle_connections, low=1, high=2**16)
        for name in ("user_agent", "accept"):
            _check_header(name, getattr(self, name))
        if self.ca_file is not None and not self.ca_file.is_file():
            raise BadOption("ca_file", str(self.ca_file), "a PEM file that exists")


def _check(option: str, value: float, *, low: float, high: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise BadOption(option, value, f"a number from {low:,} to {high:,}")


def _check_header(option: str, value: str) -> None:
    if not isinstance(value, str) or not (value and value.isascii() and value.isprintable()):
        raise BadOption(option, value, "one line of printable ASCII")
