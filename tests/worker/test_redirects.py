"""What a redirect makes of a request, and what it does not take to another origin."""

from __future__ import annotations

import pytest

from skitter.engine.verdict import REDIRECTED_FROM, Bury, Follow, Policy, judge_response, redirected
from skitter.model import Request, Response

HERE = "https://a.test/1"
SECRETS = {
    "Authorization": "secret",
    "Cookie": "a=1",
    "X-Api-Key": "secret",
    "Referer": HERE,
    "Accept": "text/html",
    "accept-language": "de",
}
SAFE = {"Accept": "text/html", "accept-language": "de"}


@pytest.mark.parametrize(
    ("status", "method", "becomes"),
    [
        (301, "POST", "GET"),
        (302, "POST", "GET"),
        (302, "PUT", "PUT"),
        (303, "PUT", "GET"),
        (303, "HEAD", "HEAD"),
        (307, "POST", "POST"),
        (308, "POST", "POST"),
    ],
)
def test_a_redirected_post_becomes_a_get_as_browsers_do(status, method, becomes):
    request = Request(url=HERE, method=method, body=b"x", headers=SECRETS)

    link = redirected(request, "https://a.test/2", status=status)

    assert (link.method, bool(link.body)) == (becomes, becomes != "GET")
    assert link.headers == SECRETS
    assert link.meta == {REDIRECTED_FROM: [HERE]}


@pytest.mark.parametrize(
    ("old", "new", "kept"),
    [
        ("https://a.test/1", "https://a.test:443/2", SECRETS),
        ("https://a.test:8443/1", "https://a.test:8443/2", SECRETS),
        ("http://a.test/1", "https://a.test/2", SECRETS),
        ("https://a.test/1", "http://a.test/2", SAFE),
        ("https://a.test/1", "https://a.test:8443/2", SAFE),
        ("http://a.test/1", "https://a.test:8443/2", SAFE),
        ("https://a.test/1", "https://b.test/2", SAFE),
        ("https://a.test/1", "https://www.a.test/2", SAFE),
        ("https://a.test/1", "https://a.test.evil.test/2", SAFE),
        ("http://10.0.0.1/1", "http://10.0.0.2/2", SAFE),
    ],
)
def test_only_headers_that_are_known_to_be_harmless_cross_origins(old, new, kept):
    link = redirected(Request(url=old, headers=SECRETS), new, status=302)
    assert link.headers == kept


@pytest.mark.parametrize(
    ("status", "method", "body", "to", "verdict"),
    [
        (307, "POST", b"secret", "https://a.test/2", Follow("https://a.test/2")),
        (
            307,
            "POST",
            b"secret",
            "https://b.test/2",
            Bury("307 redirect to https://b.test: its body is not sent to another origin"),
        ),
        (
            308,
            "POST",
            b"secret",
            "http://a.test/2",
            Bury("308 redirect to http://a.test: its body is not sent to another origin"),
        ),
        (
            302,
            "DELETE",
            b"",
            "https://a.test:8443/",
            Bury("302 redirect to https://a.test:8443: its DELETE is not sent to another origin"),
        ),
        (302, "POST", b"secret", "https://b.test/2", Follow("https://b.test/2")),
        (303, "PUT", b"secret", "https://b.test/2", Follow("https://b.test/2")),
        (307, "GET", b"", "https://b.test/2", Follow("https://b.test/2")),
        (
            307,
            "GET",
            b"query",
            "https://b.test/2",
            Bury("307 redirect to https://b.test: its body is not sent to another origin"),
        ),
    ],
)
def test_a_body_or_a_method_that_changes_things_stays_with_its_origin(
    status, method, body, to, verdict
):
    request = Request(url=HERE, method=method, body=body)
    answer = Response(url=HERE, status=status, headers=(("location", to),))
    assert judge_response(request, answer, Policy(), now=0) == verdict
