"""Pages in a real Chromium: one browser for all of them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from selectolax.lexbor import LexborHTMLParser

from browser.web import FILL_IN, LATE, SCROLL_DOWN, pages
from fetch.site import Site, redirect, serve
from needs import need
from proxies import Proxy, open_proxy
from skitter.errors import (
    AddressRefused,
    BadOption,
    FetchError,
    FetchTimeout,
    ProxyFault,
    RenderFailed,
    ResponseTooLarge,
)
from skitter.fetch.browser.chromium import memory_mb
from skitter.fetch.browser.render import Render
from skitter.fetch.browser.renderer import BrowserRenderer, Context
from skitter.fetch.http.guard import Guard
from skitter.model import Request, Response
from skitter.settings.fetch import FetchOptions, outbound_of
from skitter.settings.tables import BrowserOptions

pytestmark = pytest.mark.asyncio(loop_scope="module")
THERE = Render(wait_for=".there")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site() -> AsyncIterator[Site]:
    async with serve(pages()) as site:
        yield site


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def away() -> AsyncIterator[Site]:
    """Another origin, which is allowed, too."""
    async with serve({}) as site:
        yield site


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def renderer(site: Site, away: Site) -> AsyncIterator[BrowserRenderer]:
    need("chromium")
    options = BrowserOptions(settle_s=2.0)
    guard = Guard(frozenset({f"127.0.0.1:{site.port}", f"127.0.0.1:{away.port}"}))
    fetch = FetchOptions(max_body_mb=1, basic_auth={f"127.0.0.1:{site.port}": "ann:secret"})
    async with BrowserRenderer(options, fetch=fetch, guard=guard) as renderer:
        yield renderer


def text(response: Response, selector: str) -> str:
    found = LexborHTMLParser(response.body.decode()).css_first(selector)
    return found.text() if found else ""


async def test_content_that_scripts_make_is_there(renderer: BrowserRenderer, site: Site) -> None:
    quiet = await renderer.render(Request(url=site.url("/late")), Render())
    ready = await renderer.render(Request(url=site.url("/late")), Render(wait_for=".price"))
    assert text(quiet, ".price") == text(ready, ".price") == "12"
    assert ready.url == site.url("/late")
    assert ready.status == 200
    assert ready.header("content-type") == "text/html; charset=utf-8"
    assert ready.header("content-length") is None
    assert ready.screenshot is None


async def test_scripts_scroll_to_the_end_of_an_endless_page(
    renderer: BrowserRenderer, site: Site
) -> None:
    how = Render(wait_for="li", scripts=[SCROLL_DOWN])  # type: ignore[arg-type]
    page = await renderer.render(Request(url=site.url("/scroll")), how)
    assert len(LexborHTMLParser(page.body.decode()).css("li")) == 50


async def test_a_log_in_holds_for_the_pages_after_it(renderer: BrowserRenderer, site: Site) -> None:
    form = Render(wait_for="form, .there", scripts=(FILL_IN,))
    first = await renderer.render(Request(url=site.url("/login")), form)
    again = await renderer.render(Request(url=site.url("/account")), THERE)
    assert text(first, ".there") == text(again, ".there") == "hello ann"
    assert first.url == site.url("/account")


async def test_without_cookies_a_page_knows_nothing_of_those_before_it(
    renderer: BrowserRenderer, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renderer, "_keeps_cookies", False)
    form = Render(wait_for="form, .there", scripts=(FILL_IN,))
    first = await renderer.render(Request(url=site.url("/login")), form)
    again = await renderer.render(Request(url=site.url("/account")), THERE)
    assert text(first, ".there") == "hello ann"
    assert text(again, ".there") == "who are you?"
    assert not [one for one in renderer._contexts.values() if one.is_retired]


async def test_a_page_goes_through_the_proxy_of_its_route(
    renderer: BrowserRenderer, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SOCKS5 with credentials, which Chromium itself does not speak."""
    known = {"far.example": ("127.0.0.1", site.port)}
    async with open_proxy(Proxy(names=known, credentials="ann:new")) as proxy:
        request = Request(url=site.url("/late", host="far.example"))
        good, bad = proxy.url("socks5", "ann:new"), proxy.url("socks5", "ann:old")
        page = await renderer.render(request, Render(wait_for=".price"), proxy=good)
        with pytest.raises(ProxyFault, match="rejects our credentials"):
            await renderer.render(request, Render(), proxy=bad)
        network = outbound_of(None, {"ALL_PROXY": good})
        monkeypatch.setattr(renderer, "_outbound", network)
        again = await renderer.render(request, Render(wait_for=".price"))
    assert text(page, ".price") == text(again, ".price") == "12"
    assert set(proxy.lines) == {f"socks far.example:{site.port}"}


