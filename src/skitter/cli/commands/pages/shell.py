"""Look at one page: fetch, shell."""

from __future__ import annotations

import ast
import builtins
import code
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any

import msgspec
import uvloop

from skitter.cli.commands.pages.one_page import Hop, Visit, visit
from skitter.cli.common import Arguments, Json, on_job, pairs_of
from skitter.cli.failed_pages import as_page, failed_page, handle_again, trace_with_locals
from skitter.cli.flags import FETCHING, Given, with_flags
from skitter.cli.parameters import Argument, Exit, Option
from skitter.cli.show.output import emit_json, pairs, print_error, print_progress
from skitter.errors import SkitterError, UsageError, shorten
from skitter.redact import clean, redact, redact_request, redact_text
from skitter.settings import Config, resolve
from skitter.spider import HandlerOutput, Spider, load_spider
from skitter.spider.default import title_of, visible_text
from skitter.spider.page import Page
from skitter.spider.page.reading import library
from skitter.spider.source import describe, source_line

#: How much of each list is shown; --json has all.
SHOWN = 20
TEXT_SHOWN = 400

Url = Annotated[
    str, Argument(metavar="URL", help="A private address, or localhost, is allowed here.")
]
SpiderFile = Annotated[
    str | None,
    Option("--spider", metavar="SPIDER", help="A file, file.py:name or package.module:name."),
]
Handler = Annotated[
    str | None, Option("--handler", help="Handler to run. Default: the spider's default.")
]


# --- fetch ----------------------------------------------------------------------------------------


@with_flags(FETCHING, settable=True)
def fetch(
    url: Url,
    spider: SpiderFile = None,
    arguments: Arguments = None,
    handler: Handler = None,
    body: Annotated[bool, Option("--body", help="Print only the body, byte for byte.")] = False,
    markdown: Annotated[
        bool, Option("--markdown", help="Print only its main part, as Markdown.")
    ] = False,
    headers: Annotated[bool, Option("--headers", help="Show all response headers.")] = False,
    render: Annotated[
        bool, Option("--render", help="Render it in a browser; needs skitter[browser].")
    ] = False,
    stages: Annotated[
        bool, Option("--stages", help="Show what each stage of a worker did with it.")
    ] = False,
    as_json: Json = False,
    *,
    given: Given,
) -> None:
    """Show one page as a worker sees it.

    With --spider, also show what its handler finds. The exit code is 1 if a worker would not
    complete the page: no answer, an error status, robots.txt, scope.
    """
    asked = {"--body": body, "--markdown": markdown, "--json": as_json, "--stages": stages}
    printed = [name for name, is_asked in asked.items() if is_asked]
    if len(printed) > 1 and (body or markdown):
        one, other = printed[:2]
        raise UsageError(f"{one} and {other} both write to standard output: choose one.")
    if markdown:
        library()  # before anything is fetched
    if handler and not spider:
        raise UsageError("--handler needs a spider: name its file with --spider.")
    loaded = load_spider(spider, pairs_of(arguments)) if spider else None
    found = uvloop.run(
        visit(url, loaded, handler=handler, config=_config(given, loaded), render=render)
    )
    if as_json:
        emit_json(to_json(found, stages=stages))
    elif body or markdown:
        _write_page(found, as_markdown=markdown)
    else:
        shown = stage_rows(found) if stages else rows(found, headers=headers)
        pairs((name, clean(str(value))) for name, value in shown)
    if found.problem:
        print_error(clean(found.problem))
        raise Exit(1)


def _config(given: Given, spider: Spider | None) -> Config:
    return resolve(given, spider=spider.tables if spider else None)


def _write_page(found: Visit, *, as_markdown: bool) -> None:
    for hop in found.hops:
        print_progress(clean(f"{_status(hop)}  {redact(hop.request.url)}"))
    if (page := found.page) is not None:
        shown = f"{page.markdown()}\n".encode(errors="replace") if as_markdown else page.body
        sys.stdout.buffer.write(shown)
        sys.stdout.buffer.flush()


