"""Two clients, of which one is enough."""

from __future__ import annotations

import subprocess
import sys

import pytest

from skitter.errors import BadOption, ClientMissing
from skitter.fetch import FetchOptions, HttpFetcher

ONE_IS_ENOUGH = """
import sys
from skitter.fetch import FetchOptions, HttpFetcher
sys.modules[{other!r}] = None  # as if it were not installed
HttpFetcher(FetchOptions(client={client!r}))
"""


@pytest.mark.parametrize(("client", "other"), [("wreq", "aiohttp"), ("aiohttp", "wreq")])
def test_one_client_needs_nothing_of_the_other(client, other):
    code = ONE_IS_ENOUGH.format(client=client, other=other)
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(("missing", "other"), [("wreq", "aiohttp"), ("aiohttp", "wreq")])
def test_a_client_that_is_not_there_is_named_with_what_to_do(monkeypatch, missing, other):
    monkeypatch.setitem(sys.modules, f"skitter.fetch.http.{missing}_client", None)

    with pytest.raises(ClientMissing, match=rf"pip install .*{missing}.*fetch\.client={other}"):
        HttpFetcher(FetchOptions(client=missing))


def test_a_client_that_we_do_not_know_is_refused():
    with pytest.raises(BadOption, match="wreq or aiohttp"):
        FetchOptions(client="curl")  # type: ignore[arg-type]
