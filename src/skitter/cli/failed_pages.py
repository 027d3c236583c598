"""Pages that failed, as the server keeps them: to be looked at, and handled here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skitter.errors import UsageError, shorten
from skitter.frontier.records.failed import FailedPage, failed_pages, find_failed
from skitter.redact import clean, redact, redact_text
from skitter.spider.fixtures import as_page as as_page
from skitter.spider.run import HandlerError, run_handler
from skitter.spider.source import full_trace
from skitter.urls import identify

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skitter.frontier.frontier import Frontier
    from skitter.spider import Spider
    from skitter.spider.page import Page

LONGEST_LINE = 300


async def failed_page(frontier: Frontier, url: str) -> FailedPage:
    """By URL, also as it is shown, or fingerprint. Raises UsageError."""
    found = await find_failed(frontier, url) or await find_failed(frontier, identify(url).url)
    if found:
        return found
    others = await failed_pages(frontier)
    alike = [other for other in others if redact(other.url) == url]  # copied from a list
    if len(alike) == 1:
        return alike[0]
    if alike:
        some = ", ".join(page.fingerprint for page in alike[:3])
        raise UsageError(f"{url} is the address of several pages: name one by fingerprint: {some}.")
    names = ", ".join(redact(other.url) for other in others[:3])
    has = f"it has {names}{', ...' * (len(others) > 3)}" if others else "it has none"
    raise UsageError(
        f"{shorten(redact(url))} is not one of the failed pages that {frontier.job!r} has kept "
        f"(archive.failed_pages): {has}."
    )


async def handle_again(spider: Spider, page: Page) -> HandlerError | None:
    """Why its handler fails; None: it does not, or no more."""
    try:
        await run_handler(spider, page)
    except HandlerError as error:
        return error
    return None


def trace_with_locals(error: BaseException) -> Iterator[str]:
    """From the first line of the user's code, with the values there."""
    for line in full_trace(error.__cause__ or error, with_locals=True):
        yield clean(shorten(redact_text(line), LONGEST_LINE))
