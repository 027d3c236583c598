"""What becomes of a request, as a table."""

from __future__ import annotations

import pytest

from skitter.errors import (
    AddressRefused,
    ConnectFailed,
    FetchTimeout,
    ResponseTooLarge,
    SpiderError,
)
from skitter.model import Request, Response
from skitter.page import Page
from skitter.spider import HandlerError
from skitter.worker.verdict import (
    REDIRECT_COUNT,
    Bury,
    Follow,
    Handle,
    Policy,
    Retry,
    judge_error,
    judge_response,
)

URL = "https://a.test/page"
POLICY = Policy(max_redirects=3, longest_rest_s=100, handler_tries=2)


@pytest.mark.parametrize(
    ("status", "headers", "verdict"),
    [
        (200, {}, Handle()),
        (204, {}, Handle()),
        (206, {}, Handle()),
        (301, {"location": "/new"}, Follow("https://a.test/new")),
        (302, {"location": "https://b.test/"}, Follow("https://b.test/")),
        (303, {"location": "?q=1"}, Follow("https://a.test/page?q=1")),
        (307, {"location": "//b.test/x"}, Follow("https://b.test/x")),
        (308, {"location": "/new"}, Follow("https://a.test/new")),
        (301, {}, Bury("301 redirect to nowhere")),
        (301, {"location": "mailto:a@b.test"}, Bury("301 redirect to nowhere")),
        (301, {"location": URL}, Bury("it redirects to itself")),
        (304, {}, Handle()),
        (400, {}, Bury("400 Bad Request")),
        (401, {}, Bury("401 Unauthorized")),
        (403, {}, Bury("403 Forbidden")),
        (404, {}, Bury("404 Not Found")),
        (410, {}, Bury("410 Gone")),
        (451, {}, Bury("451 Unavailable For Legal Reasons")),
        (499, {}, Bury("499")),
        (408, {}, Retry("408 Request Timeout")),
        (429, {}, Retry("429 Too Many Requests")),
        (429, {"retry-after": "7"}, Retry("429 Too Many Requests", after_s=7, block_s=7)),
        (503, {"retry-after": "7"}, Retry("503 Service Unavailable", after_s=7, block_s=7)),
        (503, {"retry-after": "9999"}, Retry("503 Service Unavailable", after_s=100, block_s=100)),
        (503, {"retry-after": "soon"}, Retry("503 Service Unavailable")),
        (500, {"retry-after": "7"}, Retry("500 Internal Server Error", after_s=7)),
        (502, {}, Retry("502 Bad Gateway")),
        (522, {}, Retry("522")),
        (501, {}, Bury("501 Not Implemented")),
    ],
)
def test_an_answer_is_judged_by_status_and_headers(status, headers, verdict):
    response = Response(url=URL, status=status, headers=tuple(headers.items()))

    assert judge_response(Request(url=URL), response, POLICY, now=0) == verdict


def test_the_last_redirect_is_followed_and_the_next_is_not():
    response = Response(url=URL, status=301, headers=(("location", "/x"),))
    last = Request(url=URL, meta={REDIRECT_COUNT: 2})
    beyond = Request(url=URL, meta={REDIRECT_COUNT: 3})

    assert isinstance(judge_response(last, response, POLICY, now=0), Follow)
    assert judge_response(beyond, response, POLICY, now=0) == Bury("more than 3 redirects")


HANDLER = HandlerError("book", Page.of("", url=URL), "KeyError: 'price'")


@pytest.mark.parametrize(
    ("error", "attempt", "kind"),
    [
        (ConnectFailed(URL, "refused"), 1, Retry),
        (FetchTimeout(URL, "slow"), 9, Retry),
        (ResponseTooLarge(URL, "big"), 1, Bury),
        (AddressRefused(URL, "private"), 1, Bury),
        (SpiderError("no handler"), 1, Bury),
        (HANDLER, 1, Retry),
        (HANDLER, 2, Bury),
    ],
)
def test_an_error_is_judged_by_its_class(error, attempt, kind):
    verdict = judge_error(error, attempt=attempt, policy=POLICY)

    assert isinstance(verdict, kind)
    assert verdict.reason == str(error)
