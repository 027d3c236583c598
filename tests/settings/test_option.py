"""An option is declared once; everything else is derived from that."""

from __future__ import annotations

from pathlib import Path

import pytest

from skitter.errors import BadOption
from skitter.frontier.transport.scripts import LIMITS, script
from skitter.settings import JOB_OPTIONS, TABLES, FetchOptions, Limits, options_of

OPTIONS = {one.key: one for name, table in TABLES.items() for one in options_of(table, name)}


@pytest.mark.parametrize(
    ("key", "variable", "flag", "field"),
    [
        ("politeness.delay_s", "SKITTER_POLITENESS_DELAY_S", "--delay", "delay_ms"),
        ("retries.base_s", "SKITTER_RETRIES_BASE_S", "--retry-base", "retry_base_ms"),
        ("limits.max_pages", "SKITTER_LIMITS_MAX_PAGES", "--max-pages", "max_pages"),
        ("limits.max_pending", "SKITTER_LIMITS_MAX_PENDING", "--max-pending", "max_pending"),
    ],
)
def test_names_are_derived(key, variable, flag, field):
    one = OPTIONS[key]

    assert (one.variable, one.flag, one.field) == (variable, flag, field)


def test_names_that_people_know_stay():
    assert OPTIONS["server.redis_url"].variable == "SKITTER_REDIS_URL"
    assert OPTIONS["server.directory"].variable == "SKITTER_DIR"


def test_variables_and_flags_are_unique():
    names = [one.variable for one in OPTIONS.values()]
    names += [word for one in OPTIONS.values() for word in one.declared.flag.split()]

    assert len(names) == len(set(names))


def test_lua_reads_the_options_that_are_declared():
    assert "max_depth" in LIMITS
    assert "retry_base_ms" not in LIMITS  # workers reckon with it
    assert {one.field for one in JOB_OPTIONS} >= set(LIMITS)
    assert "'max_depth'" in script("lease").source


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("limits.max_pages", "10", 10),
        ("limits.max_pages", "None", None),
        ("politeness.delay_s", "0.5", 0.5),
        ("fetch.http2", "off", False),
        ("fetch.allow_hosts", "a.test, b.test:80", ("a.test", "b.test:80")),
        ("fetch.headers", "X-Key: a: b\nX-Other: c", {"X-Key": "a: b", "X-Other": "c"}),
        ("fetch.ca_file", "ca.pem", Path("ca.pem")),
        ("log.level", "debug", "debug"),
    ],
)
def test_text_becomes_a_value(key, text, value):
    assert OPTIONS[key].parse(text) == value


@pytest.mark.parametrize(
    ("key", "text", "says"),
    [
        ("limits.max_pages", "0", "limits.max_pages must be a whole number from 1 to"),
        ("limits.max_pages", "few", "or none, got 'few'"),
        ("limits.max_in_flight", "1.5", "a whole number"),
        ("politeness.delay_s", "nan", "a number from 0 to 86,400, got 'nan'"),
        ("fetch.http2", "maybe", "true or false"),
        ("log.level", "loud", "debug, info, warning or error"),
        ("fetch.ca_file", "", "a path, or none, got ''"),
        ("output.to", " ", r"a list of strings, got '\(hidden\)'"),
        ("fetch.headers", "secret without a colon", r"got '\(hidden\)'"),
        ("fetch.headers", "X-Key: a\nno colon", r"got '\(hidden\)'"),
    ],
)
def test_text_that_spells_no_value_is_refused(key, text, says):
    one = OPTIONS.get(key, OPTIONS["politeness.max_in_flight"])

    with pytest.raises(BadOption, match=says):
        one.parse(text)


@pytest.mark.parametrize(
    "values",
    [{"headers": {"X Key": "a"}}, {"headers": {"X-Key": "a\nb"}}, {"user_agent": ""}, {"http2": 1}],
)
def test_a_table_checks_itself(values):
    with pytest.raises(BadOption):
        FetchOptions(**values)


def test_secrets_have_no_repr():
    assert "hush" not in repr(FetchOptions(headers={"Authorization": "hush"}))


def test_no_limit_is_none():
    assert Limits(max_pages=None).max_pages is None