async def test_a_page_that_never_settles_is_taken_as_it_is(
    renderer: BrowserRenderer, site: Site
) -> None:
    page = await renderer.render(Request(url=site.url("/restless")), Render(block=()))
    assert text(page, ".there") == "here"


@pytest.mark.parametrize("path", ["/late", "/stuck", "/drip"])
async def test_the_deadline_is_ours(renderer: BrowserRenderer, site: Site, path: str) -> None:
    """Whatever the page does: wait for what never comes, loop for ever, arrive for ever."""
    with pytest.raises(FetchTimeout, match=r"^[^ ]+: \.never did not appear within 1\.5 s$"):
        await renderer.render(Request(url=site.url(path), timeout_s=1.5), Render(wait_for=".never"))
    after = await renderer.render(Request(url=site.url("/moves")), THERE)
    assert text(after, ".there").startswith("moved")


async def test_redirects_are_followed_and_the_last_url_counts(
    renderer: BrowserRenderer, site: Site
) -> None:
    for path in ("/hop", "/refresh"):
        page = await renderer.render(Request(url=site.url(path)), Render(wait_for=".price"))
        assert (page.url, page.status) == (site.url("/late"), 200)
    moved = await renderer.render(Request(url=site.url("/moves")), THERE)
    assert moved.url == site.url("/moved?a=1#b")


async def test_a_status_is_an_answer_and_data_stays_as_it_is(
    renderer: BrowserRenderer, site: Site
) -> None:
    gone = await renderer.render(Request(url=site.url("/gone")), THERE)
    data = await renderer.render(Request(url=site.url("/data")), Render())
    assert (gone.status, text(gone, ".there")) == (404, "not here")
    assert (data.body, data.header("content-type")) == (b'{"a": 1}', "application/json")


async def test_what_is_blocked_is_not_loaded_and_a_screenshot_is_a_png(
    renderer: BrowserRenderer, site: Site
) -> None:
    site.requests.clear()
    page = await renderer.render(
        Request(url=site.url("/pictures")), Render(wait_for=".there", screenshot=True)
    )
    assert page.screenshot is not None
    assert page.screenshot.startswith(b"\x89PNG")
    assert "/script.js" in site.paths
    assert not {"/picture.png", "/font"} & set(site.paths)


async def test_the_request_goes_out_as_it_is_and_its_secrets_go_nowhere_else(
    renderer: BrowserRenderer, site: Site, away: Site
) -> None:
    """Headers, body and credentials are for the page itself, and for no host that it leads to."""
    other = f"http://127.0.0.1:{site.port}/echo"
    request = Request(
        url=site.url("/echo"), method="POST", body=b"a=1", headers={"X-Key": "k", "cookie": "c=1"}
    )
    echo = text(await renderer.render(request, THERE), ".there")
    assert echo.startswith("POST /echo")
    assert echo.endswith("a=1")
    assert "x-key: k" in echo.lower()
    assert "authorization: Basic" in echo
    away.pages = {"/": redirect(other, 307)}
    page = await renderer.render(Request(url=away.url(), headers={"X-Key": "k"}), THERE)
    assert b"x-key: k" in away.requests[0].lower()
    assert page.url == other
    assert "x-key" not in text(page, ".there").lower()


async def test_what_cannot_be_rendered_says_why(renderer: BrowserRenderer, site: Site) -> None:
    with pytest.raises(FetchError, match="it is a file to download: fetch it without a browser"):
        await renderer.render(Request(url=site.url("/file")), Render())
    with pytest.raises(ResponseTooLarge):
        await renderer.render(Request(url=site.url("/big")), Render(wait_for="p"))
    with pytest.raises(RenderFailed, match=r"the script 'nothing\(\)' failed"):
        await renderer.render(Request(url=site.url("/gone")), Render(scripts=("nothing()",)))


async def test_a_tab_that_crashes_is_an_error_that_passes(
    renderer: BrowserRenderer, site: Site
) -> None:
    site.requests.clear()
    rendering = asyncio.create_task(
        renderer.render(Request(url=site.url("/restless")), Render(wait_for=".never"))
    )
    await asyncio.wait_for(site.seen("/tick"), 50)
    assert renderer._chromium is not None
    for pid in tabs_of(renderer._chromium.group):
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(RenderFailed, match="the tab crashed"):
        await rendering
    again = await renderer.render(Request(url=site.url("/late")), Render(wait_for=".price"))
    assert text(again, ".price") == "12"


