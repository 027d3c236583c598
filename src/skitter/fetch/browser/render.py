"""How a page is rendered, and the protocol of renderers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from skitter.errors import BadOption

if TYPE_CHECKING:
    from skitter.fetch.http.fetcher import Leave
    from skitter.model import Request, Response

#: Kinds of subresources, as browsers name them.
KINDS: Final = (
    "eventsource",
    "fetch",
    "font",
    "image",
    "manifest",
    "media",
    "script",
    "stylesheet",
    "texttrack",
    "websocket",
    "xhr",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Render:
    """What a browser does with a page before its handler sees it."""

    #: A CSS selector: the page is ready when it matches. None: when its network is quiet.
    wait_for: str | None = None
    #: JavaScript to run then, one after the other; promises are awaited.
    scripts: tuple[str, ...] = ()
    screenshot: bool = False  # of the whole page, as page.screenshot
    #: Kinds that are not loaded.
    block: tuple[str, ...] = ("image", "font", "media")
    #: Render only pages of a shape whose plain HTML lacks what the handler needs.
    auto: bool = False

    def __post_init__(self) -> None:
        for name in ("scripts", "block"):  # a list is as good
            given = getattr(self, name)
            is_list = isinstance(given, list | tuple) and all(isinstance(i, str) for i in given)
            if not is_list:
                raise BadOption(name, given, "a list of strings")
            object.__setattr__(self, name, tuple(given))
        if unknown := [kind for kind in self.block if kind not in KINDS]:
            raise BadOption("block", unknown[0], f"of {', '.join(KINDS)}")
        if not isinstance(self.wait_for, str | None):
            raise BadOption("wait_for", self.wait_for, "a CSS selector")

    @classmethod
    def of(cls, value: Any) -> Render | None:
        """What `@spider.page(render=...)` takes: True, False, "auto" or a Render."""
        if isinstance(value, cls):
            return value
        if value == "auto":
            return cls(auto=True)
        if isinstance(value, bool):
            return cls() if value else None
        raise BadOption("render", value, 'True, False, "auto" or a skitter.Render')


class Renderer(Protocol):
    """Anything that can render a page."""

    async def render(
        self,
        request: Request,
        how: Render,
        *,
        leave: Leave | None = None,
        proxy: str | None = None,
    ) -> Response:
        """The rendered page after redirects: its final URL with status and headers, and its HTML
        as the body; or a FetchError."""
        ...
