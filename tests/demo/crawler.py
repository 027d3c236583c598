"""A crawler of the standard library alone: breadth first, by the rules, nothing twice."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from email.message import Message
from html import unescape
from http.client import IncompleteRead
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urljoin, urlsplit
from urllib.robotparser import RobotFileParser

from waiting import PATIENCE_S

AGENT = "plain/1.0"
TRIES = 4


@dataclass(frozen=True)
class Answer:
    url: str
    status: int
    headers: Message
    body: bytes

    @property
    def text(self) -> str:
        declared = self.headers.get_content_charset() or _declared_inside(self.body) or "utf-8"
        # Browsers take the one for the other (Encoding Standard 4.2).
        return self.body.decode("windows-1252" if declared == "iso-8859-1" else declared)


@dataclass
class Findings:
    items: list[dict[str, Any]] = field(default_factory=list)
    done: set[str] = field(default_factory=set)
    dead: set[str] = field(default_factory=set)
    disallowed: set[str] = field(default_factory=set)
    outside: set[str] = field(default_factory=set)


def crawl(start: str, *, threads: int = 16) -> Findings:
    """Follow every link of a site from its first page on, wave by wave."""
    rules = RobotFileParser()
    rules.parse(fetch(urljoin(start, "/robots.txt")).text.splitlines())
    found, known = Findings(), {canonical(start)}
    wave = [start]
    with ThreadPoolExecutor(threads) as pool:
        while wave:
            fresh: list[str] = []
            for answer in pool.map(fetch_patiently, wave):
                for link in _take(answer, found):
                    if (same := canonical(link)) not in known:
                        known.add(same)
                        fresh.append(link)
            wave = list(_sort_out(fresh, found, rules=rules, home=urlsplit(start).netloc))
    return found


def _take(answer: Answer, found: Findings) -> Iterable[str]:
    """Note what an answer brings; its links."""
    page = canonical(answer.url)
    if 300 <= answer.status < 400:
        target = urljoin(answer.url, answer.headers["Location"])
        (found.dead if canonical(target) == page else found.done).add(page)
        return [target]
    if answer.status != 200:
        found.dead.add(page)
        return []
    found.done.add(page)
    if 'class="product"' in answer.text:
        found.items.append(read_book(answer.text))
    hrefs = re.findall(r'<a\b[^>]*?\bhref="([^"]*)"', answer.text)
    return [urljoin(answer.url, unescape(href)) for href in hrefs]


def _sort_out(
    links: Iterable[str], found: Findings, *, rules: RobotFileParser, home: str
) -> Iterator[str]:
    for link in links:
        if urlsplit(link).netloc.lower() != home:
            found.outside.add(link)
        elif not rules.can_fetch(AGENT, link):
            found.disallowed.add(link)
        else:
            yield link


# --- one page -------------------------------------------------------------------------------------


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an answer: it becomes a link, so that its target is not fetched twice."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler({}))


def fetch(url: str, **headers: str) -> Answer:
    """One exchange. Raises IncompleteRead if the answer is cut off."""
    ascii_url = urllib.parse.quote(url, safe=":/?#[]@!$&'()*+,;=%").partition("#")[0]
    request = urllib.request.Request(ascii_url, headers={"User-Agent": AGENT, **headers})
    try:
        with _opener.open(request, timeout=PATIENCE_S) as answer:
            return Answer(url, answer.status, answer.headers, answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(url, error.code, error.headers, error.read())


def fetch_patiently(url: str) -> Answer:
    """Try again after a 5xx and after a broken connection; this shop forgives without a pause."""
    for _ in range(TRIES):
        try:
            answer = fetch(url)
        except IncompleteRead:
            continue
        if answer.status < 500:
            return answer
    raise AssertionError(f"{url} does not get better")


def canonical(url: str) -> str:
    """What all spellings of an address have in common."""
    parts = urlsplit(url)
    tracking = ("utm_", "gclid", "fbclid")
    query = sorted(p for p in parse_qsl(parts.query) if not p[0].startswith(tracking))
    path = urlsplit(urljoin(url, parts.path)).path  # dots are resolved
    short = f"{parts.scheme}://{parts.netloc.lower()}{urllib.parse.quote(unquote(path))}"
    return f"{short}?{urlencode(query)}" if query else short


def read_book(text: str) -> dict[str, Any]:
    """The item on a book's page, by its markup and nothing of ours."""
    page = text[text.index('class="product"') : text.index('class="related"')]
    price = _inside(page, r'<p class="price">(.*?)</p>')
    return {
        "title": _inside(page, "<h1>(.*?)</h1>"),
        "price": float(price[1:]),
        "currency": {"€": "EUR", "£": "GBP", "$": "USD"}[price[0]],
        "stock": int(_inside(page, r'class="stock.*?(\d+) available', default="0")),
        "rating": int(_inside(page, r'class="rating" value="(\d)"')),
        "category": _inside(page, r'class="category">(.*?)<'),
        "upc": _inside(page, r'class="upc">(.*?)<'),
    }


def _inside(text: str, pattern: str, *, default: str | None = None) -> str:
    found = re.search(pattern, text)
    if not found:
        assert default is not None, pattern
        return default
    return unescape(found[1])


def _declared_inside(body: bytes) -> str | None:
    found = re.search(rb'<meta charset="([^"]+)"', body[:1024])
    return found[1].decode() if found else None
