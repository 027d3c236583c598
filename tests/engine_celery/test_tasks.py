"""What callers see: results, failures, chords, a reducer, and mistakes told at once."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from itertools import pairwise

import pytest
from celery import chain, chord, group
from celery.signals import after_task_publish as task_sent

from skitter import Metrics
from skitter.celery import make_app, map_reduce, status
from skitter.celery.jobs import read_specs
from skitter.celery.reduce import ReducerFailed
from skitter.celery.results import ScrapeFailed
from skitter.celery.runtime import runtime_of
from skitter.errors import BadOption, BadURL, SpiderError, UsageError
from skitter.frontier.jobs import list_jobs, purge_job
from skitter.frontier.transport.keys import PUMP_SLOTS
from skitter.frontier.workers import heartbeats
from skitter.settings import Settings
from waiting import until

pytestmark = pytest.mark.timeout(300)
WAIT_S = 40


def test_a_scraped_page_comes_back_as_its_record(busy):
    result = busy.scrape.delay(busy.page("/about"))

    record = result.get(timeout=WAIT_S)

    assert set(record) == {"url", "title", "text", "links", "status"}
    assert (record["url"], record["status"]) == (busy.page("/about"), 200)
    assert status(result.id, app=busy.app).state == "SUCCESS"


def test_with_a_spider_its_items_come_back_and_its_links_are_left_alone(busy):
    result = busy.scrape.delay(busy.page("/about"), spider="engine_celery.helper_spiders:titles")

    assert result.get(timeout=WAIT_S) == [{"title": "About us"}]
    assert busy.stats("scrape-titles").seen == 1


def test_a_handler_measures_what_it_does_in_a_celery_task(busy):
    spider = "engine_celery.helper_spiders:measured"
    results = [busy.scrape.delay(page, spider=spider) for page in busy.pages(3, "measured")]
    assert [one.get(timeout=WAIT_S) for one in results] == 3 * [[{"title": "About us"}]]

    with closing(Metrics(directory=busy.folder / ".s")) as metrics:
        until(lambda: metrics.stats("read about").count == 3)
        assert metrics.total("abouts", tags={"status": 200}) == 3


def test_a_page_that_redirects_comes_back_from_where_it_leads(busy):
    record = busy.scrape.delay(busy.page("/book-of-the-month")).get(timeout=WAIT_S)

    assert record["status"] == 200
    assert "/books/" in record["url"]


def test_a_page_that_is_gone_fails_with_the_reason(busy):
    result = busy.scrape.delay(busy.page("/nothing"))

    with pytest.raises(ScrapeFailed, match="404 Not Found"):
        result.get(timeout=WAIT_S)

    assert "/nothing: 404 Not Found" in (status(result.id, app=busy.app).error or "")


def test_a_page_that_fails_is_tried_four_times(busy):
    before = busy.failing.asked
    result = busy.scrape.delay(busy.failing.url, spider="engine_celery.helper_spiders:stubborn")

    with pytest.raises(ScrapeFailed, match="500 Internal Server Error"):
        result.get(timeout=WAIT_S)

    assert busy.failing.asked == before + 4


def test_a_busy_page_is_asked_again_after_the_rest_it_wanted(busy):
    busy_twice = busy.shop.expected.catalogue.books[40].path

    record = busy.scrape.delay(busy.page(busy_twice)).get(timeout=WAIT_S)

    asked = [entry.monotonic for entry in busy.shop.log() if entry.page == busy_twice]
    assert (record["status"], len(asked)) == (200, 3)
    assert all(later - earlier >= 0.99 for earlier, later in pairwise(asked))  # Retry-After: 1


def test_errors_as_records_are_no_failures(busy):
    result = busy.scrape.delay(busy.page("/nothing?else"), errors="record")

    assert result.get(timeout=WAIT_S) == {
        "url": busy.page("/nothing?else"),
        "ok": False,
        "error": "404 Not Found",
    }


def test_a_caller_puts_a_page_into_the_frontier_without_a_message(busy):
    sent: list[str] = []

    def note(sender=None, **_):
        sent.append(str(sender))

    task_sent.connect(note)
    busy.skitter("pause", "scrape")
    try:
        before = busy.stats("scrape").pending
        results = [busy.scrape.delay(url, priority=3) for url in busy.pages(5, "handed")]
        together = group(busy.scrape.s(url) for url in busy.pages(2, "grouped"))()
        assert busy.stats("scrape").pending == before + 7  # at once: no worker has to take them
        seen = status(results[0].id, app=busy.app)
        by_message = busy.scrape.apply_async(
            (busy.page("/about?linked"),), link=busy.summarize.si([])
        )
        assert set(sent) - {"skitter.pump"} == {"skitter.scrape"}
    finally:
        task_sent.disconnect(note)
        busy.skitter("resume", "scrape")

    assert (seen.state, seen.job, seen.url) == ("QUEUED", "scrape", busy.pages(5, "handed")[0])
    assert [one.get(timeout=WAIT_S)["status"] for one in results] == [200] * 5
    assert by_message.get(timeout=WAIT_S)["status"] == 200
    assert [one["status"] for one in together.get(timeout=WAIT_S)] == [200, 200]
    grouped = busy.app.backend.get_task_meta(together[0].id)
    assert grouped["group_id"] == together.id
    meta = busy.app.backend.get_task_meta(results[0].id)
    assert (meta["name"], meta["args"]) == ("skitter.scrape", [seen.url])


def test_a_task_whose_result_is_ignored_is_not_queued_for_ever(busy):
    ids = [
        busy.scrape.apply_async((page,), ignore_result=True).id for page in busy.pages(3, "ignored")
    ]
    assert busy.scrape.apply_async((busy.page("/about?ignored"),)).get(timeout=WAIT_S)
    until(lambda: {status(id, app=busy.app).state for id in ids} == {"PENDING"})


def test_a_caller_who_does_not_reach_the_frontier_sends_a_message(busy):
    nowhere = Settings(redis_url="redis://127.0.0.1:1")
    app = make_app(replace(busy.settings, where=nowhere), broker_url=busy.app.conf.broker_url)
    app.conf.result_backend = busy.app.conf.result_backend
    result = app.tasks["skitter.scrape"].delay(busy.page("/about?unreached"))
    app.close()

    assert busy.app.AsyncResult(result.id).get(timeout=WAIT_S)["status"] == 200


def test_a_message_that_comes_twice_fetches_once(busy):
    url = busy.page("/about?twice")
    for _ in range(2):
        busy.scrape.apply_async((url,), task_id="the-same")

    assert busy.app.AsyncResult("the-same").get(timeout=WAIT_S)["url"] == url
    until(lambda: busy.stats("scrape").leased == 0)
    assert [entry.target for entry in busy.shop.log()].count("/about?twice") == 1


def test_a_message_that_comes_again_after_the_end_leaves_the_result_alone(busy):
    dead = busy.scrape.delay(busy.page("/nothing?again"))
    with pytest.raises(ScrapeFailed):
        dead.get(timeout=WAIT_S)
    found = busy.scrape.delay(busy.page("/about?again"))
    found.get(timeout=WAIT_S)

    for result, path in ((dead, "/nothing?again"), (found, "/about?again")):
        busy.scrape.apply_async((busy.page(path),), task_id=result.id)
    after = [busy.scrape.delay(url) for url in busy.pages(3, "after")]  # sent after those
    for one in after:
        one.get(timeout=WAIT_S)

    assert status(dead.id, app=busy.app).state == "FAILURE"
    assert status(found.id, app=busy.app).state == "SUCCESS"


def test_status_of_a_page_whose_job_was_purged_says_so(busy):
    spider = "engine_celery.helper_spiders:purged"
    busy.make_job("scrape-purged")
    busy.skitter("pause", "scrape-purged")
    result = busy.scrape.delay(busy.page("/about"), spider=spider)
    until(lambda: status(result.id, app=busy.app).pending == 1)

    busy.on_job("scrape-purged", purge_job)
    gone = status(result.id, app=busy.app)
    busy.make_job("scrape-purged")  # as the next caller would

    assert (gone.state, gone.ready) == ("PURGED", True)
    assert "scrape-purged was purged" in (gone.error or "")
    assert status(result.id, app=busy.app).state == "PURGED"


def test_chains_links_and_groups_go_on_with_the_page(busy):
    page = busy.scrape.si(busy.page("/about"), errors="record")
    two = (page | busy.app.tasks["skitter.summarize"].s()).apply_async()
    pages = group(busy.scrape.s(url) for url in busy.pages(5, "group")).apply_async()

    assert two.get(timeout=WAIT_S)["failed"] == 0
    assert [record["status"] for record in pages.get(timeout=WAIT_S)] == [200] * 5


def test_an_error_callback_hears_of_a_page_that_failed(busy):
    told = busy.summarize.s().set(task_id="told")
    busy.scrape.apply_async((busy.page("/nothing?told"),), link_error=told)

    assert busy.app.AsyncResult("told").get(timeout=WAIT_S)["total"] > 0  # it gets the task's id


def test_callbacks_that_cannot_be_sent_are_failures_of_their_own_task_alone(busy):
    refused = busy.scrape.s(5)
    following = chain(busy.scrape.s(busy.page("/about?chain")), busy.scrape.s())()
    dead = busy.scrape.apply_async((busy.page("/nothing?refused"),), link_error=refused)
    linked = busy.scrape.apply_async((busy.page("/about?refused"),), link=refused)

    for result in (following, following.parent, linked):
        with pytest.raises(ScrapeFailed, match="its callback could not be sent: "):
            result.get(timeout=WAIT_S)
    with pytest.raises(ScrapeFailed, match="404 Not Found"):
        dead.get(timeout=WAIT_S)
    assert busy.scrape.delay(busy.page("/about?others")).get(timeout=WAIT_S)["status"] == 200


def test_two_pages_that_fail_do_not_break_a_chord_of_a_hundred(busy):
    urls = [*busy.pages(98, "chord"), busy.page("/nothing?1"), busy.page("/nothing?2")]

    summary = chord(busy.scrape.s(url) for url in urls)(busy.summarize.s()).get(timeout=WAIT_S)

    assert (summary["total"], summary["successful"], summary["failed"]) == (100, 98, 2)
    assert sorted(one["url"] for one in summary["errors"]) == sorted(urls[-2:])


def test_a_thousand_urls_are_one_message_and_all_stored_once(busy):
    urls = busy.pages(1000, "many")

    result = busy.scrape_many(urls, job="many", out="many.db", delay_s=0, max_in_flight=100)

    assert result.get(timeout=WAIT_S) == {"job": "many", "new": 1000, "known": 0}
    until(lambda: status("many", app=busy.app).ready)
    with closing(sqlite3.connect(busy.folder / "many.db")) as database:
        rows = database.execute("SELECT url FROM many").fetchall()
    assert sorted(url for (url,) in rows) == sorted(urls)
    assert not busy.audit("many").problems
    again = busy.scrape_many(urls, job="many", out="many.db")
    assert {"new": 0, "known": 1000}.items() <= again.get(timeout=WAIT_S).items()


def test_urls_may_come_from_a_generator(busy):
    sent = busy.scrape_many((url for url in busy.pages(3, "lazy")), job="lazy", delay_s=0)

    assert sent.get(timeout=WAIT_S)["new"] == 3


def test_an_eager_app_is_told_that_workers_fetch(busy):
    app = make_app(busy.settings, task_always_eager=True)

    with pytest.raises(UsageError, match="task_always_eager"):
        app.tasks["skitter.scrape"].delay("http://a.test/")


def test_no_urls_and_no_seeds_take_no_place(busy):
    none = busy.scrape_many([], job="none")
    seedless = busy.crawl.delay("engine_celery.helper_spiders:titles")

    assert none.get(timeout=WAIT_S) == {"job": "none", "new": 0, "known": 0}
    assert seedless.get(timeout=WAIT_S) == {"job": "titles", "new": 0, "known": 0}
    specs = busy.run(read_specs(busy.run(runtime_of(busy.app).server())))
    assert {"none", "titles"}.isdisjoint(spec.job for spec in specs)


def test_map_reduce_runs_the_reducer_over_all_pages_and_leaves_nothing(busy):
    urls = [*busy.pages(60, "map"), busy.page("/nothing?map")]

    result = map_reduce(
        urls, busy.summarize.s(), app=busy.app, delay_s=0, max_in_flight=50, pumps=2
    )

    summary = result.get(timeout=WAIT_S)
    assert (summary["total"], summary["successful"], summary["failed"]) == (61, 60, 1)
    server = busy.run(runtime_of(busy.app).server())
    until(lambda: f"map-{result.id}" not in busy.run(list_jobs(server)))


def test_a_reducer_that_raises_fails_with_what_it_said(busy):
    result = map_reduce(
        [busy.page("/about")], busy.summarize.s("one too many"), app=busy.app, delay_s=0
    )

    with pytest.raises(ReducerFailed, match=r"skitter\.summarize"):
        result.get(timeout=WAIT_S)


def test_a_countdown_is_waited_for_and_priority_goes_to_the_frontier(busy):
    began = time.monotonic()
    result = busy.scrape.apply_async((busy.page("/about?later"),), countdown=1, priority=7)

    result.get(timeout=WAIT_S)

    assert time.monotonic() - began >= 1


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda s: s.scrape.delay("no-url"), BadURL, "no-url"),
        (lambda s: s.scrape.delay(5), BadOption, "text"),
        (lambda s: s.scrape.delay("http://a.test/", spider="nope.py"), SpiderError, "nope.py"),
        (lambda s: s.scrape.delay("http://a.test/", colour="red"), UsageError, "colour"),
        (
            lambda s: s.scrape.delay("http://a.test/", priorty=1),
            UsageError,
            "did you mean priority",
        ),
        (
            lambda s: s.scrape.delay("http://a.test/", countdown=2),
            UsageError,
            r"call \.apply_async\(\(\.\.\.\), countdown=\.\.\.\) instead of \.delay",
        ),
        (lambda s: s.scrape.delay("http://a.test/", headers={"a": object()}), UsageError, "str"),
        (lambda s: s.scrape.apply_async(("http://a.test/",), priority=5000), BadOption, "5000"),
        (lambda s: s.scrape("http://a.test/"), UsageError, r"\.delay"),
        (lambda s: s.scrape.delay(), UsageError, "'url'"),
        (lambda s: s.scrape.delay("http://a.test/", "b"), UsageError, "too many"),
        (
            lambda s: s.scrape.apply_async(("http://a.test/",), countdown="x"),
            BadOption,
            "countdown",
        ),
        (lambda s: s.scrape.apply_async(("http://a.test/",), eta="x"), BadOption, "eta"),
        (lambda s: s.scrape_many(["http://a.test/", ""]), BadURL, "URL"),
        (lambda s: s.scrape_many("http://a.test/"), BadOption, "list"),
        (lambda s: s.scrape_many(["http://a.test/"], job="no name"), UsageError, "no name"),
        (lambda s: s.crawl.delay("no_such_module"), SpiderError, "no_such_module"),
        (
            lambda s: s.crawl.delay("engine_celery.helper_spiders:titles", pumps=0),
            BadOption,
            "pumps",
        ),
        (lambda s: map_reduce([], s.summarize, app=s.app), UsageError, "nothing"),
        (lambda s: map_reduce(["http://a.test/"], print, app=s.app), UsageError, "reducer"),
        (
            lambda s: map_reduce(["http://a.test/"], s.summarize.s(object()), app=s.app),
            UsageError,
            "JSON",
        ),
    ],
)
def test_a_mistake_is_told_at_the_caller_and_nothing_is_queued(busy, call, error, words):
    sent: list[object] = []

    def note(headers=None, **_):
        sent.append(headers)

    task_sent.connect(note)
    try:
        with pytest.raises(error, match=words) as caught:
            call(busy)
    finally:
        task_sent.disconnect(note)

    assert "\n" not in str(caught.value)
    assert sent == []


def test_status_of_a_page_that_waits_says_where(busy):
    busy.skitter("pause", "scrape")
    try:
        result = busy.scrape.delay(busy.page("/about?paused"))
        until(lambda: status(result.id, app=busy.app).pending == 1)
        seen = status(result.id, app=busy.app)
    finally:
        busy.skitter("resume", "scrape")

    assert (seen.state, seen.job, seen.url) == ("QUEUED", "scrape", busy.page("/about?paused"))
    assert result.get(timeout=WAIT_S)["status"] == 200


def test_a_worker_of_other_queues_has_no_slots_for_pumps(busy):
    server = busy.run(runtime_of(busy.app).server())
    before = busy.run(server.command("HKEYS", PUMP_SLOTS))

    emails = busy.worker("-c", "1", "-Q", "emails")
    busy.scrape.delay(busy.page("/about?emails")).get(timeout=WAIT_S)

    assert busy.run(server.command("HKEYS", PUMP_SLOTS)) == before
    busy.end(emails)


def test_what_follows_a_crawl_is_refused_as_it_would_come_too_early(busy):
    front, after = busy.crawl.s("engine_celery.helper_spiders:front"), busy.summarize.s()

    with pytest.raises(UsageError, match="@on_finish"):
        chain(front, after)()
    with pytest.raises(UsageError, match="@on_finish"):
        front.apply_async(link=after)
    unchecked = busy.app.send_task("skitter.crawl", front.args, link=after)
    with pytest.raises(UsageError, match="@on_finish"):
        unchecked.get(timeout=WAIT_S)


def test_a_private_address_is_refused_with_the_name_of_the_variable(busy):
    result = busy.scrape.delay("http://127.0.0.1:9/")

    with pytest.raises(
        ScrapeFailed, match=r"set SKITTER_ALLOW_HOSTS of its workers to 127\.0\.0\.1:9"
    ):
        result.get(timeout=WAIT_S)


def test_pumps_are_seen_in_status_beside_our_own_workers(busy):
    busy.scrape_many(busy.pages(3, "crew"), job="crew", delay_s=60).get(timeout=WAIT_S)
    try:
        busy.skitter("pause", "crew")  # its pump waits for the end of that

        until(lambda: busy.on_job("crew", heartbeats), deadline_s=WAIT_S)
        assert "1 celery" in busy.skitter("status", "crew").stdout
        assert "1 worker in all" in busy.skitter("scale", "crew", "1").stdout
        look = json.loads(busy.skitter("top", "crew", "--once", "--json").stdout)
        assert isinstance(look, list)
    finally:
        busy.skitter("cancel", "crew")


def test_the_hooks_for_the_end_of_a_crawl_run_once(busy):
    spider = "engine_celery.helper_spiders:ending"
    busy.crawl.delay(spider).get(timeout=WAIT_S)

    until(lambda: status("ending", app=busy.app).ready)
    assert (busy.folder / "endings").read_text() == "1\n"
