"""Feeding, watching and steering from the command line."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import threading
import time

import pytest
from msgspec import to_builtins
from redis import Redis

from needs import need
from skitter import URLQueue
from skitter.frontier.jobs import open_job
from skitter.frontier.transport.connection import connect
from skitter.frontier.workers import log
from skitter.settings import JobOptions, Limits, Politeness


def test_pushing_tells_what_was_new(skitter, job):
    answer = skitter("push", job, "https://a.test/1", "https://a.test/1#top", "https://b.test/")

    assert answer.exit_code == 0
    assert answer.out == f"{job}: 2 new, 1 already seen\n"


def test_pushing_from_standard_input_and_a_file(skitter, job, tmp_path):
    listed = tmp_path / "urls.txt"
    listed.write_text("https://a.test/3\n\n  https://a.test/4  \n")

    answer = skitter(
        "push",
        job,
        "-",
        "--file",
        str(listed),
        "--json",
        stdin="https://a.test/1\nhttps://a.test/2\n",
    )

    assert answer.json == {"job": job, "new": 4, "seen": 0}


def test_a_list_from_a_spreadsheet_may_have_comments(skitter, job, tmp_path):
    listed = tmp_path / "urls.txt"
    listed.write_bytes(
        b"\xef\xbb\xbfhttps://a.test/1\r\n# the second part\r\nhttps://a.test/2#a\r\n"
    )

    answer = skitter("push", job, "--file", str(listed), "--json")
    typed = skitter("push", job, "-", "--json", stdin=listed.read_text("utf-8"))

    assert answer.json == {"job": job, "new": 2, "seen": 0}
    assert typed.json == {"job": job, "new": 0, "seen": 2}


def test_a_bad_line_is_named_and_its_batch_is_not_written(skitter, job):
    answer = skitter("push", job, "-", stdin="https://a.test/1\nnonsense\nhttps://a.test/2\n")

    assert answer.exit_code == 2
    assert "standard input, line 2: cannot use 'nonsense' as a URL" in answer.err
    assert "there is no job" in skitter("status", job).err


def test_bad_lines_can_be_skipped(skitter, job):
    answer = skitter("push", job, "-", "--skip-bad", "--json", stdin="https://a.test/1\nftp://x/\n")

    assert (answer.json["new"], answer.json["bad"]) == (1, 1)
    assert "skipped standard input, line 2: its scheme is 'ftp'" in answer.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["push", "{job}"], "no URLs were given"),
        (["push", "{job}", "not-a-url"], "it has no scheme"),
        (["push", "{job}", "mailto:a@b.test"], "its scheme is 'mailto'"),
        (["push", "{job}", "https://a.test/\t"], "control character"),
        (["push", "{job}", "https://a.test/" + "x" * 100_000], "100,015 bytes, the limit is 8,192"),
        (
            ["push", "{job}", "https://a.test/", "--priority", "5000"],
            "priority must be a whole number",
        ),
        (["push", "{job}", "--file", "/nowhere/at/all"], "cannot read /nowhere/at/all"),
        (["push", "a b", "https://a.test/"], "'a b' is not a job name"),
        (["push", "{x}", "https://a.test/"], "'{x}' is not a job name"),
        (["status", "no-such-job"], "there is no job 'no-such-job'"),
        (["audit", "no-such-job"], "there is no job 'no-such-job'"),
        (["status", "--redis", ""], "redis must be a server's URL"),
        (["status", "--redis", "redis://a.test/abc"], "must be a database number"),
        (["set", "{job}", "--max-pages", "0"], "--max-pages must be a whole number from 1"),
        (["set", "{job}", "--max-pages", "few"], "or none, got 'few'"),
        (
            ["status", "--redis", "http://a.test"],
            "must be a URL such as redis://host:6379",
        ),
        (["set", "{job}", "--delay", "-1"], "--delay must be a number from 0"),
        (["pause"], "Missing argument"),
    ],
)
def test_a_mistake_is_answered_with_a_sentence(skitter, job, words, says):
    answer = skitter(*(word.replace("{job}", job) for word in words))

    assert answer.exit_code == 2
    assert says in answer.err
    assert "Traceback" not in answer.err
    assert len(answer.err) < 1000


def test_a_full_queue_refuses_and_a_drained_job_takes_nothing(skitter, job):
    skitter("set", job, "--max-pending", "2")
    full = skitter("push", job, "https://a.test/1", "https://a.test/2", "https://a.test/3")
    skitter("drain", job)
    closed = skitter("push", job, "https://a.test/4")

    assert (full.exit_code, closed.exit_code) == (1, 1)
    assert "is full (max_pending is 2): 2 of these went in." in full.err
    assert f"run `skitter resume {job}` first" in closed.err
    assert skitter("status", job, "--json").json["seen"] == 2


def test_the_state_of_a_job_is_set_and_shown(skitter, job):
    skitter("push", job, "https://a.test/")
    states = [
        skitter(verb, job, "--json").json["state"]
        for verb in ("pause", "drain", "cancel", "resume")
    ]

    assert states == ["paused", "draining", "cancelled", "running"]
    assert f"{job}: paused (1 pending, 0 leased)" in skitter("pause", job).out


def test_limits_are_shown_changed_and_removed(skitter, job):
    skitter(
        "set", job, "--delay", "0.5", "--in-flight", "4", "--max-pages", "10", "--max-depth", "0"
    )
    shown = skitter("set", job, "--json").json
    removed = skitter("set", job, "--max-pages", "none", "--max-depth", "none", "--json").json

    assert shown["politeness"] == to_builtins(Politeness(delay_s=0.5, max_in_flight=4))
    assert (shown["limits"]["max_pages"], shown["limits"]["max_depth"]) == (10, 0)
    assert (removed["limits"]["max_pages"], removed["limits"]["max_depth"]) == (None, None)
    assert removed["politeness"]["delay_s"] == 0.5


def test_a_preview_of_limits_says_what_they_would_do_and_changes_nothing(skitter, job):
    skitter("push", job, *(f"https://a.test/{part}/1" for part in "ab"))
    words = ("set", job, "--exclude", "/a/*", "--also-hosts", "b.test", "--preview")
    said = skitter(*words).out
    effects = skitter(*words, "--json").json

    assert "exclude: none -> /a/*\n  1 pending URLs would not be fetched" in said
    assert {one["option"]: one["urls"] for one in effects} == {"exclude": 1, "also_hosts": 0}
    slower = skitter("set", job, "--delay", "3", "--preview").out
    assert "2 known URLs would take at least 6 s, as a.test has 2 of them; now, at least" in slower
    crowded = skitter("set", job, "--in-flight", "3", "--preview").out
    assert "max_in_flight: 1 -> 3" in crowded
    assert "no page was fetched lately, so nobody knows how long hosts take to answer" in crowded
    assert skitter("set", job, "--json").json["limits"]["exclude"] is None
    assert skitter("set", "unknown", "--max-pages", "1", "--preview").exit_code == 2


async def test_a_pattern_of_an_older_release_is_replaced(skitter_here, frontier, server, job):
    key = frontier.home.keys.key("control")
    await server.command("HSET", key, "exclude", "re:^(?!.*/docs/)")
    told = await skitter_here("status", job)
    done = await skitter_here("set", job, "--exclude", "/docs/*", "--json")

    assert (told.exit_code, f"`skitter set {job} --exclude ...` replaces it" in told.err) == (
        3,
        True,
    )
    assert done.json["limits"]["exclude"] == "/docs/*"
    assert (await skitter_here("status", job)).exit_code == 0


def test_status_lists_all_jobs_and_one(skitter, job):
    skitter("push", job, "https://a.test/")

    assert job in skitter("status").out
    assert job in [stats["job"] for stats in skitter("status", "--json").json]
    assert "pending  1" in skitter("status", job).out


def test_status_says_finished_in_json_as_in_text(skitter, job, server_url):
    with URLQueue(job, redis=server_url) as queue:
        queue.push("https://a.test/")
        task = queue.pop()
        assert task is not None
        queue.complete(task)

    answer = skitter("status", job, "--json").json
    assert "finished" in skitter("status", job).out
    assert (answer["state"], answer["wanted"], answer["finished"]) == ("finished", "running", True)


def test_a_host_with_a_mistake_in_its_name_is_no_host_with_zeros(skitter, job):
    skitter("push", job, "https://shop.test:8080/")

    typo = skitter("host", job, "shop.test")
    assert typo.exit_code == 2
    assert "has no URL of host 'shop.test'" in typo.err
    assert skitter("host", job, "shop.test:8080").exit_code == 0
    assert skitter("host", job, "later.test", "--delay", "5").exit_code == 0
    assert skitter("host", job, "later.test").exit_code == 0


def test_set_does_what_its_help_says(skitter, job):
    shown = skitter("set", job)
    assert (shown.exit_code, "there is no job" in shown.err) == (2, True)
    assert "A job that does not exist is created if a limit is given" in " ".join(
        skitter("set", "--help").out.replace("│", " ").split()
    )
    created = skitter("set", job, "--max-pages", "5")
    assert (created.exit_code, "there was no such job" in created.err) == (0, True)
    assert skitter("set", job, "--max-pages", "5").err == ""
    assert skitter("status", job).exit_code == 0
    shown = skitter("set", job).out
    assert " false" in shown
    assert "False" not in shown


def test_purging_asks_first_and_leaves_no_key(skitter, job):
    skitter("push", job, "https://a.test/")

    refused = skitter("purge", job)
    done = skitter("purge", job, "--yes")

    assert refused.exit_code == 2
    assert "add --yes" in refused.err
    assert done.out == f"{job}: removed.\n"
    assert skitter("status", job).exit_code == 2


@pytest.fixture
def dead_job(skitter, job, server_url):
    """Three dead letters: two of a.test, one of b.test with another reason."""
    options = JobOptions(limits=Limits())
    with URLQueue(job, redis=server_url, options=options) as queue:
        for url in ("https://a.test/1", "https://b.test/1"):
            queue.push(url)
        while task := queue.pop():
            queue.fail(task, f"reason of {task.host}", retry=False)
    return job


def test_dead_letters_are_listed_shown_retried_and_dropped(skitter, dead_job, tmp_path):
    listed = skitter("dead", "list", dead_job)
    shown = skitter("dead", "show", dead_job, "https://a.test/1", "--json").json
    exported = skitter("dead", "export", dead_job, "--to", str(tmp_path / "dead.jsonl"))
    retried = skitter("dead", "retry", dead_job, "--match", "https://a.test/*", "--json").json
    dropped = skitter("dead", "drop", dead_job, "https://b.test/1", "--json").json

    assert "https://a.test/1  reason of a.test" in listed.out
    assert shown["reason"] == "reason of a.test"
    assert exported.exit_code == 0
    assert len((tmp_path / "dead.jsonl").read_text().splitlines()) == 2
    assert (retried["retried"], dropped["dropped"]) == (1, 1)
    assert skitter("dead", "list", dead_job).out == f"{dead_job}: no dead letters.\n"
    assert skitter("audit", dead_job).exit_code == 0


def test_dead_letters_need_to_be_named(skitter, dead_job):
    assert "or --all" in skitter("dead", "retry", dead_job).err
    assert (
        "is not among the dead letters" in skitter("dead", "show", dead_job, "https://c.test/").err
    )
    assert skitter("dead", "retry", dead_job, "--all").out == f"{dead_job}: 2 retried.\n"


def test_audit_shows_the_equation_and_fails_on_damage(skitter, job, server_url):
    skitter("push", job, "https://a.test/")
    clean = skitter("audit", job)
    _break(job, server_url)
    damaged = skitter("audit", job)
    as_json = skitter("audit", job, "--json")

    assert clean.exit_code == 0
    assert "seen 1 = pending 1 + delayed 0 + leased 0 + done 0 + dead 0" in clean.out
    assert "Every URL is accounted for." in clean.out
    assert damaged.exit_code == 1
    assert "problem  surprise is an unknown key" in damaged.out.replace(f"skitter:{{{job}:0}}:", "")
    assert (as_json.exit_code, as_json.json["clean"]) == (1, False)


def _break(job: str, server_url: str) -> None:
    import redis

    with redis.Redis.from_url(server_url) as client:
        client.set(f"skitter:{{{job}:0}}:surprise", 1)


def test_a_damaged_job_is_audited_and_named_and_stops_no_other(skitter, job, server_url):
    import redis

    skitter("push", job, "https://a.test/")
    skitter("push", f"{job}-fine", "https://a.test/")
    with redis.Redis.from_url(server_url) as client:
        client.hset(f"skitter:{{{job}:0}}:stats", "pending", "many")
    counter = skitter("audit", job)
    alone = skitter("status", job)
    every = skitter("status")
    with redis.Redis.from_url(server_url) as client:
        client.delete(f"skitter:{{{job}:0}}:control")
        client.set(f"skitter:{{{job}:0}}:control", "x")
    control = skitter("audit", job, "--json")

    assert (counter.exit_code, alone.exit_code, every.exit_code) == (1, 3, 0)
    assert "pending counts b'many', which is not a number" in counter.out
    assert f"Run `skitter audit {job}` for details" in alone.err
    assert f"{job}-fine" in every.out
    assert control.exit_code == 1
    assert control.json["problems"][0]["says"] == "is a string but should be a hash"


def test_why_explains_a_url(skitter, job):
    skitter("push", job, "https://a.test/1")

    shown = skitter("why", job, "https://a.test/1?utm_source=x")
    as_json = skitter("why", job, "https://a.test/2", "--json").json

    assert "it is the same page as https://a.test/1" in shown.out
    assert re.search(r"added at +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", shown.out)
    assert as_json["state"] == "unknown"


def test_a_job_is_created_with_shards_and_a_bloom_filter_once(skitter, job):
    made = skitter("create", job, "--shards", "4", "--bloom", "1000", "--delay", "0.5")
    again = skitter("create", job)
    skitter("push", job, "https://a.test/", "https://b.test/")

    assert made.out == f"{job}: created with 4 shards and a Bloom filter for 1,000 URLs.\n"
    assert again.exit_code == 2
    assert f"`skitter set {job}` changes it" in again.err
    assert skitter("set", job, "--json").json["politeness"]["delay_s"] == 0.5
    assert skitter("audit", job).exit_code == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--shards", "0"], "shards must be a whole number from 1"),
        (["--shards", "5000"], "shards must be a whole number from 1"),
        (["--bloom", "0"], "capacity must be a whole number from 1"),
        (["--error-rate", "0.1"], "add --bloom URLS"),
        (["--delay", "-1"], "--delay must be a number from 0"),
    ],
)
def test_a_job_that_cannot_be_is_not_created(skitter, job, words, says):
    answer = skitter("create", job, *words)

    assert answer.exit_code == 2
    assert says in answer.err
    assert skitter("status", job).exit_code == 2


def test_one_option_is_set_and_the_others_stay(skitter, job):
    skitter("set", job, "--retry-base", "7", "--retry-cap", "70", "--max-losses", "9")
    skitter("set", job, "--max-items", "5")
    shown = skitter("set", job, "--max-items", "none", "--json").json

    assert shown["retries"] == {"max_retries": 3, "max_losses": 9, "base_s": 7.0, "cap_s": 70.0}
    assert shown["limits"]["max_items"] is None


def test_a_host_is_shown_and_has_values_of_its_own(skitter, job):
    skitter("push", job, "https://shop.test/", "https://shop.test/1")
    given = skitter(
        "host", job, "shop.test", "--delay", "3", "--in-flight", "2", "--max-pages", "5"
    )
    blocked = skitter("host", job, "https://shop.test/any", "--block", "3600")
    known = skitter("host", job, "shop.test:443", "--json").json
    reset = skitter("host", job, "shop.test", "--reset")

    assert "delay         3 s (its own)" in given.out
    assert "in flight     2 (its own)" in given.out
    assert "budget        5 pages (its own)" in given.out
    assert "next request  in 3,5" in blocked.out or "next request  in 3,600" in blocked.out
    assert known["own"] == {"delay_ms": 3000.0, "max_in_flight": 2.0, "max_pages": 5.0}
    assert known["queued"] == 2
    assert "its own" not in reset.out
    assert "next request  now" in reset.out
    assert skitter("audit", job).exit_code == 0


@pytest.mark.parametrize(
    "words",
    [["a b"], ["shop.test", "--delay", "-1"], ["shop.test", "--reset", "--delay", "1"], [""]],
)
def test_a_host_that_cannot_be_set_says_why(skitter, job, words):
    skitter("push", job, "https://shop.test/")
    answer = skitter("host", job, *words)

    assert answer.exit_code == 2
    assert "Traceback" not in answer.err


LONG = "https://a.test/" + "long/" * 300


@pytest.fixture
def posted(skitter, job, server_url):
    """A POST and a request set apart, both pending, and a dead POST with a long URL."""
    with URLQueue(job, redis=server_url, options=JobOptions(limits=Limits())) as queue:
        queue.push(LONG, method="POST", body=b"a=1")
        [task] = queue.pop_many(1)
        queue.fail(task, "refused", retry=False)
        queue.push("https://b.test/", method="POST", body=b"q=1")
        queue.push("https://b.test/", dont_filter=True)
    return job


def test_why_finds_what_is_no_plain_get(skitter, posted):
    plain = skitter("why", posted, "https://b.test/", "--json").json
    post = skitter("why", posted, "https://b.test/", "--method", "POST", "--body", "q=1", "--json")
    every = skitter("why", posted, "https://b.test/", "--all", "--json").json
    apart = next(one for one in every if one["method"] == "GET")
    by_number = skitter("why", posted, apart["fingerprint"])

    assert plain["state"] == "unknown"
    assert (post.json["state"], post.json["method"]) == ("pending", "POST")
    assert {one["fingerprint"] for one in every} > {post.json["fingerprint"]}
    assert len(every) == 2
    assert "url          https://b.test/" in by_number.out
    assert skitter("why", posted, "12345").out.startswith("url          unknown")
    assert (
        "no request for https://z.test/" in skitter("why", posted, "https://z.test/", "--all").out
    )


def test_a_dead_post_is_found_and_a_long_url_is_not_cut(skitter, posted, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    plain = skitter("dead", "show", posted, LONG)
    post = skitter("dead", "show", posted, LONG, "--method", "POST", "--body", "a=1")
    explained = skitter("why", posted, LONG, "--method", "POST", "--body", "a=1")
    listed = skitter("dead", "list", posted)

    assert plain.exit_code == 2
    assert f"url           {LONG}\n" in post.out
    assert f"url          {LONG}\n" in explained.out
    assert f"{LONG}  refused" in listed.out


def test_the_list_says_whether_the_filter_or_the_limit_left_letters_out(skitter, dead_job):
    [first, _] = skitter("dead", "list", dead_job, "--json").json

    filtered = skitter("dead", "list", dead_job, "--match", first["url"])
    cut = skitter("dead", "list", dead_job, "--limit", "1")

    assert "1 of 2 dead letters match." in filtered.out
    assert "1 of 2 dead letters; see --limit" in cut.out


def test_no_dead_letter_is_shown_if_none_is_wanted(skitter, dead_job):
    none = skitter("dead", "list", dead_job, "--limit", "0")

    assert "https://" not in none.out
    assert "0 of 2 dead letters" in none.out
    assert skitter("dead", "list", dead_job, "--limit", "-1").exit_code == 2


def test_a_dead_letter_that_cannot_be_read_is_shown_and_dropped_and_stays_dead(
    skitter, dead_job, server_url
):
    import redis

    [one, _] = skitter("dead", "list", dead_job, "--json").json
    with redis.Redis.from_url(server_url) as client:
        client.hset(f"skitter:{{{dead_job}:0}}:task", one["fingerprint"], "0 a.test rubbish")
    listed = skitter("dead", "list", dead_job)
    retried = skitter("dead", "retry", dead_job, one["fingerprint"])
    dropped = skitter("dead", "drop", dead_job, one["fingerprint"])

    assert f"unreadable, {one['fingerprint']}" in listed.out
    assert retried.out == (f"{dead_job}: 0 retried. 1 is not a request and can only be dropped.\n")
    assert dropped.out == f"{dead_job}: 1 dropped.\n"
    assert skitter("audit", dead_job).exit_code == 0


def test_an_export_that_cannot_be_made_leaves_the_old_file(skitter, job, tmp_path):
    file = tmp_path / "dead.jsonl"
    file.write_text("old")

    assert skitter("dead", "export", "no-such-job", "--to", str(file)).exit_code == 2
    assert file.read_text() == "old"


@pytest.mark.parametrize(
    "words", ["status -w {job}", "status -w --json {job}", "logs -f {job}", "top {job}"]
)
def test_a_reader_that_leaves_ends_the_command_quietly(skitter, job, server_url, words):
    skitter("push", job, "https://a.test/")
    skitter("pause", job)  # it needs nobody
    if "logs" in words:
        asyncio.run(_log_a_lot(server_url, job))
    command = f"set -o pipefail; {sys.executable} -m skitter {words.format(job=job)} | head -1"
    environment = {**os.environ, "SKITTER_REDIS_URL": server_url}
    done = subprocess.run(
        [need("bash"), "-c", command], env=environment, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 1


async def _log_a_lot(server_url: str, job: str) -> None:
    async with connect(server_url) as server:
        frontier = await open_job(server, job)
        for number in range(50):
            await log(frontier, "info", "w", f"{number} " * 1000)


def test_pushing_tells_that_it_waits_for_room(skitter, server_url, job):
    skitter("set", job, "--max-pending", "2", "--delay", "0")

    def consume() -> None:
        with URLQueue(job, redis=server_url) as queue:
            while queue.stats().seen < 2:
                time.sleep(0.01)
            while queue.stats().done < 5:
                for task in queue.pop_many(2):
                    queue.complete(task)

    consumer = threading.Thread(target=consume)
    consumer.start()
    urls = [f"https://h{n}.test/" for n in range(5)]
    answer = skitter("push", job, *urls, urls[0], "--wait")
    consumer.join()

    assert f"{job} is full: 2 were added; waiting for room for the rest." in answer.err
    assert answer.out == f"{job}: 5 new, 1 already seen\n"


def test_a_reason_of_several_lines_stands_below_itself(skitter, server_url, job):
    with URLQueue(job, redis=server_url) as queue:
        queue.push("https://a.test/")
        task = queue.pop()
        assert task is not None
        queue.fail(task, "first line\nsecond line", retry=False)

    shown = skitter("dead", "show", job, "https://a.test/").out

    assert "reason        first line\n              second line\n" in shown


def test_what_was_adopted_names_the_keys_that_are_kept(skitter, job, server_url):
    with Redis.from_url(server_url) as server:
        server.sadd(f"{job}:dupefilter", "a" * 40)

    adopted = skitter("adopt", "scrapy-redis", "--spider", job)

    assert adopted.exit_code == 0, adopted.err
    assert f"The counts agree. Kept: {job}:dupefilter:adopted." in adopted.out


def test_a_queue_of_ones_own_is_adopted(skitter, job, server_url):
    missing = skitter("adopt", "redis", "--job", job)
    assert missing.exit_code == 2
    assert "--queue KEY" in missing.err
    with Redis.from_url(server_url) as client:
        client.zadd(f"{job}:own", {"https://a.example/": 1, "nonsense": 2})
    adopted = skitter("adopt", "redis", "--job", job, "--queue", f"{job}:own", "--lowest-first")
    assert adopted.exit_code == 1, adopted.err
    assert "1 queued, 0 known, 1 dead letters" in adopted.out
    assert f"skitter dead list {job}" in adopted.out
