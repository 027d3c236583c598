"""The closing words of a crawl."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from skitter.cli.show.progress import show_report
from skitter.model import State, Stats
from skitter.observe.report import CrawlResult, Written, _exit_code, end_of, report_of


@pytest.mark.parametrize(
    ("state", "over", "words"),
    [
        (State.RUNNING, True, "finished"),
        (State.RUNNING, False, "stopped; run it again to continue"),
        (State.CANCELLED, False, "cancelled; to continue, `skitter resume j` and run it again"),
    ],
)
def test_a_crawl_says_how_it_ended_and_how_to_go_on(state, over, words):
    before, after = (Stats(job="j", state=state, seen=9, done=done) for done in (0, 5))

    assert end_of(CrawlResult(before, after, 1.0, over=over)) == words


@pytest.mark.parametrize(
    ("state", "interrupted", "code"),
    [
        (State.RUNNING, True, 130),  # Ctrl-C
        (State.RUNNING, False, 0),  # SIGTERM: systemd asked it to stop, and it did
        (State.CANCELLED, False, 1),
    ],
)
def test_a_clean_stop_is_no_failure_and_only_ctrl_c_is_130(state, interrupted, code):
    before, after = (Stats(job="j", state=state, seen=9, done=done) for done in (0, 5))
    went = CrawlResult(before, after, 1.0, over=False, interrupted=interrupted)

    assert _exit_code(went, None) == code


def test_a_stop_with_pages_done_and_items_left_says_so():
    before = Stats(job="j", state=State.RUNNING)
    after = Stats(job="j", state=State.RUNNING, seen=5, done=5, items=7, crawled=True)

    says = "stopped; every page is done, 7 items wait to be stored: run it again to store them"
    assert end_of(CrawlResult(before, after, 1.0, over=False)) == says


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ({"pending": 1}, "stopped at max_pages=5; 1 URL left"),
        ({"done": 4, "shelved": 1}, "finished, except 1 URL beyond max_pages_per_host"),
        ({"done": 0, "dead": 1}, "no page was completed. http://a.test/: handler book failed"),
    ],
)
def test_a_crawl_says_what_is_left(counts, words):
    before = Stats(job="j", state=State.RUNNING)
    after = replace(before, **{"seen": 9, "done": 5, "crawled": True, **counts})
    why = "http://a.test/: handler book failed." if after.dead else ""

    assert end_of(CrawlResult(before, after, 1.0, over=True, max_pages=5, why_dead=why)) == words


@pytest.mark.parametrize(
    ("held", "end", "line"),
    [
        (
            {"a.test/day/#": 1},
            "finished, except 1 URL that is held",
            "1 URL like a.test/day/#, which may have no end; to fetch ten times as many, "
            "`skitter set j --shape-budget 10000` and run it again",
        ),
        (
            {"a.test/day/#": 1200, "a.test/...": 3},
            "finished, except 1,203 URLs that are held",
            "1,203 URLs like a.test/day/# and 1 other shape, which may have no end; to fetch ten "
            "times as many, `skitter set j --shape-budget 10000` and run it again",
        ),
    ],
)
def test_what_is_held_ends_the_report_and_has_an_exit_code(capsys, monkeypatch, held, end, line):
    monkeypatch.setenv("COLUMNS", "300")
    before = Stats(job="j", state=State.RUNNING)
    after = replace(before, seen=9, done=5, dead=1, crawled=True, trapped=sum(held.values()))
    reasons = {"404 Not Found": 1}
    went = CrawlResult(
        before, after, 1.0, over=True, held=held, shape_budget=1000, dead_reasons=reasons
    )

    report = report_of(went, Written("j.db"))
    show_report(report, hints=True)

    assert (report.end, report.held, report.exit_code) == (end, held, 4)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"held     {line}"
    assert report_of(went, Written("j.db"), max_dead=0).exit_code == 1
    assert report_of(went, Written("j.db", exit_code=3)).exit_code == 3


def test_pages_that_wait_for_a_handler_are_named_and_have_an_exit_code(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    before = Stats(job="j", state=State.RUNNING)
    after = replace(before, seen=9, done=5, crawled=True, unhandled=4)
    went = CrawlResult(before, after, 1.0, over=True, unhandled={"book": 3, "shelf": 1})

    report = report_of(went, Written("j.db"))
    show_report(report, hints=True)

    assert report.end == "finished, except 4 URLs for a handler that no worker has"
    assert report.exit_code == 4
    assert capsys.readouterr().out.splitlines()[-1] == (
        "held     4 URLs for handler 'book' and 1 other, which no worker has; they are fetched "
        "when a spider that has it runs on this job"
    )


def test_a_page_that_died_with_its_workers_is_named_and_fails_the_run(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    before = Stats(job="j", state=State.RUNNING)
    after = replace(before, seen=9, done=8, dead=1, crawled=True)
    why = {"its worker vanished 4 times": 1}
    went = CrawlResult(
        before, after, 1.0, over=True, vanished=["http://a.test/x"], dead_reasons=why
    )

    report = report_of(went, Written("j.db"), max_dead=5)
    show_report(report, hints=True)

    assert (report.vanished, report.exit_code) == (["http://a.test/x"], 1)
    assert capsys.readouterr().out.splitlines()[-1] == (
        "lost     http://a.test/x: given up, as workers vanished with it again and again; to try "
        "again, `skitter dead retry j --reason vanished` and run it again"
    )


def test_files_that_were_left_out_are_counted_with_the_flag_that_fetches_them(capsys):
    before = Stats(job="j", state=State.RUNNING)
    after = replace(before, seen=5, done=5, crawled=True, kept_out={"file": 240})

    report = report_of(CrawlResult(before, after, 1.0, over=True), Written("j.db"))
    show_report(report, hints=True)

    assert (report.files, report.kept_out, report.exit_code) == (240, {}, 0)
    said = capsys.readouterr().out
    assert "files    240 links to files: --fresh --files all downloads them\n" in said
    assert "excluded" not in said


def test_the_report_tells_what_was_kept_out(capsys):
    before = Stats(job="j", state=State.RUNNING)
    kept_out = {"scope": 1100, "robots": 104, "new kind": 1}
    after = replace(before, seen=5, done=5, crawled=True, refused=3, kept_out=kept_out)
    went = CrawlResult(before, after, 1.0, over=True)

    show_report(report_of(went, Written("j.db")), hints=False)

    said = capsys.readouterr().out
    assert "excluded 1,205 links: 1,100 out of scope, 104 by robots.txt, 1 new kind\n" in said
    assert "refused  3 links beyond max_depth, or while draining\n" in said


def test_a_run_that_visits_pages_again_counts_visits(capsys):
    before = Stats(job="j", state=State.RUNNING, seen=9, done=9, new=9, unchanged=3)
    after = replace(before, done=7, dead=2, changed=2, unchanged=8, gone=1, crawled=True)

    went = CrawlResult(before, after, 2.0, over=True, dead_reasons={"404 Not Found": 2})
    report = report_of(went, Written("j.db"))
    show_report(report, hints=False)

    assert (report.pages_now, report.pages, report.pages_per_second) == (7, 7, 3.5)
    assert report.revisits == {"changed": 2, "unchanged": 5, "gone": 1}
    assert "revisits 2 changed, 5 unchanged, 1 gone\n" in capsys.readouterr().out


def test_a_run_without_revisits_says_nothing_of_them():
    before = Stats(job="j", state=State.RUNNING)
    result = CrawlResult(before, replace(before, done=5), 1.0, over=True)
    report = report_of(result, Written("j.db"))
    assert (report.pages_now, report.revisits) == (5, {})
