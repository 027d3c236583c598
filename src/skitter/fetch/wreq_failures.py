"""What wreq's errors mean to us.

wreq has a class for each stage; the cause is only in the message, the `Debug` form of a Rust error.
So a failure is recognized by its class and by words of that message, in one table; the tests
provoke each on a real socket, and would notice if a release changed the words.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from wreq import exceptions as wreq_errors

from skitter.errors import (
    BadResponse,
    ConnectFailed,
    ConnectRefused,
    FetchError,
    FetchTimeout,
    ProxyFault,
    ResponseTooLarge,
)
from skitter.fetch.proxies import shown

if TYPE_CHECKING:
    from skitter.settings.fetch import FetchOptions

WREQ_ERRORS: Final = (
    wreq_errors.BodyError,
    wreq_errors.BuilderError,
    wreq_errors.ConnectionError,
    wreq_errors.ConnectionResetError,
    wreq_errors.DecodingError,
    wreq_errors.ProxyConnectionError,
    wreq_errors.RequestError,
    wreq_errors.TimeoutError,
    wreq_errors.TlsError,
    wreq_errors.UpgradeError,
)
_CONNECTING: Final = (
    wreq_errors.ConnectionError,
    wreq_errors.ProxyConnectionError,
    wreq_errors.TlsError,
)

# The first match in the message decides.
_CAUSES: Final[tuple[tuple[str, type[FetchError], str], ...]] = (
    ("dns error", ConnectFailed, "the name does not resolve"),
    ("CERTIFICATE_VERIFY_FAILED", ConnectFailed, "the TLS certificate is not trusted"),
    ("SSL", ConnectFailed, "the TLS handshake failed"),
    ("ConnectionRefused", ConnectRefused, "nothing listens on that port"),
    ("Unreachable", ConnectFailed, "no route to that address"),
    ("Parse(TooLarge)", ResponseTooLarge, "the headers are over the limit"),
    ("Parse(", BadResponse, "the response is not HTTP"),
    ("IncompleteMessage", BadResponse, "the connection closed before a response came"),
    # HTTP/2 (RFC 9113 7): the same as a 429, or a port that refuses.
    ("REFUSED_STREAM", ConnectRefused, "the server refuses requests on this connection"),
    ("ENHANCE_YOUR_CALM", ConnectRefused, "the server says we send too much"),
    ("GoAway", BadResponse, "the server ended the connection before the request"),
    ("Canceled", BadResponse, "the connection closed before a response came"),  # HTTP/2
    ("IncompleteBody", BadResponse, "the body was cut off"),
    ("unexpected EOF", BadResponse, "the body was cut off"),
    ("ConnectionReset", BadResponse, "the connection was reset"),
    ("BrokenPipe", BadResponse, "the connection was reset"),
)
# The rest, by class.
_STAGES: Final[tuple[tuple[tuple[type[Exception], ...], type[FetchError], str], ...]] = (
    (_CONNECTING, ConnectFailed, "the connection failed"),
    ((wreq_errors.ConnectionResetError,), BadResponse, "the connection was reset"),
    ((wreq_errors.DecodingError,), BadResponse, "the body does not decompress"),
    ((wreq_errors.BodyError,), BadResponse, "the body was cut off"),
    ((wreq_errors.BuilderError,), FetchError, "the request cannot be sent"),
)
#: What wreq's message says, and what it means. SOCKS5 tells the target's failures from its own
#: (RFC 1928 6); HTTP proxies do not.
_PROXY_TARGET: Final = re.compile(r"Socks\((?:HostUnreachable|ConnectionRefused|TTLExpired)")
_PROXY_CAUSES: Final = (
    ("ProxyAuthRequired", "rejects our credentials (407)"),
    ("NoAcceptableAuthMethods", "rejects our credentials"),
    ("PasswordAuthFailure", "rejects our credentials"),
    ("TunnelUnsuccessful", "did not open a tunnel (usually a 502)"),
    ("dns error", "has a name that does not resolve"),
    ("ConnectionRefused", "does not listen on its port"),
    ("TimedOut", "did not answer in time"),
    ("SSL", "failed the TLS handshake"),
    ("CERTIFICATE_VERIFY_FAILED", "has a TLS certificate that is not trusted"),
)


def explain(error: Exception, url: str, *, elapsed_s: float, options: FetchOptions) -> FetchError:
    """Our error for one of wreq's, with a useful reason."""
    text = str(error)
    if "TimedOut" in text or isinstance(error, wreq_errors.TimeoutError):
        return FetchTimeout(url, _what_was_slow(error, elapsed_s, options))
    for words, kind, reason in _CAUSES:
        if words in text:
            return kind(url, reason)
    for stage, kind, reason in _STAGES:
        if isinstance(error, stage):
            return kind(url, reason)
    return BadResponse(url, "the exchange failed")


def explain_proxy(error: Exception, url: str, proxy: str) -> FetchError | None:
    """The proxy's failure; None: it is the page's own."""
    if not isinstance(error, wreq_errors.ProxyConnectionError):
        return None
    text = str(error)
    if _PROXY_TARGET.search(text):
        return ConnectFailed(url, "the proxy cannot reach it")
    reason = next((reason for words, reason in _PROXY_CAUSES if words in text), "failed")
    return ProxyFault(url, f"the proxy {shown(proxy)} {reason}")


def _what_was_slow(error: Exception, elapsed_s: float, options: FetchOptions) -> str:
    if elapsed_s >= options.total_timeout_s:
        return f"it took longer than {options.total_timeout_s:g} s in total"
    if isinstance(error, _CONNECTING):
        return f"no connection within {options.connect_timeout_s:g} s"
    if isinstance(error, wreq_errors.TimeoutError):
        return f"no response within {options.first_byte_timeout_s:g} s"
    return f"the body stalled for {options.first_byte_timeout_s:g} s"
