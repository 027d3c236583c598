"""Tests of spiders on saved pages: test, test add, test accept."""

from __future__ import annotations

from functools import partial
from mimetypes import guess_type
from pathlib import Path
from typing import Annotated, Any

import msgspec
import uvloop

from skitter.cli.commands.pages.one_page import first_request, visit
from skitter.cli.common import Arguments, Json, on_job, pairs_of
from skitter.cli.failed_pages import as_page, failed_page
from skitter.cli.flags import FETCHING, Given, with_flags
from skitter.cli.parameters import Argument, Exit, Group, Option
from skitter.cli.show.output import emit_json, print_error, say
from skitter.errors import SkitterError, UsageError
from skitter.model import Request, Response
from skitter.observe.report import some
from skitter.redact import clean
from skitter.settings import resolve
from skitter.spider import Spider, load_spider
from skitter.spider.fixtures import Checked, Checks, New, accept, find, save, shown
from skitter.spider.page import Page
from skitter.urls import identify


class Runs(Group):
    """`skitter test shop.py` is `skitter test run shop.py`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = ctx.resilient_parsing or (args and args[0] in {*self.commands, "--help"})
        parsed: list[str] = super().parse_args(ctx, args if named else ["run", *args])
        return parsed


group = Runs(help="Test spiders on saved pages, without the web.")


@group.add("run")
def run_fixtures(
    place: Annotated[
        str | None,
        Argument(metavar="[SPIDER]", help="A spider, or a folder. Default: all below here."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Run handlers on saved pages; "run" may be left out.

    Shows what differs, by field; the exit code is then 1.
    """
    checks = Checks()
    checked = [checks.check(folder) for folder in find(place)]
    wrong = [check for check in checked if not check.is_same]
    if as_json:
        emit_json([_to_json(check) for check in checked])
    else:
        _show(wrong, total=len(checked))
    raise Exit(1 if wrong else 0)


def _show(wrong: list[Checked], *, total: int) -> None:
    for checked in wrong:
        say(shown(checked.folder))
        for line in checked.lines:
            say(f"  {line}")
    right = f"{total - len(wrong):,} of {some(total, 'fixture')} as expected."
    can_accept = any(checked.differences for checked in wrong)
    say(right + " To take the new values: skitter test accept" * can_accept)


def _to_json(checked: Checked) -> dict[str, Any]:
    return {
        "fixture": shown(checked.folder),
        "same": checked.is_same,
        "problem": checked.problem or None,
        "differences": checked.differences,
    }


@group.add("accept")
def accept_fixtures(
    places: Annotated[
        list[str] | None,
        Argument(metavar="[FIXTURE]...", help="Folders, or spiders. Default: all below here."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Take what handlers find now as what is expected.

    Pages whose handler fails are left as they are; the exit code is then 1.
    """
    checks, changed, problems = Checks(), list[str](), list[str]()
    for folder in dict.fromkeys(path for place in places or ["."] for path in find(place)):
        try:
            if not checks.check(folder).is_same:
                accept(folder, checks.run(folder))
                changed.append(shown(folder))
        except SkitterError as error:
            problems.append(f"{shown(folder)}: {error}")
    if as_json:
        emit_json({"accepted": changed, "problems": problems})
    else:
        for name in changed:
            say(f"Accepted {name}")
        say(f"{some(len(changed), 'fixture')} changed.")
    for problem in problems:
        print_error(problem)
    raise Exit(1 if problems else 0)


@group.add("add")
@with_flags(FETCHING, settable=True)
def add(
    target: Annotated[
        str,
        Argument(metavar="SPIDER", help="A file, file.py:name or package.module:name."),
    ],
    url: Annotated[str, Argument(metavar="URL", help="The page.")],
    handler: Annotated[
        str | None, Option("--handler", help="Its handler. Default: the spider's default.")
    ] = None,
    arguments: Arguments = None,
    file: Annotated[
        Path | None, Option("--file", help="Take the page from this file, not from the web.")
    ] = None,
    folder: Annotated[
        Path | None,
        Option("--from", help="The folder of kept pages, if it is not `archive`."),
    ] = None,
    fetch: Annotated[bool, Option("--fetch", help="Fetch the page, even if it was kept.")] = False,
    dead: Annotated[
        str | None,
        Option("--dead", metavar="JOB", help="Take the page that failed in this job."),
    ] = None,
    as_json: Json = False,
    *,
    given: Given,
) -> None:
    """Save a page, and what its handler finds there, as a test.

    The page comes from the archive if it was kept, else from the web, as `skitter fetch` gets it.
    Adding it again replaces it.
    """
    given_arguments = pairs_of(arguments)
    spider = load_spider(target, given_arguments)
    request = first_request(identify(url).url, spider, handler)
    config = resolve(given, spider=spider.tables)
    page = _from_file(request, file) if file else None
    if dead:
        page = as_page(on_job(config.server, dead, partial(failed_page, url=url)))
    if page is None and not fetch:
        page = _archived(request, folder or config.archive.folder, spider, handler)
    came = "file" if file else dead or ("archive" if page else "web")
    if page is None:
        found = uvloop.run(visit(url, spider, handler=handler, config=config))
        page = found.page
        if found.problem or page is None:
            why = found.problem or f"{url}: no answer."
            raise SkitterError(clean(f"{why} Nothing was saved."))
    saved = save(target, spider, page, given_arguments)
    again = Checks().check(saved.folder)
    counts = {name: len(found) for name, found in saved.expected.items()}
    if as_json:
        emit_json(_to_json(again) | {"new": saved.is_new, "from": came} | counts)
    else:
        _show_new(saved, counts, came)
    if not again.is_same:
        print_error("\n  ".join(["it differs already when it runs again:", *again.lines]))
        raise Exit(1)


def _show_new(saved: New, counts: dict[str, int], came: str) -> None:
    what = f"{some(counts['items'], 'item')} and {some(counts['links'], 'link')}"
    what += f", {counts['rejected']:,} rejected" * bool(counts["rejected"])
    say(f"{'Saved' if saved.is_new else 'Replaced'} {shown(saved.folder)}: {what} ({came}).")
    say("Test it:  skitter test")


def _from_file(request: Request, file: Path) -> Page:
    try:
        body = file.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}. Name another file.") from None
    kind = guess_type(file.name)[0] or "text/html"
    headers = (("content-type", kind),)
    return Page(request, Response(url=request.url, status=200, headers=headers, body=body))


def _archived(request: Request, folder: Path, spider: Spider, handler: str | None) -> Page | None:
    """As it was kept last, by this spider if it was."""
    if not any(folder.glob("*.warc*")):  # another folder of that name needs no library
        return None
    from skitter.archive.index import Archive
    from skitter.archive.record import request_of

    archive = Archive.open(folder)
    kept = archive.newest(request, job=spider.name)
    if kept is None or 300 <= kept.status < 400:
        return None
    asked = request_of(kept)
    if handler:
        asked = msgspec.structs.replace(asked, handler=handler)
    return Page(asked, archive.read(kept))
