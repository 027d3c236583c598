"""Spans of OpenTelemetry: for processes that have loaded it, and only for those."""

from __future__ import annotations

import subprocess
import sys
from contextlib import nullcontext
from typing import Any

import pytest

from metrics.loading import load
from skitter.engine.departures import TooEarly
from skitter.errors import ConnectFailed
from skitter.frontier.jobs import create_job
from skitter.model import Request
from skitter.observe.logs import Spans
from skitter.settings import JobOptions, Politeness
from skitter.spider import Spider
from web import Answer, serve_web


class Span:
    def __init__(self, name, attributes):
        self.name, self.attributes, self.errors = name, attributes, []

    def record_exception(self, error):
        self.errors.append(error)

    def set_status(self, code, text):
        assert code.name == "ERROR"
        assert text == str(self.errors[-1])


class Tracer:
    def __init__(self, found):
        self.found = found

    def start_as_current_span(self, name, attributes, *, record_exception, set_status_on_exception):
        assert (record_exception, set_status_on_exception) == (
            False,
            False,
        )
        self.found.append(Span(name, attributes))
        return nullcontext(self.found[-1])


class Provider:
    def __init__(self, tracer):
        self.tracer = tracer

    def get_tracer(self, *_, **__):
        return self.tracer


def test_a_process_that_did_not_set_it_up_has_no_spans():
    code = (
        "import contextlib, skitter.engine.assembly, skitter.observe.logs\n"
        "with contextlib.suppress(ImportError): import opentelemetry.trace\n"
        "assert skitter.observe.logs.Spans()._tracer is None\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.fixture
def found(monkeypatch) -> list[Span]:
    """The spans that were begun."""
    trace: Any = pytest.importorskip("opentelemetry.trace")
    spans: list[Span] = []
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", Provider(Tracer(spans)))
    return spans


async def test_fetch_handle_and_load_are_spans(server, job, tmp_path, found):
    options = JobOptions(politeness=Politeness(delay_s=0))
    frontier = await create_job(server, job, options=options)
    spider = Spider(job, [])

    @spider.page
    def page(page):
        yield {"n": 1}

    async with serve_web(lambda _: Answer("<p>x")) as web:
        spider.start = [web.url("/1")]
        await web.crawl(frontier, spider)
    await load(frontier, tmp_path, items=1)

    assert [one.name for one in found] == ["skitter.fetch", "skitter.handle", "skitter.load"]
    assert found[0].attributes["server.address"] == "shop.test"
    assert found[2].attributes == {"skitter.rows": 1}


def test_a_span_has_our_errors_but_not_what_only_says_to_wait(found):
    spans, request = Spans(), Request("https://shop.test/")
    refused = ConnectFailed(request.url, "connection refused")

    for raised in (refused, TooEarly()):
        with pytest.raises(type(raised)), spans.fetch(request):
            raise raised

    assert [one.errors for one in found] == [[refused], []]