def rows(found: Visit, *, headers: bool) -> Iterator[tuple[str, object]]:
    """The page for people."""
    *before, last = found.hops
    for i, hop in enumerate(before):
        yield "redirect" if i == 0 else "", f"{_status(hop)}  {redact(hop.request.url)}"
    yield "url", redact(last.response.url if last.response else last.request.url)
    for i, sentence in enumerate(_robots_sentences(found)):
        yield "robots" if i == 0 else "", sentence
    page = found.page
    if page is None:
        return
    yield "status", _status(last)
    yield "address", page.response.remote_address or "unknown"
    took = f"{page.response.elapsed_s * 1000:,.0f} ms"
    yield "time", "none: it is from the archive" if last.is_kept else took
    yield "type", page.header("content-type") or "none given"
    yield "size", f"{len(page.body):,} bytes"
    for i, (name, value) in enumerate(page.headers if headers else ()):
        yield "headers" if i == 0 else "", f"{name}: {value}"
    yield from _content_rows(page)
    if found.output is not None:
        yield from _output_rows(found.output)


def stage_rows(found: Visit) -> Iterator[tuple[str, object]]:
    """What each stage did with the page, and before with those that redirected to it."""
    for hop in found.hops:
        yield "url", redact(hop.request.url)
        for stage in hop.stages:
            yield stage.stage, f"{stage.said}{'. The visit ended here.' if stage.ended else ''}"


def _content_rows(page: Page) -> Iterator[tuple[str, object]]:
    if not _is_text(page):
        return
    yield "encoding", page.encoding
    if page.is_html:
        yield "title", title_of(page) or "none"
        yield "links", f"{len(page.links()):,}"
    yield "text", shorten(_text(page), TEXT_SHOWN) or "none"


def _output_rows(output: HandlerOutput) -> Iterator[tuple[str, object]]:
    items = [_json(item) for item in output.items]
    yield from _list_rows("items", items)
    yield from _list_rows("rejected", [r.why for r in output.rejected])
    if output.undeclared:
        fields = ", ".join(output.undeclared)
        yield "left out", f"{fields}: not in the declared item type"
    follow = [
        f"{request.url}  {_details(request.handler, request.priority)}"
        for request in output.requests
    ]
    yield from _list_rows("would follow", follow)
    yield from _list_rows("would skip", [f"{url}  {why.reason}" for url, why in output.refused])


def _list_rows(name: str, lines: list[str]) -> Iterator[tuple[str, object]]:
    yield name, f"{len(lines):,}"
    for line in lines[:SHOWN]:
        yield "", f"- {line.rstrip()}"
    if len(lines) > SHOWN:
        yield "", f"... and {len(lines) - SHOWN:,} more; --json has them all"


def _details(handler: str | None, priority: int) -> str:
    parts = [handler or "", f"priority {priority}" if priority else ""]
    return ", ".join(filter(None, parts))


def to_json(found: Visit, *, stages: bool = False) -> dict[str, Any]:
    """The page for programs."""
    page = found.page
    answer: dict[str, Any] = {
        "url": found.page.url if found.page else found.hops[-1].request.url,
        "problem": found.problem,
        "hops": [
            {
                "url": hop.request.url,
                "status": hop.response.status if hop.response else None,
                "location": hop.response.header("location") if hop.response else None,
                "robots": hop.robots,
            }
            | ({"stages": hop.stages} if stages else {})
            for hop in found.hops
        ],
    }
    if page is not None:
        text = _is_text(page)
        answer |= {
            "status": page.status,
            "remote_address": page.response.remote_address,
            "elapsed_s": page.response.elapsed_s,
            "headers": page.headers,
            "size_bytes": len(page.body),
            "encoding": page.encoding if text else None,
            "title": title_of(page) if text and page.is_html else None,
            "text": _text(page) if text else None,
            "links": page.links() if text and page.is_html else [],
        }
    if found.output is not None:
        output = found.output
        answer["handler"] = {
            "items": output.items,
            "rejected": output.rejected,
            "left_out": output.undeclared,
            "follow": [redact_request(msgspec.to_builtins(request)) for request in output.requests],
            "refused": [{"url": url, "reason": why.reason} for url, why in output.refused],
        }
    return answer


def _status(hop: Hop) -> str:
    if hop.response is None:
        return "no answer"
    status = hop.response.status
    with suppress(ValueError):
        return f"{status} {HTTPStatus(status).phrase}"
    return str(status)


