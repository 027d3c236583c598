"""What becomes of a request, as a table."""

from __future__ import annotations

import pytest

from skitter.engine.verdict import (
    REDIRECTED_FROM,
    Bury,
    Follow,
    Handle,
    Policy,
    Retry,
    Skip,
    judge_error,
    judge_response,
)
from skitter.errors import (
    AddressRefused,
    ConnectFailed,
    FetchTimeout,
    ResponseTooLarge,
    SpiderError,
)
from skitter.model import Request, Response
from skitter.spider import HandlerError
from skitter.spider.page import NoMatch, Page
from skitter.spider.page.selectors import NotJSON

URL = "https://a.test/page"
PHRASES = {429: "429 Too Many Requests", 503: "503 Service Unavailable"}
POLICY = Policy(max_redirects=3, longest_rest_s=100, handler_tries=2)


def overload(status, **rest) -> Retry:
    return Retry(PHRASES[status], incident=status, **rest)


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
        (301, {}, Bury("301 redirect without a usable location")),
        (301, {"location": "mailto:a@b.test"}, Bury("301 redirect without a usable location")),
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
        (429, {}, overload(429)),
        (429, {"retry-after": "7"}, overload(429, after_s=7, rest_s=7)),
        (503, {"retry-after": "7"}, overload(503, after_s=7, rest_s=7)),
        (503, {"retry-after": "9999"}, overload(503, after_s=100, rest_s=100)),
        (503, {"retry-after": "soon"}, overload(503)),
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
    last = Request(url=URL, meta={REDIRECTED_FROM: ["https://a.test/1", "https://a.test/2"]})
    beyond = Request(url=URL, meta={REDIRECTED_FROM: [f"https://a.test/{n}" for n in range(3)]})

    assert isinstance(judge_response(last, response, POLICY, now=0), Follow)
    assert judge_response(beyond, response, POLICY, now=0) == Bury("more than 3 redirects")


@pytest.mark.parametrize(
    ("wish", "rest_s"),
    [("7", 7), ("999", 100), ("Thu, 01 Jan 1970 00:00:30 GMT", 20), ("soon", 0), (None, 0)],
)
def test_a_redirect_may_ask_for_a_rest(wish, rest_s):
    headers = {"location": "/new"} | ({"retry-after": wish} if wish else {})
    response = Response(url=URL, status=302, headers=tuple(headers.items()))

    verdict = judge_response(Request(url=URL), response, POLICY, now=10)

    assert verdict == Follow("https://a.test/new", rest_s)


def test_a_circle_of_redirects_is_given_up_with_its_stations():
    response = Response(url=URL, status=302, headers=(("location", "/a"),))
    request = Request(url=URL, meta={REDIRECTED_FROM: ["https://a.test/", "https://a.test/a"]})

    assert judge_response(request, response, POLICY, now=0) == Bury(
        "redirect loop: https://a.test/a -> https://a.test/page -> https://a.test/a"
    )


HTML = {"content-type": "text/html"}
JUST_A_MOMENT = b"<html><head><title>Just a moment...</title>"


@pytest.mark.parametrize(
    ("status", "headers", "body", "blocker"),
    [
        (403, HTML | {"cf-mitigated": "challenge"}, b"", "Cloudflare"),
        (503, HTML, JUST_A_MOMENT, "Cloudflare"),
        (200, HTML, b"<script>window._cf_chl_opt={}</script>", "Cloudflare"),
        (403, HTML, b"<iframe src='https://geo.captcha-delivery.com/captcha/'>", "DataDome"),
        (403, HTML, b"<div id='px-captcha'></div>", "PerimeterX"),
        (200, HTML, b"Request unsuccessful. Incapsula incident ID: 1-2", "Imperva"),
        (403, HTML, b"<h1>Access Denied</h1> https://errors.edgesuite.net/18.1", "Akamai"),
        (429, HTML, b"detected unusual traffic from your computer network", "Google"),
        (403, HTML, b"<script src='https://js.hcaptcha.com/1/api.js'>", "hCaptcha"),
        (405, {"x-amzn-waf-action": "captcha"}, b"", "AWS WAF"),
        # What looks like one and is none:
        (200, HTML, b"<script src='https://js.hcaptcha.com/1/api.js'>", None),  # a login form
        (200, HTML, JUST_A_MOMENT + b" " * 9000, None),  # an article about Cloudflare
        (200, {"content-type": "application/json"}, b'{"text": "px-captcha"}', None),
        (403, HTML, b"<h1>Forbidden</h1>", None),
        (404, HTML, JUST_A_MOMENT, None),
        (200, HTML, b"", None),
    ],
)
def test_a_block_page_is_tried_again_after_a_rest_for_its_host(status, headers, body, blocker):
    response = Response(url=URL, status=status, headers=tuple(headers.items()), body=body)

    verdict = judge_response(Request(url=URL), response, POLICY, now=0)

    assert getattr(verdict, "blocked", False) == bool(blocker)
    if blocker:
        assert isinstance(verdict, Retry)
        assert verdict.reason.startswith(f"blocked by {blocker}: {status}")
        assert verdict.after_s == verdict.rest_s == POLICY.blocked_rest_s


