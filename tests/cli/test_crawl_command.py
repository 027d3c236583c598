"""`skitter crawl` does what its help says."""

from skitter.cli.crawl import PLAIN, _plan


def test_the_help_names_the_file_that_is_written(skitter):
    plan = _plan(PLAIN, {"name": "JOB", "urls": ["https://a.test/"], "sitemap": False}, None, {})

    shown = skitter("crawl", "--help").out

    assert f"(crawl: {plan.out})" in shown


def test_a_start_url_that_is_none_is_named_whatever_the_job_is_called(skitter, job):
    answer = skitter("crawl", "http://127.0.0.1/", "nowhere", "--job", job)

    assert answer.exit_code == 2
    assert answer.err.startswith("skitter: cannot use 'nowhere' as a URL: it has no scheme")
