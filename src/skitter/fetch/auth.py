"""Which hosts get an Authorization header: those the operator named, and no other origin.

It is chosen by the target of each request, so that a redirect cannot take it elsewhere.
"""

from __future__ import annotations

import logging
from base64 import b64encode
from typing import TYPE_CHECKING, Final

from skitter.fetch.guard import DEFAULT_PORTS, authority_of

if TYPE_CHECKING:
    from skitter.fetch.guard import Authority
    from skitter.settings.fetch import FetchOptions

_LOG: Final = logging.getLogger("skitter.fetch")


class Credentials:
    """The headers by origin."""

    def __init__(self, options: FetchOptions) -> None:
        self._headers: dict[str, str] = {}
        self._warned: set[str] = set()
        for host, pair in options.basic_auth.items():
            self._add(host, f"Basic {b64encode(pair.encode()).decode()}")
        for host, token in options.bearer_auth.items():
            self._add(host, f"Bearer {token}")

    def __bool__(self) -> bool:
        return bool(self._headers)

    def header_for(self, url: str, whom: Authority) -> str | None:
        """The header for this URL's origin."""
        scheme = url.partition(":")[0]
        header = self._headers.get(f"{scheme}://{whom.host_port}")
        if header and scheme == "http" and whom.host_port not in self._warned:
            self._warned.add(whom.host_port)
            _LOG.warning(
                "the credentials for %s are sent unencrypted: use https if it is available.",
                whom.host,
            )
        return header

    def _add(self, host: str, header: str) -> None:
        """A host without a port means the default ports of http and https."""
        for scheme in DEFAULT_PORTS:
            whom = authority_of(f"{scheme}://{host}/")
            self._headers[f"{scheme}://{whom.host_port}"] = header
