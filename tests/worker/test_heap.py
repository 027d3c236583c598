"""Pages one after the other use the same memory."""

from __future__ import annotations

import subprocess
import sys

import pytest

PAGES = 200
PARSE_PAGES = f"""
import resource, sys
from selectolax.lexbor import LexborHTMLParser
from skitter.worker.heap import keep_freed_memory

page = "<p>" + "<a href=/x>some words</a></p><p>" * 1000
if sys.argv[1] == "keep":
    keep_freed_memory()
for _ in range(20):
    LexborHTMLParser(page)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({PAGES}):
    LexborHTMLParser(page)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(how: str) -> int:
    words = [sys.executable, "-c", PARSE_PAGES, how]
    return int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="a setting of glibc")
def test_memory_is_not_asked_for_anew_for_each_page():
    assert page_faults("keep") < PAGES < page_faults("as it is")
