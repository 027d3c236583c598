"""`skitter crawl` does what its help says."""

from skitter.cli.crawl import PLAIN, _plan


def test_the_help_names_the_file_that_is_written(skitter):
    plan = _plan(PLAIN, {"name": "a", "urls": ["https://a.test/"], "sitemap": False}, None, {})

    shown = skitter("crawl", "--help").out

    assert f"(crawl: {plan.out})" in shown
