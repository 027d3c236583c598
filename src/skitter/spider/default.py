"""The spider of `skitter crawl URL...`: title, text, links and status of every page in scope."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skitter.settings import Limits, Politeness
from skitter.spider.scope import Scope
from skitter.spider.spider import Spider

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from selectolax.lexbor import LexborHTMLParser

    from skitter.model import Request
    from skitter.page import Page
    from skitter.spider.items import Item


def default_spider(
    name: str,
    seeds: Iterable[str],
    *,
    scope: Scope | None = None,
    politeness: Politeness | None = None,
    limits: Limits | None = None,
) -> Spider:
    """Follows every link in scope; `limits.max_depth=0` takes the seeds alone."""
    spider = Spider(
        name,
        list(seeds),
        scope=scope or Scope(),
        politeness=politeness or Politeness(),
        limits=limits or Limits(),
    )
    spider.page(describe_page)
    return spider


def describe_page(page: Page) -> Iterator[Item | Request]:
    """The default handler."""
    if not page.is_html:
        text = page.text if page.content_type.startswith("text/") else ""
        yield _describe(page, title=None, text=_collapse(text), links=[])
        return
    title = page.css_first("head title", default=None)
    yield _describe(
        page,
        title=_collapse(title.text()) if title else None,
        text=visible_text(page.tree),
        links=page.links(),
    )
    yield from page.follow_all()


def _describe(page: Page, *, title: str | None, text: str, links: list[str]) -> Item:
    return {
        "url": page.url,
        "title": title,
        "text": text,
        "links": links,
        "status": page.status,
    }


# Text on either side of these runs on; any other element begins a new piece.
_INLINE: Final = (
    "a,abbr,acronym,b,bdi,bdo,big,cite,code,data,del,dfn,em,font,i,ins,kbd,label,mark,nobr,q,rp,rt,"
    "ruby,s,samp,small,span,strike,strong,sub,sup,time,tt,u,var,wbr"
)
_HIDDEN: Final = "head,script,style,noscript,template,svg,iframe,object,canvas"


def visible_text(tree: LexborHTMLParser) -> str:
    """What a reader sees: no scripts, no styles; words of different blocks kept apart."""
    tree = tree.clone()  # the page's own tree is shared
    for node in tree.css(_HIDDEN):
        node.replace_with(" ")
    for node in tree.css(_INLINE):
        node.unwrap()
    tree.merge_text_nodes()
    return _collapse(tree.text(separator=" "))


def _collapse(text: str) -> str:
    return " ".join(text.split())
