"""Bookshops for tests: one in the test's own loop, or one that a whole file shares."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from skitter.demo.site import BookShop

SMALL = 60


@pytest.fixture
async def shop() -> AsyncIterator[BookShop]:
    async with BookShop(books=SMALL) as opened:
        yield opened
