"""A shop for members only, and a spider that is one. As a script: a worker of it, to be killed."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from dataclasses import dataclass, field

from skitter.frontier.jobs import open_job
from skitter.frontier.transport.connection import connect
from skitter.spider import Spider
from web import Answer, Asked, Web

PASSWORD = "hunter2-hunter2"
FORM = (
    "<form method=post action=/enter><input type=hidden name=csrf value=t0ken><input name=user>"
    "<input type=password name=password><button name=go value=1>Log in</button></form>"
)


@dataclass
class Shop:
    """Whoever has no valid cookie is sent to the log-in page."""

    valid: set[str] = field(default_factory=set)
    seen: Counter[str] = field(default_factory=Counter)
    pages: int = 10
    expires_after: int = 10**9  # pages of one log-in

    def __call__(self, asked: Asked) -> Answer:
        self.seen[asked.path] += 1
        if asked.path == "/login":
            return Answer(FORM, headers=(("set-cookie", "before=1; Path=/"),))
        if asked.path == "/enter":
            return self.enter(asked)
        if asked.cookies.get("sid") not in self.valid:
            return Answer(status=302, headers=(("location", f"/login?next={asked.path}"),))
        self.seen[asked.cookies["sid"]] += 1
        if self.seen[asked.cookies["sid"]] >= self.expires_after:
            self.valid.discard(asked.cookies["sid"])
        return Answer("".join(f"<a href=/p{n}>" for n in range(self.pages)) + "inside")

    def enter(self, asked: Asked) -> Answer:
        expected = {"csrf": "t0ken", "user": "me", "password": PASSWORD, "go": "1"}
        if asked.form != expected or asked.cookies.get("before") != "1":
            return Answer("wrong! " + FORM)
        sid = f"s{self.seen['/enter']}"
        self.valid.add(sid)
        return Answer(status=303, headers=(("location", "/"), ("set-cookie", f"sid={sid}; Path=/")))


def member(job: str, web: Web, *, password: str = PASSWORD, **options) -> Spider:
    spider = Spider(job, start=[web.url()], **options)

    @spider.login(web.url("/login"))
    def login(page):
        return page.form().fill(user="me", password=password).submit()

    @spider.page
    def page(page):
        assert "inside" in page.text
        yield {"url": page.url}
        yield from page.follow_all()

    return spider


async def main(server_url: str, job: str, start: str) -> None:
    web = Web(Shop(), port=int(start.rpartition(":")[2].strip("/")))
    async with connect(server_url) as server:
        await web.crawl(await open_job(server, job), member(job, web))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
