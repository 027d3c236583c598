"""A session in a browser: it continues what the client began, and the other way round."""

from __future__ import annotations

import pytest

from conftest import rude
from needs import need
from skitter.engine.assembly import open_worker
from skitter.engine.parts import WorkerOptions
from skitter.frontier.jobs import create_job
from skitter.settings import FetchOptions, WorkerConfig
from skitter.spider import Spider
from web import Answer, Asked, serve_web
from worker.members import PASSWORD, Shop

SCRIPT = "<script>document.cookie = 'made=by-script; path=/'; document.title = 'Made'</script>"


@pytest.mark.timeout(300)
async def test_cookies_pass_between_client_and_browser(server, job):
    """The client logs in, the browser renders and adds a cookie, and the client goes on."""
    need("chromium")
    members = Shop(pages=0)

    def shop(asked: Asked) -> Answer:
        answer = members(asked)
        if answer.status == 200 and asked.path == "/":
            cookies = (
                ("set-cookie", "server=1; Path=/"),
                ("set-cookie", "before=; Max-Age=0; Path=/"),
            )
            return Answer(f"{SCRIPT}<a href=/plain>", headers=cookies)
        return answer

    frontier = await create_job(server, job, options=rude())
    async with serve_web(shop) as web:
        url, titles = web.url(host="127.0.0.1"), []
        spider = Spider(job, start=[url])

        @spider.login(web.url("/login", host="127.0.0.1"))
        def login(page):
            return page.form().fill(user="me", password=PASSWORD).submit()

        @spider.page(render=True)
        def rendered(page):
            titles.append(page.css_first("title").text())
            yield page.follow("/plain", plain)

        @spider.page
        def plain(page): ...

        config = WorkerConfig(fetch=FetchOptions(obey_robots=False))
        options = WorkerOptions.of(config, watch_signals=False)
        await frontier.add([seed async for seed in spider.seeds()])
        async with open_worker(frontier, spider, config, options=options) as worker:
            await worker.run()

    assert titles == ["Made"]
    last = next(one for one in web.asked if one.path == "/plain")
    assert last.cookies == {"sid": "s1", "server": "1", "made": "by-script"}
    assert members.seen["/enter"] == 1
    assert (await frontier.stats()).dead == 0