def test_a_block_page_seen_by_one_of_several_routes_does_not_slow_its_host():
    response = Response(url=URL, status=403, headers=(("cf-mitigated", "challenge"),))
    policy = Policy(has_routes=True)

    verdict = judge_response(Request(url=URL), response, policy, now=0)

    assert isinstance(verdict, Retry)
    assert (verdict.blocked, verdict.of_host) == (True, False)
    assert (verdict.after_s, verdict.rest_s) == (None, 0)


def test_a_403_is_for_good_unless_another_route_may_be_welcome():
    request, response = Request(url=URL), Response(url=URL, status=403)
    again = judge_response(request, response, Policy(has_routes=True), now=0)
    assert again == Retry("403 Forbidden", of_host=False)
    assert judge_response(request, response, Policy(), now=0) == Bury("403 Forbidden")


def test_a_guard_that_asks_for_a_longer_rest_gets_it():
    headers = (("cf-mitigated", "challenge"), ("retry-after", "90"))
    verdict = judge_response(
        Request(url=URL), Response(url=URL, status=403, headers=headers), POLICY, now=0
    )

    assert isinstance(verdict, Retry)
    assert (verdict.after_s, verdict.rest_s) == (90, 90)


@pytest.mark.parametrize(
    ("accept", "stated", "verdict"),
    [
        ((), "image/png", Handle()),  # without a wish nothing is left out
        (("text/*", "application/json"), "text/html; charset=utf-8", Handle()),
        (("text/*", "application/json"), "Application/JSON", Handle()),
        (("text/*",), None, Handle()),  # nobody knows
        (("text/*",), "image/png", Skip("image/png is not a wanted content type")),
    ],
)
def test_what_the_spider_does_not_accept_is_left_at_that(accept, stated, verdict):
    headers = (("content-type", stated),) if stated else ()
    response = Response(url=URL, status=200, headers=headers, body=b"x")

    assert judge_response(Request(url=URL), response, Policy(accept=accept), now=0) == verdict


HANDLER = HandlerError("book", Page.of("", url=URL), "KeyError: 'price'")
HANDLER.__cause__ = ConnectionResetError()


REASONS = (
    "refused",
    "slow",
    "big",
    "private",
    "no handler",
    "handler book failed: KeyError: 'price'",
)


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
    assert verdict.reason in REASONS  # the URL stands beside it wherever it is shown


def raised(error, *, while_handling=None):
    """As a handler raises it."""
    failure = HandlerError("book", Page.of("", url=URL), "why")
    error.__context__ = while_handling
    failure.__cause__ = error
    return failure


class SSLError(OSError, ValueError):
    """As clients derive theirs."""


PAGE = Page.of("", url=URL)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        # The code does not fit the page: the same page would fail the same way.
        (raised(KeyError("price")), Bury),
        (raised(IndexError()), Bury),
        (raised(TypeError("None has no price")), Bury),
        (raised(ValueError("not a number")), Bury),
        (raised(AttributeError()), Bury),
        (raised(ZeroDivisionError()), Bury),
        (raised(ModuleNotFoundError()), Bury),
        (raised(FileNotFoundError()), Bury),
        (raised(SystemExit(1)), Bury),
        (raised(NoMatch(PAGE, "h1")), Bury),
        (raised(NotJSON(PAGE, "no")), Bury),
        (raised(SpiderError("no such handler")), Bury),
        (HandlerError("book", PAGE, "it yielded a 3"), Bury),
        # Its own I/O, or nobody knows: once more.
        (raised(ConnectionResetError()), Retry),
        (raised(TimeoutError()), Retry),
        (raised(OSError("no route to host")), Retry),
        (raised(SSLError()), Retry),
        (raised(FetchTimeout(URL, "slow")), Retry),
        (raised(KeyError("price"), while_handling=ConnectionRefusedError()), Retry),
        (raised(RuntimeError("of a library")), Retry),
        (raised(Exception("of a library")), Retry),
    ],
)
def test_a_page_is_fetched_again_only_if_its_handler_may_fare_better(error, kind):
    assert isinstance(judge_error(error, attempt=1, policy=POLICY), kind)
    assert isinstance(judge_error(error, attempt=2, policy=POLICY), Bury)
