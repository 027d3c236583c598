"""Spans of OpenTelemetry: for processes that have loaded it, and only for those."""

from __future__ import annotations

import subprocess
import sys
from contextlib import nullcontext
from typing import Any

import pytest

from metrics.loading import load
from skitter.frontier.admin.jobs import create_job
from skitter.settings import JobOptions, Politeness
from skitter.spider import Spider
from web import Answer, serve_web


class Tracer:
    def __init__(self, found):
        self.found = found

    def start_as_current_span(self, name, attributes):
        self.found.append((name, attributes))
        return nullcontext()


class Provider:
    def __init__(self, tracer):
        self.tracer = tracer

    def get_tracer(self, *_, **__):
        return self.tracer


def test_a_process_that_did_not_set_it_up_has_no_spans():
    code = (
        "import contextlib, skitter.worker.assembly, skitter.tracing\n"
        "with contextlib.suppress(ImportError): import opentelemetry.trace\n"
        "assert skitter.tracing.Spans()._tracer is None\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


async def test_fetch_handle_and_load_are_spans(server, job, tmp_path):
    trace: Any = pytest.importorskip("opentelemetry.trace")
    found: list[Any] = []
    trace.set_tracer_provider(Provider(Tracer(found)))
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

    assert [name for name, _ in found] == ["skitter.fetch", "skitter.handle", "skitter.load"]
    assert found[0][1]["server.address"] == "shop.test"
    assert found[2][1] == {"skitter.rows": 1}
