"""Feeding, watching and steering from the command line."""

from __future__ import annotations

import pytest

from skitter import URLQueue
from skitter.settings import JobOptions, Limits


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
        (["status", "--redis", "http://a.test"], "--redis must be a URL that begins with redis"),
        (["set", "{job}", "--delay", "-1"], "delay_s must be a number from 0"),
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
    assert "has 2 URLs waiting (max_pending)" in full.err
    assert f"run `skitter resume {job}` first" in closed.err
    assert skitter("status", job, "--json").json["seen"] == 2


def test_the_state_of_a_job_is_set_and_shown(skitter, job):
    skitter("push", job, "https://a.test/")
    states = [
        skitter(verb, job, "--json").json["state"]
        for verb in ("pause", "drain", "cancel", "resume")
    ]

    assert states == ["pause", "drain", "cancel", "run"]
    assert f"{job}: pause (1 pending, 0 leased)" in skitter("pause", job).out


def test_limits_are_shown_changed_and_removed(skitter, job):
    skitter(
        "set", job, "--delay", "0.5", "--in-flight", "4", "--max-pages", "10", "--max-depth", "0"
    )
    shown = skitter("set", job, "--json").json
    removed = skitter("set", job, "--max-pages", "0", "--max-depth", "-1", "--json").json

    assert shown["politeness"] == {"delay_s": 0.5, "max_in_flight": 4}
    assert (shown["limits"]["max_pages"], shown["limits"]["max_depth"]) == (10, 0)
    assert (removed["limits"]["max_pages"], removed["limits"]["max_depth"]) == (None, None)
    assert removed["politeness"]["delay_s"] == 0.5


def test_status_lists_all_jobs_and_one(skitter, job):
    skitter("push", job, "https://a.test/")

    assert job in skitter("status").out
    assert job in [stats["job"] for stats in skitter("status", "--json").json]
    assert "pending  1" in skitter("status", job).out


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
    assert "or say --all" in skitter("dead", "retry", dead_job).err
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
    assert "problem  surprise is a key that nobody knows" in damaged.out.replace(
        f"skitter:{{{job}:0}}:", ""
    )
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
    assert "pending counts b'many', which is no number" in counter.out
    assert f"`skitter audit {job}` tells all" in alone.err
    assert f"{job}-fine" in every.out
    assert control.exit_code == 1
    assert control.json["problems"][0]["says"] == "is a string and should be a hash"


def test_why_explains_a_url(skitter, job):
    skitter("push", job, "https://a.test/1")

    shown = skitter("why", job, "https://a.test/1?utm_source=x")
    as_json = skitter("why", job, "https://a.test/2", "--json").json

    assert "it is the same page as https://a.test/1" in shown.out
    assert as_json["state"] == "unknown"
