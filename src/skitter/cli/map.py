"""List a site's pages without crawling it: map."""

from __future__ import annotations

from typing import Annotated, Any

import typer
import uvloop

from skitter.cli.clean import clean
from skitter.cli.common import Json
from skitter.cli.console import out, plain
from skitter.cli.flags import FETCHING, Given, with_flags
from skitter.cli.output import emit_json, print_progress
from skitter.cli.survey import Survey
from skitter.model import Request
from skitter.redact import redact_text
from skitter.report import duration, some
from skitter.settings import resolve
from skitter.settings.sources import OPTIONS

MAPPING = (*FETCHING, OPTIONS["politeness.delay_s"])


@with_flags(MAPPING, settable=True)
def map_site(
    url: Annotated[str, typer.Argument(metavar="URL", help="Any page of the site.")],
    limit: Annotated[int, typer.Option(min=1, help="Stop after this many URLs.")] = 100_000,
    as_json: Json = False,
    *,
    given: Given,
) -> None:
    """List a site's URLs from its sitemaps, feeds or links.

    Prints one URL per line, and on standard error how long a crawl of them takes. The exit code
    is 1 if there are none.
    """
    survey = Survey(url, resolve(given), lambda text: print_progress(redact_text(text)))
    found = uvloop.run(_collect(survey, limit, show=not as_json))
    if as_json:
        emit_json(to_json(survey, found))
    print_progress(summary(survey, is_cut=len(found) >= limit))
    if not found:
        raise typer.Exit(1)


async def _collect(survey: Survey, limit: int, *, show: bool) -> list[Request]:
    found: list[Request] = []
    pages = survey.pages()
    try:
        async for page in pages:
            found.append(page)
            if show:
                out.print(plain(page.url))
            if len(found) >= limit:
                break
    finally:
        await pages.aclose()  # type: ignore[attr-defined]
    return found


def to_json(survey: Survey, found: list[Request]) -> dict[str, Any]:
    return {
        "url": survey.url,
        "sources": survey.sources,
        "from_links": survey.from_links,
        "eta_s": round(survey.eta_s),
        "hosts": [
            {"host": host, "urls": urls, "delay_s": survey.delay_s(host)}
            for host, urls in survey.hosts.most_common()
        ],
        "urls": [{"url": one.url, "priority": one.priority} for one in found],
    }


def summary(survey: Survey, *, is_cut: bool) -> str:
    urls = some(survey.hosts.total(), "URL")
    if not survey.hosts:
        return "No URLs found: no sitemap, no feed, and no link on the page."
    source = "the links of the page" if survey.from_links else some(len(survey.sources), "sitemap")
    hosts = "" if len(survey.hosts) == 1 else f" on {some(len(survey.hosts), 'host')}"
    more = "; there may be more (--limit)" if is_cut else ""
    return clean(f"{urls}{hosts} from {source}{more}. {_estimate(survey)}.")


def _estimate(survey: Survey) -> str:
    if not survey.eta_s:
        return "Without a delay between requests, a crawl is as fast as the site"
    [(host, _)] = survey.hosts.most_common(1)
    pace = f"{survey.delay_s(host):g} s between requests to {host}"
    return f"A crawl takes about {duration(survey.eta_s)}: {pace}"