async def test_what_is_worn_is_replaced_and_leaves_no_process(site: Site) -> None:
    """A context after one page, the browser after two; and at once if its driver is killed."""
    need("chromium")
    options = BrowserOptions(pages_per_context=1, pages_per_browser=2)
    guard = Guard(frozenset({f"127.0.0.1:{site.port}"}))
    groups, contexts = [], []
    async with BrowserRenderer(options, guard=guard) as renderer:
        for _ in range(3):
            async with renderer._tab(Request(url=site.url("/late")), THERE, None) as (_, context):
                groups.append(context.chromium.group)
                contexts.append(context)
        assert groups[0] == groups[1] != groups[2]
        assert len({*map(id, contexts)}) == 3
        assert not tabs_of(groups[0])
        assert memory_mb(groups[2]) > 50
        assert renderer._chromium is not None
        driver = renderer._chromium._manager._client._transport._proc
        driver.kill()
        await driver.wait()
        with suppress(RenderFailed):  # whoever notices it
            await renderer.render(Request(url=site.url("/late")), Render(wait_for=".price"))
        page = await renderer.render(Request(url=site.url("/late")), Render(wait_for=".price"))
    assert text(page, ".price") == "12"
    assert page.moved_bytes > len(LATE)
    assert not [pid for group in groups for pid in tabs_of(group)]


async def test_a_browser_that_is_old_or_has_too_much_memory_is_replaced(site: Site) -> None:
    need("chromium")
    guard = Guard(frozenset({f"127.0.0.1:{site.port}"}))
    options = BrowserOptions(max_memory_mb=None)
    async with BrowserRenderer(options, guard=guard) as renderer:

        async def use() -> Context:
            async with renderer._tab(Request(url=site.url("/late")), THERE, None) as (_, context):
                return context

        first, second = await use(), await use()
        assert first is second
        first.born -= options.context_age_s
        third = await use()
        assert (third is first, third.chromium is first.chromium) == (False, True)

        third.chromium.born -= options.browser_age_s
        fourth = await use()
        assert fourth.chromium.group != third.chromium.group
        assert not tabs_of(third.chromium.group)

        assert memory_mb(fourth.chromium.group) > 100
        renderer._options = BrowserOptions(max_memory_mb=100)
        fifth = await use()
        assert fifth.chromium.group != fourth.chromium.group
        assert not tabs_of(fourth.chromium.group)


def tabs_of(group: int | None) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            in_group = int(stat.read_bytes().rpartition(b")")[2].split()[2]) == group
            words = stat.with_name("cmdline").read_bytes()
        except OSError:
            continue
        if in_group and b"--type=renderer" in words:
            found.append(int(stat.parent.name))
    return found


async def test_a_browser_that_runs_elsewhere_is_used_by_its_address(
    site: Site, tmp_path: Path
) -> None:
    words = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}"]
    words.append("--no-startup-window")  # nor a page for which we would wait
    there = await asyncio.create_subprocess_exec(
        need("chromium"),
        *words,
        "--remote-debugging-port=0",
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert there.stderr is not None
    try:
        while b"DevTools listening on " not in (line := await there.stderr.readline()):
            assert line, "it did not start"
        options = BrowserOptions(cdp_url=line.split()[-1].decode())
        guard = Guard(frozenset({f"127.0.0.1:{site.port}"}))
        async with BrowserRenderer(options, guard=guard) as renderer:
            page = await renderer.render(Request(url=site.url("/late")), Render(wait_for=".price"))
            with pytest.raises(AddressRefused):
                await renderer.render(Request(url="http://10.0.0.1/"), Render())
        assert text(page, ".price") == "12"
        assert there.returncode is None, "it is not ours to end"
    finally:
        os.killpg(there.pid, signal.SIGKILL)
        await there.communicate()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"block": ("pictures",)}, "block must be of eventsource"),
        ({"block": "image"}, "block must be a list of strings"),
        ({"scripts": "x()"}, "scripts must be a list of strings"),
        ({"wait_for": 3}, "wait_for must be a CSS selector"),
    ],
)
async def test_a_mistake_in_render_is_told(options: dict[str, Any], said: str) -> None:
    with pytest.raises(BadOption, match=said):
        Render(**options)
