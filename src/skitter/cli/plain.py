"""A crawl without a spider of the user's: its name and its pace."""

from __future__ import annotations

import re

from skitter.cli.flags import Given
from skitter.errors import BadOption
from skitter.urls import fingerprint, identify


def job_name_of(urls: list[str]) -> str:
    """The same URLs again are the same job, so that a crawl resumes."""
    targets = [identify(url) for url in urls]
    host = re.sub(r"[^A-Za-z0-9.-]", "-", targets[0].host).strip(".-")[:60] or "crawl"
    mark = int(fingerprint(" ".join(sorted(one.canonical for one in targets)))) % 36**4
    return f"{host}-{mark:06x}"


def politeness_of(asked: str) -> Given:
    """Seconds between requests and how many at a time, as flags would say it."""
    if asked == "none":
        return {"politeness.delay_s": 0.0, "politeness.max_in_flight": 64}
    try:
        per_second = float(asked)
    except ValueError:
        per_second = 0.0
    if not 1 / 86_400 <= per_second <= 10_000:
        raise BadOption("--rate", asked, "requests per second, from one a day to 10,000, or none")
    in_flight = max(1, round(per_second))
    return {"politeness.delay_s": 1 / per_second, "politeness.max_in_flight": in_flight}
