"""The shop's answers: the page combined with the behaviour of its path. Pure but for a cache: a
page is rendered once."""

from __future__ import annotations

import gzip
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from skitter.demo.site.addresses import page_of
from skitter.demo.site.behaviour import Behaviour, behave, write_scripts
from skitter.demo.site.http1 import Answer
from skitter.demo.site.pages import Pages, sorry
from skitter.demo.site.special import Members, Rare

if TYPE_CHECKING:
    from skitter.demo.site.catalogue import Catalogue
    from skitter.demo.site.http1 import Head

_TYPES: Final = {
    "/robots.txt": "text/plain; charset=utf-8",
    "/sitemap.xml": "application/xml; charset=utf-8",
}


class Answers:
    """Decides every answer. Only `counts` changes: how often each path was requested."""

    def __init__(self, catalogue: Catalogue, *, origin: str, latency_s: float = 0.0) -> None:
        self._pages = Pages(catalogue, origin)
        self._members, self._rare = Members(catalogue), Rare(catalogue)
        self._scripts = write_scripts(catalogue)
        self._latency_s = latency_s
        self._known = {*self._pages.addresses(), *self._scripts}
        self._made: dict[tuple[str, Behaviour, bool], Answer] = {}
        self._counts: dict[str, int] = {}

    def answer(self, head: Head) -> Answer:
        """The answer to a request; a GET of a page that misbehaves changes the next one."""
        method, takes_gzip = head.method, head.fields.takes_gzip
        if answer := self._rare.answer(head):
            return answer
        page = page_of(head.target)
        path = page.partition("?")[0]
        if answer := self._members.answer(method, path, head.fields, head.body):
            return replace(answer, delay_s=self._latency_s)
        if method not in ("GET", "HEAD"):
            return self._refuse_method()
        asked_before = self._counts.get(path, 0)
        if path in self._scripts and method == "GET":
            self._counts[path] = asked_before + 1
        behaviour = behave(self._scripts, path, asked_before)
        key = (page, behaviour, takes_gzip)
        made = self._made.get(key)
        if made is None:
            made = self._make(page, behaviour, takes_gzip=takes_gzip)
            if page in self._known:  # the others are endless
                self._made[key] = made
        return made

    def _make(self, page: str, behaviour: Behaviour, *, takes_gzip: bool) -> Answer:
        status, text = self._content(page, behaviour)
        body = text.encode(behaviour.encoding, errors="xmlcharrefreplace")
        fields = {"Content-Type": _TYPES.get(page, behaviour.content_type)}
        if behaviour.retry_after_s is not None:
            fields["Retry-After"] = str(behaviour.retry_after_s)
        if behaviour.location is not None:
            fields["Location"] = behaviour.location
        if behaviour.gzip:
            fields["Vary"] = "Accept-Encoding"
            if takes_gzip:
                fields["Content-Encoding"] = "gzip"
                body = gzip.compress(body, mtime=0)
        return Answer(
            status=status,
            fields=tuple(fields.items()),
            body=body,
            delay_s=behaviour.delay_s + self._latency_s,
            cut=behaviour.cut,
        )

    def _content(self, page: str, behaviour: Behaviour) -> tuple[int, str]:
        if behaviour.status != 200:
            return behaviour.status, sorry(behaviour.status)
        text = self._pages.body(page, encoding=behaviour.encoding)
        return (200, text) if text is not None else (404, sorry(404))

    def _refuse_method(self) -> Answer:
        fields = (("Content-Type", "text/plain"), ("Allow", "GET, HEAD"))
        refusal = Answer(status=405, fields=fields, body=b"Only GET and HEAD.\n")
        return replace(refusal, delay_s=self._latency_s)