def _robots_sentences(found: Visit) -> list[str]:
    """One sentence if robots.txt said the same for all hops, else one for each."""
    asked = [hop for hop in found.hops if hop.robots is not None]
    if not asked:
        return ["not asked"]
    said = list(dict.fromkeys(str(hop.robots).removeprefix("robots.txt: ") for hop in asked))
    if len(said) == 1:
        return said
    return [f"{str(hop.robots).removeprefix('robots.txt: ')}  {hop.request.url}" for hop in asked]


def _is_text(page: Page) -> bool:
    kind = page.content_type
    return page.is_html or kind.startswith("text/") or kind.endswith(("json", "xml", "javascript"))


def _text(page: Page) -> str:
    return visible_text(page) if page.is_html else " ".join(page.text.split())


def _json(item: object) -> str:
    return msgspec.json.encode(item).decode()


# --- shell ----------------------------------------------------------------------------------------


@with_flags(FETCHING, settable=True)
def shell(
    url: Url,
    spider: SpiderFile = None,
    arguments: Arguments = None,
    dead: Annotated[
        str | None,
        Option("--dead", metavar="JOB", help="Take the page that failed in this job."),
    ] = None,
    *,
    given: Given,
) -> None:
    """Open a Python shell with a page that was just fetched.

    It has `page` and `response`, and with --spider also `spider`. It is IPython if that is
    installed. Input from a pipe is run as a program:
    echo 'page.css_first("h1").text()' | skitter shell URL

    With --dead, the page is the one that failed, and nothing is fetched: you see why its handler
    failed, or with --spider where it fails today, with the values there.
    """
    loaded = load_spider(spider, pairs_of(arguments)) if spider else None
    config = _config(given, loaded)
    page = _failed(url, dead, loaded, config) if dead else _fetched(url, config)
    names: dict[str, Any] = {"page": page, "response": page.response}
    if loaded is not None:
        names["spider"] = loaded
    if sys.stdin.isatty():
        _converse(names)
    else:
        _run(sys.stdin.read(), names)


def _fetched(url: str, config: Config) -> Page:
    found = uvloop.run(visit(url, config=config))
    if found.page is None:
        raise SkitterError(clean(found.problem or "there is no page to show."))
    if found.problem:
        print_progress(clean(found.problem))
    return found.page


def _failed(url: str, job: str, spider: Spider | None, config: Config) -> Page:
    """The page that failed, and why: on the screen, before the shell."""
    kept = on_job(config.server, job, partial(failed_page, url=url))
    page = as_page(kept)
    error = uvloop.run(handle_again(spider, page)) if spider else None
    if spider and error is None:
        print_progress(f"Its handler does not fail any more; it did: {clean(kept.reason)}")
        return page
    for line in trace_with_locals(error) if error else kept.traceback.splitlines():
        print_progress(clean(line))
    print_progress(clean(redact_text(str(error or kept.reason))))
    return page


def _converse(names: dict[str, Any]) -> None:
    page: Page = names["page"]
    print_progress(clean(f"{page!r}, {len(page.body):,} bytes"))
    print_progress(
        f"You have {', '.join(names)}. Try page.css('a'), page.links(), page.text; Ctrl-D leaves."
    )
    if find_spec("IPython"):
        import_module("IPython").start_ipython(argv=["--no-banner"], user_ns=names)
    else:  # not in an `except`: each error of the user's would show our ImportError as its context
        _complete_names(names)
        code.interact(banner="", local=names, exitmsg="")


def _complete_names(names: dict[str, Any]) -> None:
    """Tab completion, if Python was built with readline."""
    with suppress(ImportError):
        readline, completer = import_module("readline"), import_module("rlcompleter")
        readline.set_completer(completer.Completer(names).complete)
        readline.parse_and_bind("tab: complete")


def _run(source: str, names: dict[str, Any]) -> None:
    """Run a whole program; as in a REPL, expressions print their values."""
    names["__builtins__"] = builtins
    try:
        statements = ast.Interactive(ast.parse(source, "<stdin>").body)
        exec(compile(statements, "<stdin>", "single"), names)
    except BrokenPipeError:  # the reader of our output is gone
        raise
    except Exception as error:
        place = source_line(error, "<stdin>")
        is_here = place and place.file == "<stdin>"
        line = f"standard input, line {place.line}" if place and is_here else place
        raise SkitterError(f"{line}: {describe(error)}" if line else describe(error)) from error
