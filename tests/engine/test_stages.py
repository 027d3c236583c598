"""The list of stages: what is in it, in which order hooks run, and how a visit ends."""

from __future__ import annotations

from pathlib import Path

import pytest

import skitter.engine.stages as package
from attempts import attempts_of
from skitter.cli.commands.pages.one_page import lease_of
from skitter.engine.attempt import ENDS, Attempts
from skitter.engine.departures import TooEarly
from skitter.engine.parts import Parts
from skitter.engine.stages import HOOKS, STAGES, Stage, bind
from skitter.engine.stages.stage import OURS
from skitter.engine.verdict import Bury
from skitter.engine.visit import Buried, Completed, Retried, Returned
from skitter.errors import (
    ConnectFailed,
    ConnectRefused,
    NamesUnavailable,
    ServerRefused,
    ServerUnreachable,
)
from skitter.fetch import FetchOptions
from skitter.fetch.http.fetcher import StaticFetcher
from skitter.model import Request, Response
from skitter.settings import ArchiveOptions, SessionPool, WorkerConfig
from skitter.spider import Spider

ROOT = "https://a.test/"


def spider_of(name="s") -> Spider:
    spider = Spider(name, start=[ROOT])

    @spider.page
    def page(page):
        yield {"url": page.url}

    return spider


def rendered(page):
    """Nothing."""


def names_of(stages) -> list[str]:
    return [type(one).__name__ for one in stages]


class Told(Stage):
    """Tells which of its hooks ran; `says` ends the visit or raises there."""

    def __init__(self, parts, says=None) -> None:
        super().__init__(parts)
        self.ran, self.says = list[str](), says or {}

    def _say(self, hook, visit):
        self.ran.append(hook)
        said = self.says.get(hook)
        return said(visit) if said else None

    async def before(self, visit):
        return self._say("before", visit)

    async def answered(self, visit, response):
        return self._say(f"answered {response.status}", visit)

    async def judged(self, visit, verdict):
        return self._say("judged", visit)

    async def handled(self, visit, output):
        return self._say("handled", visit)

    async def ended(self, visit, outcome):
        self.ran.append(f"ended {type(outcome).__name__}")
        return self.says["ended"](visit) if "ended" in self.says else None


async def visit(answer, **says):
    """The outcome of one page, and which hooks of a last stage ran."""
    parts = attempts_of(spider_of(), StaticFetcher({ROOT: answer})).parts
    told = Told(parts, says)
    outcome = await Attempts(parts, [*bind(parts), told]).make(lease_of(Request(ROOT)))
    return outcome, told.ran


def fail(error):
    def raise_it(visit):
        raise error

    return raise_it


async def test_a_feature_that_is_off_is_not_in_the_list(frontier):
    no_options = FetchOptions(obey_robots=False)
    least = WorkerConfig(fetch=no_options, sessions=SessionPool(cookies=False))
    always = ["Fetch", "Judge", "Directives", "Handler"]

    alone = bind(Parts(spider_of(), StaticFetcher({}), least))
    assert names_of(alone) == ["Measure", "Download", "Excluded", *always, "Links"]

    spider = spider_of()
    spider.login("https://a.test/login")(lambda page: None)
    spider.on_error(lambda request, error: None)
    spider.hooks.answer = lambda request, items, why: {}
    spider.page(render="auto")(rendered)
    keeping = WorkerConfig(archive=ArchiveOptions(keep=True))
    whole = bind(Parts(spider, StaticFetcher({}), keeping, frontier=frontier))
    assert names_of(whole) == [
        "AutoHandler" if one.__name__ == "Handler" else one.__name__
        for one in STAGES
        if one.__name__ != "Offline"  # nothing is fetched, or kept
    ]


def test_each_stage_is_in_a_file_of_the_room_and_each_file_has_one():
    files = {path.stem for path in Path(package.__file__).parent.glob("[!_]*.py")} - {"stage"}
    homes = {stage.__module__.rpartition(".")[2] for stage in STAGES}

    assert homes == files
    for hook in OURS:
        assert len([one for one in STAGES if hasattr(one, hook)]) == 1
    for one in STAGES:
        assert any(hasattr(one, hook) for hook in HOOKS)
        assert one.__doc__
        assert bool(one.needs) == ("bind" in vars(one) and one.__name__ != "Handler")


async def test_hooks_run_in_order_until_one_has_an_outcome():
    page = await visit(b"page")
    assert isinstance(page[0], Completed)
    assert page[1] == ["before", "answered 200", "judged", "handled", "ended Completed"]

    moved = Response(url=ROOT, status=301, headers=(("location", "/?a=1"),))
    link = await visit(moved)
    assert link[1] == ["before", "answered 301", "ended Completed"]
    spelling = Response(url=ROOT, status=301, headers=(("location", "/?utm_source=1"),))
    again = await visit(spelling)
    assert again[1] == ["before", "answered 301", "answered 404", "ended Buried"]

    missing = await visit(Response(url=ROOT, status=404))
    assert (type(missing[0]), missing[1]) == (Buried, ["before", "answered 404", "ended Buried"])
    silent = await visit(ConnectFailed(ROOT, "silence"))
    assert (type(silent[0]), silent[1]) == (Retried, ["before", "ended Retried"])

    for hook in ("before", "judged", "handled"):
        outcome, ran = await visit(b"page", **{hook: lambda visit: visit.ended(Bury("enough"))})
        assert isinstance(outcome, Buried)
        assert outcome.failure.error == "enough"
        assert ran[-2:] == [hook, "ended Buried"]


async def test_the_last_hook_may_replace_the_outcome_and_its_failure_is_one_too():
    replaced, _ = await visit(b"page", ended=lambda visit: visit.ended(Bury("after all")))
    assert isinstance(replaced, Buried)

    away, _ = await visit(b"page", ended=fail(ServerUnreachable("away")))
    assert isinstance(away, Returned)
    for hook in ("before", "judged", "handled", "ended"):
        odd, _ = await visit(b"page", **{hook: lambda visit: "not an outcome"})
        assert isinstance(odd, Retried)
        assert "a stage returned 'not an outcome'" in odd.failure.error
    broken, _ = await visit(b"page", ended=fail(KeyError("a bug")))
    assert isinstance(broken, Retried)
    assert broken.failure.error == "internal error: KeyError('a bug')"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TooEarly(), Returned),
        (ServerUnreachable("away"), Returned),
        (ServerRefused("no rights"), Returned),
        (NamesUnavailable(ROOT), Returned),
        (ConnectRefused(ROOT, "refused"), Retried),
        (ZeroDivisionError(), Retried),
    ],
)
async def test_exceptions_end_a_visit_by_the_table(error, kind):
    outcome, ran = await visit(b"page", before=fail(error))

    assert type(outcome) is kind
    assert ran == ["before", f"ended {kind.__name__}"]


def test_the_table_has_a_row_for_everything():
    assert Exception in ENDS


async def test_a_page_that_was_never_asked_for_has_no_time():
    refused = Request("http://127.0.0.1:1/")
    attempts = attempts_of(spider_of(), StaticFetcher({}), obey_robots=True)

    outcome = await attempts.make(lease_of(refused))

    figures = attempts.parts.figures.take("w")
    assert isinstance(outcome, Buried)
    assert figures.counts["fetch.error"] == 1
    assert figures.tables["host"]["127.0.0.1:1"].ms == 0
    assert "fetch" not in figures.timings
