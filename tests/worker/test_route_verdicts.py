"""Whose fault an answer that came by a route is."""

from __future__ import annotations

import pytest

from skitter.engine.proxies.routed import judge
from skitter.model import Response
from skitter.settings import Route

GATEWAY = Route(name="office", url="http://10.0.0.5:3128")
DIRECT = Route(name="home", kind="direct")
BROKEN = (("proxy-status", "office; error=connection_timeout"),)


@pytest.mark.parametrize(
    ("route", "url", "status", "headers", "verdict"),
    [
        (GATEWAY, "http://shop.test/", 200, (), "good"),
        (GATEWAY, "http://shop.test/", 403, (), "ban"),
        (GATEWAY, "http://shop.test/", 500, (), "page"),
        # Without a tunnel, nobody knows who answered.
        (GATEWAY, "http://shop.test/", 502, (), "ban"),
        (GATEWAY, "http://shop.test/", 504, (), "ban"),
        (GATEWAY, "http://shop.test/", 504, BROKEN, "fault"),
        (GATEWAY, "https://shop.test/", 502, (), "page"),
        (GATEWAY, "https://shop.test/", 502, BROKEN, "page"),  # the site's own proxy
        (DIRECT, "http://shop.test/", 502, (), "page"),
    ],
)
def test_whose_fault_an_answer_is(route, url, status, headers, verdict):
    assert judge(Response(url=url, status=status, headers=headers), route) == verdict
