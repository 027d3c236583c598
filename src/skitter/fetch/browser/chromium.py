"""One running browser: finding, starting, measuring and ending it, down to its last process.

The library starts a driver (Node.js), which starts the browser in its own process group. If the
browser does not close, its group is killed, and the driver reaps it. If this process is killed, the
driver notices and ends the browser.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import time
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from skitter.errors import BrowserFailed, BrowserMissing
from skitter.redact import redact_text

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from skitter.settings.tables import BrowserOptions

T = TypeVar("T")
NAMES: Final = (
    "chromium",
    "chromium-browser",
    "google-chrome-stable",
    "google-chrome",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
ARGUMENTS: Final = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-sync",
    # No UDP that bypasses the proxy. Chromium 156 knows only the second name.
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--proxy-bypass-list=<-loopback>",  # else Chromium bypasses the proxy for loopback
)
FAREWELL_S: Final = 5.0
START_S: Final = 60.0


def missing(options: BrowserOptions) -> str | None:
    """What is missing, and how to install it; None: nothing."""
    if find_spec(options.provider) is None:
        from skitter.extras import install  # slow to import, and rarely needed

        is_extra = options.provider == "playwright"
        how = install("browser") if is_extra else f"pip install {options.provider}"
        return f"{options.provider} is not installed: {how}"
    if options.cdp_url:
        return None
    if options.executable is not None:
        there = os.access(options.executable, os.X_OK)
        return (
            None if there else f"{options.executable} is not a program: correct browser.executable"
        )
    if find_browser() is None:
        return "Chromium was not found: apt-get install chromium, or name one as browser.executable"
    return None


def find_browser() -> str | None:
    """The path of an installed browser."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def check_browser(options: BrowserOptions) -> None:
    """Raises BrowserMissing."""
    if problem := missing(options):
        raise BrowserMissing(problem)


@dataclass(slots=True, eq=False)
class Chromium:
    """A running browser."""

    api: Any  # the library's module
    browser: Any
    _manager: Any
    group: int | None = None  # its process group; None: it runs elsewhere
    born: float = field(default_factory=time.monotonic)
    pages: int = 0  # begun
    contexts: int = 0  # open
    is_retired: bool = False
    _gone: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.browser.on("disconnected", lambda _: self._gone.set())

    @classmethod
    async def start(cls, options: BrowserOptions, *, proxy: str) -> Chromium:
        """Raises BrowserMissing and BrowserFailed."""
        check_browser(options)
        api = import_module(f"{options.provider}.async_api")
        manager = api.async_playwright()
        try:
            async with asyncio.timeout(START_S):
                library = await manager.start()
                if options.cdp_url:
                    browser = await library.chromium.connect_over_cdp(options.cdp_url)
                    return cls(api, browser, manager)
                browser = await _launch(library, options, proxy)
                return cls(api, browser, manager, await _group_of(browser))
        except (api.Error, TimeoutError, OSError) as error:
            await _stop(manager)
            why = redact_text(_first_line(error))
            raise BrowserFailed(f"the browser does not start: {why}") from error
        except BaseException:
            await _stop(manager)
            raise

    @property
    def is_alive(self) -> bool:
        return bool(self.browser.is_connected())

    def is_worn(self, options: BrowserOptions) -> bool:
        """Whether to replace it."""
        old = time.monotonic() - self.born > options.browser_age_s
        limit_mb = options.max_memory_mb
        return (
            self.is_retired
            or old
            or not self.is_alive
            or self.pages >= options.pages_per_browser
            or (limit_mb is not None and memory_mb(self.group) > limit_mb)
        )

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Raises the library's error if the browser dies, as some calls would never return."""
        task, gone = asyncio.ensure_future(work), asyncio.ensure_future(self._gone.wait())
        try:
            await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise self.api.Error("the browser has been closed")
            return task.result()
        finally:
            for one in (task, gone):
                one.cancel()
            await asyncio.gather(task, gone, return_exceptions=True)

    async def close(self) -> None:
        """Close it, down to its last process."""
        with suppress(self.api.Error, TimeoutError):
            async with asyncio.timeout(FAREWELL_S):
                await self.browser.close()
        self.kill()
        await _stop(self._manager)

    def give_up(self) -> None:
        """Kill it. Its pages in flight fail, and are retried in another browser."""
        self.is_retired = True
        self.kill()

    def kill(self) -> None:
        if self.group is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.group, signal.SIGKILL)


async def _launch(library: Any, options: BrowserOptions, proxy: str) -> Any:
    as_root = ["--no-sandbox"] if os.geteuid() == 0 else []
    return await library.chromium.launch(
        executable_path=options.executable or find_browser(),
        args=[*ARGUMENTS, f"--proxy-server={proxy}", *as_root],
        chromium_sandbox=not as_root,
        # Ctrl-C is for us: pages in flight may finish.
        handle_sigint=False,
        handle_sigterm=False,
        handle_sighup=False,
    )


async def _group_of(browser: Any) -> int | None:
    """Its process group, which it leads. Asked of the browser, as the driver does not say."""
    session = await browser.new_browser_cdp_session()
    said = await session.send("SystemInfo.getProcessInfo")
    await session.detach()
    own = next((one["id"] for one in said["processInfo"] if one["type"] == "browser"), None)
    with suppress(ProcessLookupError, TypeError):
        if own and os.getpgid(own) == own:
            return int(own)
    return None


async def _stop(manager: Any) -> None:
    """Stop the driver; kill it if it hangs."""
    client = getattr(manager, "_client", None)
    process = getattr(getattr(client, "_transport", None), "_proc", None)
    with suppress(Exception):
        async with asyncio.timeout(FAREWELL_S):
            await manager.__aexit__(None, None, None)
    if process is not None and process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def memory_mb(group: int | None) -> float:
    """Memory of all processes of a group; 0 where there is no /proc."""
    pages = 0
    for stat in Path("/proc").glob("[0-9]*/stat") if group else ():
        with suppress(OSError):
            fields = stat.read_bytes().rpartition(b")")[2].split()
            if int(fields[2]) == group:
                pages += int(fields[21])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
