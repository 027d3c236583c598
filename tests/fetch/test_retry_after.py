from __future__ import annotations

import pytest

from skitter.fetch import retry_after_s

NOW = 1_700_000_000.0  # Tue, 14 Nov 2023 22:13:20 GMT


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120),
        (" 5 ", 5),
        ("0", 0),
        ("1.5", 1.5),
        ("99999999", 86_400),
        ("9" * 5000, 86_400),
        ("Tue, 14 Nov 2023 22:14:20 GMT", 60),
        ("Tuesday, 14-Nov-23 22:14:20 GMT", 60),  # RFC 850
        ("Tue Nov 14 22:14:20 2023", 60),  # asctime
        ("Tue, 14 Nov 2023 22:14:20 -0000", 60),
        ("Tue, 14 Nov 2023 21:00:00 GMT", 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 86_400),
        (None, None),
        ("", None),
        ("-1", None),
        ("soon", None),
        ("1e3", None),
        ("١٢", None),
        ("Tue, 99 Nov 2023 99:99:99 GMT", None),
        ("inf", None),
        ("9" * 60_000, 86_400),
        ("Tue, " * 10_000, None),
    ],
)
def test_retry_after_is_seconds_or_a_date_within_a_day(value, seconds):
    assert retry_after_s(value, now=NOW) == seconds


def test_the_cap_is_the_callers():
    assert retry_after_s("100", now=NOW, longest_s=30) == 30
