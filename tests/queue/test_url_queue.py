"""URLQueue: the frontier for people with a loop of their own."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from skitter import (
    Added,
    Bloom,
    Completion,
    Ended,
    JobOptions,
    Layout,
    LeaseLost,
    Limits,
    Politeness,
    QueueFull,
    Request,
    Retries,
    URLQueue,
    open_frontier,
)
from skitter.embedded import ServerOptions, hold, running, stop
from skitter.errors import (
    BadJobName,
    BadOption,
    BadURL,
    JobMismatch,
    ServerFull,
    ServerStopped,
    TooBig,
    UsageError,
)
from skitter.frontier.audit.why import why
from skitter.frontier.dead import dead_letters
from skitter.model import DeadLetter, Lease

QUICK = JobOptions(politeness=Politeness(delay_s=0, max_in_flight=100))


@pytest.fixture
def queue(job, server_url):
    with URLQueue(job, redis=server_url, options=QUICK) as opened:
        yield opened


def test_the_example_of_the_readme(queue):
    assert queue.push("https://example.com/a", priority=5) is True
    assert queue.push("https://example.com/a") is False
    assert queue.push_many(["https://example.com/b", "https://example.com/a"]) == 1

    task = queue.pop()
    assert (task.url, task.priority, task.attempt) == ("https://example.com/a", 5, 1)
    queue.complete(task, {"title": "A"})

    task = queue.pop()
    assert queue.fail(task, "timeout") is True
    assert queue.pop() is None  # nothing may be fetched now: the retry has to wait

    stats = queue.stats()
    assert (stats.done, stats.delayed, stats.seen) == (1, 1, 2)


def test_a_second_end_of_the_same_lease_is_refused(queue):
    queue.push("https://a.test/")
    task = queue.pop()
    queue.complete(task)

    for end in (queue.complete, queue.extend, queue.release, lambda t: queue.fail(t, "x")):
        with pytest.raises(LeaseLost, match="is lost: it expired"):
            end(task)


def test_results_are_read_and_removed(queue):
    queue.push_many(f"https://a.test/{n}" for n in range(700))
    for task in queue.pop_many(100):
        queue.complete(task, {"n": task.url})

    assert len(list(queue.results())) == 100
    assert len(list(queue.results(remove=True))) == 100
    assert list(queue.results()) == []


def test_links_are_added_with_the_completion(queue):
    queue.push("https://a.test/")
    queue.complete(queue.pop(), links=["https://a.test/1", "https://a.test/"])

    task = queue.pop()
    assert (task.url, task.request.depth, task.request.parent) == (
        "https://a.test/1",
        1,
        "https://a.test/",
    )


def test_dont_filter_adds_a_known_url_again(queue):
    queue.push("https://a.test/")

    assert queue.push("https://a.test/", dont_filter=True) is True
    assert queue.stats().pending == 2


def test_a_failure_is_dead_after_the_last_retry(job, server_url):
    options = JobOptions(politeness=QUICK.politeness, retries=Retries(max_retries=1, base_s=0))
    with URLQueue(job, redis=server_url, options=options) as queue:
        queue.push("https://a.test/", priority=3)
        first = queue.pop()
        assert first is not None
        assert queue.fail(first, ValueError("no price")) is True
        second = queue.pop()
        assert second is not None
        assert (second.attempt, second.priority) == (2, 2)
        assert queue.fail(second, "again") is False
        assert queue.stats().dead == 1


def test_a_full_queue_raises_or_waits_as_asked(job, server_url):
    options = JobOptions(politeness=QUICK.politeness, limits=Limits(max_pending=2))
    with URLQueue(job, redis=server_url, options=options) as queue:
        with pytest.raises(QueueFull) as full:
            queue.push_many(f"https://a.test/{n}" for n in range(5))
        assert (full.value.added, full.value.retryable) == (2, True)

        def consume():
            with URLQueue(job, redis=server_url) as other:
                while other.stats().done < 5:
                    for task in other.pop_many(2):
                        other.complete(task)

        consumer = threading.Thread(target=consume)
        consumer.start()
        assert queue.push_many((f"https://a.test/{n}" for n in range(5)), wait=True) == 3
        consumer.join()
        assert queue.stats().done == 5


def test_what_may_wait_is_shared_out_among_the_shards(job, server_url):
    limits = Limits(max_pending=100, max_items=16)
    options = JobOptions(politeness=QUICK.politeness, limits=limits)
    urls = [f"https://h{n}.test/" for n in range(3000)]
    with URLQueue(job, redis=server_url, options=options, layout=Layout(shards=8)) as queue:
        with pytest.raises(
            QueueFull, match=r"is full \(max_pending is 100\): 104 of these"
        ) as full:
            queue.push_many(urls)
        assert full.value.added == queue.stats().pending == 8 * 13  # each its part, rounded up
        assert queue._opened.options.limits == limits

        while tasks := queue.pop_many(8):
            for task in tasks:
                queue.complete(task, "an item")
        assert 16 <= queue.stats().items < 16 + 8 * 8  # no shard hands out any more


def test_a_full_queue_counts_what_went_in_with_earlier_batches(job, server_url):
    options = JobOptions(politeness=QUICK.politeness, limits=Limits(max_pending=4100))
    with (
        URLQueue(job, redis=server_url, options=options) as queue,
        pytest.raises(QueueFull, match="4,100 of these went in") as full,
    ):
        queue.push_many(f"https://a.test/{n}" for n in range(5000))
    assert full.value.added == 4100


@pytest.fixture
def full_server(short_dir):
    with hold(short_dir / "small", ServerOptions(max_memory_mb=64)) as small:
        yield small


def test_a_full_server_tells_how_many_went_in_and_can_still_be_steered(job, full_server):
    heavy = {"padding": "x" * 20_000}
    with URLQueue(job, redis=full_server.url, options=QUICK) as queue:
        with pytest.raises(ServerFull, match="no memory left") as full:
            queue.push_many(Request(url=f"https://a.test/{n}", meta=heavy) for n in range(10_000))
        assert full.value.added == queue.stats().seen > 1000
        assert f"only {full.value.added:,} URLs went in" in str(full.value)

    other = JobOptions(politeness=Politeness(delay_s=3))
    with URLQueue(job, redis=full_server.url, options=other) as queue:
        assert queue._opened.options == other
        assert queue.pop() is not None


@pytest.mark.parametrize(
    ("url", "fields", "error"),
    [
        ("nonsense", {}, BadURL),
        ("ftp://a.test/", {}, BadURL),
        ("https://a.test/\x00", {}, BadURL),
        ("https://a.test/" + "x" * 100_000, {}, BadURL),
        ("https://a.test/", {"body": b"x" * 300_000}, TooBig),
        ("https://a.test/", {"priority": 10**6}, BadOption),
        ("https://a.test/", {"priority": 1.5}, BadOption),
        ("https://a.test/", {"meta": {"x": object()}}, BadOption),
    ],
)
def test_bad_input_is_named_and_nothing_is_written(queue, url, fields, error):
    good = Request(url="https://good.test/")
    with pytest.raises(error):
        queue.push_many([good, Request(url=url, **fields)])

    assert queue.stats().seen == 0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("headers", {"X": 1}),
        ("headers", {"X": None}),
        ("headers", {b"X": b"1"}),
        ("headers", None),
        ("headers", [("X", "1")]),
        ("headers", {"X": "\ud800"}),
        ("meta", {1: "a"}),
        ("meta", []),
        ("meta", {"x": 2**70}),
        ("parent", 5),
        ("parent", 0),
        ("handler", 5),
        ("handler", "\ud800"),
        ("identity", 3),
        ("identity", "\ud800"),
        ("unique", 3),
        ("unique", None),
        ("slot", 3),
        ("slot", None),
    ],
)
def test_what_nobody_could_read_again_is_refused_by_the_name_of_its_field(queue, field, value):
    with pytest.raises(BadOption) as refused:
        queue.push_many([Request(url="https://a.test/", **{field: value})])

    assert refused.value.option == field
    assert queue.stats().seen == 0


def test_what_cannot_be_read_does_not_hide_what_can(queue, server_url):
    queue.push_many(f"https://a.test/{n}" for n in range(3))
    damage(queue, "https://a.test/0", "https://a.test/1")

    task = queue.pop()

    assert task.url == "https://a.test/2"
    assert (queue.stats().dead, queue.stats().leased) == (2, 1)


def damage(queue: URLQueue, *urls: str) -> None:
    """Write nonsense in place of the body of each, as another release might."""
    shard = queue._opened.shards[0]
    for url in urls:
        fp = queue._opened.offer(Request(url=url)).arguments[0]
        record = b"0 a.test no msgpack"
        queue._run(shard.server.command("HSET", shard.keys.key("task"), fp, record))


@pytest.mark.parametrize("name", ["", "a b", "{a}", "a:b", "-a", "x" * 101, "ä", "a\n"])
def test_a_bad_job_name_is_refused(name):
    with pytest.raises(BadJobName):
        URLQueue(name)


def test_the_layout_of_a_job_cannot_change(queue, job, server_url):
    layout = Layout(bloom=Bloom(capacity=1000))
    with (
        pytest.raises(JobMismatch, match="was created with bloom=None"),
        URLQueue(job, redis=server_url, layout=layout),
    ):
        pass


def test_an_item_that_is_too_big_or_not_plain_is_refused_and_can_be_mended(queue):
    queue.push("https://a.test/")
    task = queue.pop()
    with pytest.raises(TooBig):
        queue.complete(task, "x" * 9_000_000)
    with pytest.raises(BadOption, match="plain values"):
        queue.complete(task, object())

    queue.complete(task, "small")
    assert [result.item for result in queue.results()] == ["small"]


def test_a_mistake_of_the_caller_is_answered_in_a_sentence(queue):
    queue.push("https://a.test/")
    task = queue.pop()
    mistakes = {
        "urls must be a list": lambda: queue.push_many("https://b.test/"),
        "urls must be a list of URLs": lambda: queue.push_many(None),
        "url must be text": lambda: queue.push_many(["https://b.test/", None]),
        "urls must be a list of": lambda: queue.complete(task, links="https://b.test/"),
        "task must be what `pop` returned": lambda: queue.complete(None),
        "error must be text or an exception": lambda: queue.fail(task, None),
        "leave one of them out": lambda: queue.push(
            "https://b.test/", unique="x", dont_filter=True
        ),
        "a request has no 'prioritty': did you mean priority?": lambda: queue.push(
            "https://b.test/", prioritty=1
        ),
        "a request has no 'foo': see": lambda: queue.push("https://b.test/", foo=1),
    }
    for sentence, mistake in mistakes.items():
        with pytest.raises(UsageError, match=sentence):
            mistake()
    assert (queue.stats().seen, queue.stats().leased) == (1, 1)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"redis": 6379}, "redis must be a server's URL"),
        ({"redis": ""}, "redis must be a server's URL"),
        ({"options": {"delay_s": 0}}, "options must be a skitter.JobOptions"),
        ({"layout": 8}, "layout must be a skitter.Layout"),
    ],
)
def test_a_queue_that_cannot_be_opened_so_says_why(job, server_url, given, sentence):
    with pytest.raises(UsageError, match=sentence), URLQueue(job, **{"redis": server_url, **given}):
        pass


async def test_a_frontier_has_a_directory_of_its_own_if_asked(job, short_dir, monkeypatch):
    monkeypatch.delenv("SKITTER_REDIS_URL", raising=False)
    async with open_frontier(job, directory=short_dir / "mine") as frontier:
        await frontier.add([Request(url="https://a.test/")])
        assert running(short_dir / "mine") is not None


def test_a_queue_that_is_not_open_says_how_to_open_it():
    with pytest.raises(UsageError, match="with URLQueue"):
        URLQueue("x").stats()


async def test_inside_an_event_loop_it_points_to_the_frontier(job, server_url):
    with pytest.raises(UsageError, match=r"skitter\.open_frontier"):
        URLQueue(job, redis=server_url).__enter__()
    await asyncio.sleep(0)


def test_threads_share_a_queue(queue):
    queue.push_many(f"https://a.test/{n}" for n in range(60))
    seen: list[str] = []

    def work():
        while task := queue.pop():
            queue.complete(task)
            seen.append(task.url)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(seen) == len(set(seen)) == 60


def test_the_embedded_server_is_the_default(short_dir, monkeypatch, job):
    monkeypatch.delenv("SKITTER_REDIS_URL", raising=False)
    monkeypatch.setenv("SKITTER_DIR", str(short_dir / "default"))
    with URLQueue(job, redis=None) as queue:
        queue.push("https://a.test/")
    with URLQueue(job) as queue:
        assert queue.stats().pending == 1


def test_closing_twice_does_no_harm_and_a_queue_may_be_opened_again(job, server_url):
    queue = URLQueue(job, redis=server_url, options=QUICK)
    queue.close()
    with queue:
        queue.push("https://a.test/")
    queue.close()
    with pytest.raises(UsageError, match="not open"):
        queue.pop()
    with queue:
        assert queue.stats().pending == 1


def test_entering_an_open_queue_is_refused_and_leaves_it_open(queue):
    with pytest.raises(UsageError, match="is already open"):
        queue.__enter__()
    assert queue.push("https://a.test/") is True


@pytest.fixture
def own_server(short_dir, monkeypatch):
    """The embedded server of one test."""
    directory = short_dir / "own"
    monkeypatch.delenv("SKITTER_REDIS_URL", raising=False)
    monkeypatch.setenv("SKITTER_DIR", str(directory))
    return directory


def kill(directory: Path) -> int:
    process = running(directory)
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    return process.pid


def test_a_killed_embedded_server_is_started_again_by_the_queue(job, own_server):
    with URLQueue(job, options=QUICK) as queue:
        queue.push("https://a.test/1")
        before = {kill(own_server)}
        assert queue.push("https://a.test/2") is True
        before.add(kill(own_server))
        assert len(before) == 2
        assert {task.url for task in queue.pop_many(5)} >= {"https://a.test/2"}
    assert running(own_server) is None


def test_an_embedded_server_that_was_stopped_stays_down(job, own_server):
    with URLQueue(job, options=QUICK) as queue:
        assert stop(own_server)
        with pytest.raises(ServerStopped, match="was stopped \\(`skitter down`\\)"):
            queue.push("https://a.test/2")
        assert running(own_server) is None


async def test_a_frontier_is_opened_in_an_event_loop_of_ones_own(job, server_url):
    async with open_frontier(job, redis=server_url, options=QUICK) as frontier:
        assert await frontier.add([Request(url="https://a.test/")]) == [Added.NEW]
        [lease] = (await frontier.lease(10)).leases
        assert await frontier.complete([Completion(lease=lease)]) == [Ended.DONE]


@pytest.fixture
def ahead(job, server_url):
    with URLQueue(job, redis=server_url, options=QUICK, ahead=20) as opened:
        yield opened


def test_a_queue_that_works_ahead_leases_and_completes_many_in_one_step(ahead, queue):
    ahead.push_many(f"https://a.test/{n}" for n in range(50))

    for count in range(20):
        ahead.complete(ahead.pop(), {"n": count}, links=[f"https://b.test/{count}"])
        assert (queue.stats().leased, queue.stats().done) == (21, 0)

    assert ahead.flush() == []
    assert (queue.stats().leased, queue.stats().done, queue.stats().seen) == (1, 20, 70)
    while task := ahead.pop():
        ahead.complete(task)
    assert ahead.stats().finished is False  # results wait for a reader
    assert (ahead.stats().done, len(list(ahead.results()))) == (70, 20)


def test_what_is_completed_too_late_is_told_by_flush_and_changes_nothing(ahead, job, server_url):
    ahead.push_many(["https://a.test/1", "https://a.test/2"])
    late, in_time = ahead.pop(), ahead.pop()
    ahead.release(late)
    with URLQueue(job, redis=server_url) as other:
        [theirs] = other.pop_many(1)
        other.complete(theirs, {"by": "other"})

    ahead.complete(late, {"by": "us"})
    ahead.complete(in_time, {"by": "us"})

    assert ahead.flush() == [late]
    assert ahead.flush() == []
    found = {one.url: one.item["by"] for one in ahead.results()}
    assert found == {late.url: "other", in_time.url: "us"}


def test_what_cannot_be_completed_is_told_at_once_and_not_to_others(ahead):
    ahead.push_many(["https://a.test/1", "https://a.test/2"])
    bad, good = ahead.pop(), ahead.pop()

    with pytest.raises(BadOption, match="plain values"):
        ahead.complete(bad, {"x": object()})
    ahead.complete(good, {"x": 1})

    assert ahead.flush() == []
    assert [one.url for one in ahead.results()] == [good.url]


def test_who_closes_sends_what_is_done_and_gives_back_what_it_did_not_pop(queue, job, server_url):
    with URLQueue(job, redis=server_url, ahead=5) as ahead:
        ahead.push_many(f"https://a.test/{n}" for n in range(10))
        ahead.complete(*ahead.pop_many(1))
        assert queue.stats().leased == 6

    stats = queue.stats()
    assert (stats.leased, stats.done, stats.pending, stats.lost) == (0, 1, 9, 0)


def test_what_has_waited_for_long_is_kept_or_left_to_others(job, server_url):
    with URLQueue(job, redis=server_url, options=QUICK, ahead=5, lease_s=0.01) as ahead:
        ahead.push_many(f"https://a.test/{n}" for n in range(3))
        first = ahead.pop()
        with URLQueue(job, redis=server_url) as other:  # takes back what has run out
            while not (theirs := other.pop_many(3)):
                pass

            popped = ahead.pop_many(3)

        assert first is not None
        assert not {one.url for one in popped} & {one.url for one in theirs}


def test_what_is_pushed_too_deep_is_counted_and_explained(job, server_url):
    options = JobOptions(politeness=Politeness(delay_s=0), limits=Limits(max_depth=1))
    with URLQueue(job, redis=server_url, options=options) as queue:
        assert queue.push("https://a.test/deep", depth=2) is False
        assert queue.push_many([Request("https://a.test/deeper", depth=3), "https://a.test/"]) == 1
        assert queue.stats().kept_out == {"depth": 2}

    async def ask():
        async with open_frontier(job, redis=server_url) as frontier:
            return await why(frontier, "https://a.test/deep")

    said = asyncio.run(ask())
    assert (said.state, said.refused_by) == ("refused", "depth")
    assert said.because == ["it was pushed at depth 2, beyond max_depth"]


@pytest.mark.parametrize("ahead", [0, 5])
def test_what_others_put_into_the_feed_list_is_popped_when_nothing_else_is_left(
    job, server_url, ahead
):
    messages = ["https://a.test/fed", '{"url": "https://a.test/first", "priority": 5}', "no URL"]
    with (
        Redis.from_url(server_url) as other,
        URLQueue(job, redis=server_url, options=QUICK, ahead=ahead) as queue,
    ):
        queue.push("https://a.test/pushed")
        other.lpush(f"skitter:{job}:feed", *messages)
        popped = []
        while not queue.stats().crawled:
            if task := queue.pop():
                popped.append(task.url)
                queue.complete(task)

        assert popped == [f"https://a.test/{name}" for name in ("pushed", "first", "fed")]
        assert (queue.stats().fed, queue.stats().dead) == (0, 1)


def test_a_queue_with_nothing_but_a_bad_message_ends(queue, job, server_url):
    with Redis.from_url(server_url) as other:
        other.lpush(f"skitter:{job}:feed", "no URL")
    assert not queue.stats().crawled
    assert queue.pop() is None
    assert queue.stats().crawled


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("push_bulk", "push_many"),
        ("add_urls", "push_many"),
        ("get_task", "pop"),
        ("mark_completed", "complete"),
        ("mark_failed", "fail"),
        ("get_stats", "stats"),
        ("monitor", "skitter status -w"),
        ("processing", "stats"),
        ("relese", "release"),
    ],
)
def test_a_name_of_another_queue_is_answered_with_ours(theirs, ours):
    with pytest.raises(AttributeError, match=ours) as raised:
        getattr(URLQueue("names"), theirs)
    assert str(raised.value).startswith(f"URLQueue has no {theirs!r}: ")


def test_an_unknown_name_is_an_attribute_error_as_anywhere():
    assert not hasattr(URLQueue("names"), "xyzzy")
    assert not hasattr(URLQueue("names"), "_push_bulk")


def test_the_result_of_one_url_is_found_whoever_completed_it(queue, job, server_url):
    queue.push_many(f"https://{n}.example/" for n in range(1200))
    for task in queue.pop_many(1200):
        queue.complete(task, {"of": task.url})
    queue.push("https://1.example/more")

    with URLQueue(job, redis=server_url) as other:
        assert other.result("https://7.example/") == {"of": "https://7.example/"}
        assert other.result("https://7.example/#top") == {"of": "https://7.example/"}
        assert other.result("https://1.example/more") is None
        assert other.result("https://never.example/") is None


def test_turns_at_a_host_are_shared_with_what_is_popped(job, server_url):
    options = JobOptions(politeness=Politeness(delay_s=0.2))
    with URLQueue(job, redis=server_url, options=options) as queue:
        assert queue.turn("https://a.example/api") < 0.2
        assert queue.turn("https://a.example/other") > 0.1
        assert queue.turn("https://b.example/") < 0.2
        queue.push("https://a.example/page")
        assert queue.pop() is None, "the host has just been asked"


def test_a_death_in_company_blames_nobody_and_a_suspect_is_handed_out_alone(job, server_url):
    """With one loss, each of the three was a dead letter."""
    strict = JobOptions(politeness=QUICK.politeness, retries=Retries(max_losses=1))

    def pop_some(queue: URLQueue) -> list[Lease]:
        while not (leases := queue.pop_many(3)):
            pass
        return leases

    with URLQueue(job, redis=server_url, options=strict, lease_s=0.01) as dying:
        dying.push_many(f"https://a.test/{n}" for n in range(3))
        assert len(pop_some(dying)) == 3
        with URLQueue(job, redis=server_url) as heir:
            for _ in range(2):
                [task] = pop_some(heir)
                assert heir.pop() is None
                heir.complete(task)
            assert (heir.stats().done, heir.stats().lost, heir.stats().dead) == (2, 3, 0)

            heir.release(*pop_some(heir))
            [killer] = pop_some(dying)  # and it dies of it
            while not heir.stats().dead:
                assert heir.pop() is None
            [letter] = asyncio.run(letters_of(job, server_url))
            assert (letter.url, letter.reason) == (killer.url, "its worker vanished 2 times")


async def letters_of(job: str, server_url: str) -> list[DeadLetter]:
    async with open_frontier(job, redis=server_url) as frontier:
        return [one async for one in dead_letters(frontier)]


def test_a_lease_says_when_its_url_was_added_whatever_else_it_has(server_url, job):
    options = JobOptions(politeness=Politeness(delay_s=0))
    began = int(time.time())
    with URLQueue(job, redis=server_url, options=options) as queue:
        queue.push("https://a.test/plain")
        full: dict[str, Any] = {
            "method": "POST",
            "headers": {"X-A": "1"},
            "body": "q",
            "meta": {"n": 5},
        }
        queue.push("https://b.test/full", priority=3, unique="u", session="s", **full)
        first = queue.pop()
        assert first
        queue.fail(first, "away")
        tasks = [first, *queue.pop_many(5)]
    assert [task.url[-4:] for task in tasks] == ["full", "lain"]
    for task in tasks:
        assert task.added_at is not None
        assert began <= task.added_at <= time.time()
    assert (first.request.meta, first.request.body, first.request.unique) == ({"n": 5}, b"q", "u")
