"""Block pages: what a bot guard sends instead of the page. Pure, and cheap where it matters.

A mark must not occur on ordinary pages behind the same guard: a site behind Cloudflare or DataDome
has their scripts on every page, and a login form may have a captcha.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from skitter.model import Response

#: Statuses that guards use; these responses are always searched.
SUSPICIOUS: Final = frozenset({202, 401, 403, 405, 406, 418, 429, 503})
#: Any other page is searched only if it is this small: block pages are short, and pages of
#: ordinary size must not pay for them.
SMALL_BYTES: Final = 4 * 1024
LARGE_BYTES: Final = 256 * 1024

#: Header, text in its value, name of the guard.
_HEADERS: Final = (
    ("cf-mitigated", "challenge", "Cloudflare"),
    ("x-amzn-waf-action", "", "AWS WAF"),
    ("x-datadome", "protected", "DataDome"),
)
#: Marks of a block page, in any response.
_MARKS: Final = (
    (b"_cf_chl_opt", "Cloudflare"),
    (b"<title>Just a moment...</title>", "Cloudflare"),
    (b"captcha-delivery.com", "DataDome"),
    (b"px-captcha", "PerimeterX"),
    (b"Incapsula incident ID", "Imperva"),
    (b"Pardon Our Interruption", "Imperva"),
    (b"errors.edgesuite.net", "Akamai"),
    (b"awsWafCookieDomainList", "AWS WAF"),
    (b"unusual traffic from your", "Google"),
)
#: Marks that ordinary pages have too; they mean a block only with a suspicious status.
_HINTS: Final = (
    (b"hcaptcha.com", "hCaptcha"),
    (b"www.google.com/recaptcha", "reCAPTCHA"),
    (b"challenges.cloudflare.com", "Cloudflare"),
    (b"/cdn-cgi/styles/cf.errors", "Cloudflare"),
    (b"_Incapsula_Resource", "Imperva"),
    (b"Reference&#32;&#35;", "Akamai"),
)


def blocker_of(response: Response) -> str | None:
    """Who blocks us, if this is a block page."""
    suspicious = response.status in SUSPICIOUS
    if len(response.body) > (LARGE_BYTES if suspicious else SMALL_BYTES):
        return None
    if not suspicious and response.status != 200:
        return None
    if suspicious and (name := _by_header(response)):
        return name
    if "html" not in (response.header("content-type") or "html"):
        return None
    marks = _MARKS + _HINTS if suspicious else _MARKS
    return next((name for mark, name in marks if mark in response.body), None)


def _by_header(response: Response) -> str | None:
    for header, words, name in _HEADERS:
        value = response.header(header)
        if value is not None and words in value:
            return name
    return None
