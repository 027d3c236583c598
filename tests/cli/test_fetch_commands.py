"""One page as a worker sees it, from a web site on loopback."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from needs import need
from skitter.cli.commands.pages.one_page import visit
from skitter.engine.stages import STAGES
from skitter.fetch import FetchOptions
from skitter.settings import Config
from skitter.spider import Spider
from waiting import PATIENCE_S, Child
from web import serve_web
from worker.members import PASSWORD
from worker.members import Shop as Members

HTML = "text/html; charset=utf-8"
PAGES: dict[str, tuple[int, dict[str, str], bytes]] = {
    "/robots.txt": (200, {"content-type": "text/plain"}, b"User-agent: *\nDisallow: /secret\n"),
    "/": (
        200,
        {"content-type": HTML, "x-from": "the shop"},
        "<title> The  Shop </title><script>hidden()</script><h1>Café</h1>"
        "<a href=/book/1>One</a> <a href=/book/2>Two</a> <a href=/secret/plan>Plan</a>"
        " <a href=https://elsewhere.test/>Away</a>".encode(),
    ),
    "/book/1": (200, {"content-type": HTML}, b"<h1>One</h1>"),
    "/made": (200, {"content-type": HTML}, b"<p><script>document.title = 'Made'</script>"),
    "/old": (301, {"location": "/older"}, b""),
    "/older": (302, {"location": "/"}, b""),
    "/loop": (302, {"location": "/loop?again"}, b""),
    "/loop?again": (302, {"location": "/loop"}, b""),
    "/away": (302, {"location": "http://127.0.0.1:1/private"}, b""),
    "/busy": (503, {"retry-after": "120"}, b"busy"),
    "/latin": (200, {"content-type": "text/html; charset=iso-8859-1"}, b"<title>Caf\xe9</title>"),
    "/raw": (200, {"content-type": "application/octet-stream"}, bytes(range(256))),
    "/evil": (200, {"content-type": HTML}, b"<title>\x1b]0;owned\x07</title>"),
}

SPIDER = """
from skitter.spider import Spider

spider = Spider("shop", "{url}")

@spider.page
def listing(page):
    yield {{"title": page.css_first("h1").text()}}
    for link in page.css("a"):
        yield page.follow(link, book, priority=5)

@spider.page
def book(page):
    yield {{"name": page.css_first(".name").text()}}
"""


class Shop(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        status, headers, body = PAGES.get(self.path, (404, {"content-type": HTML}, b"no such page"))
        self.send_response(status)
        for name, value in {**headers, "content-length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(303 if self.path == "/form" else 405)
        self.send_header("location", "/book/1")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def shop() -> Iterator[str]:
    """The address of a small web site, without the slash at its end."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Shop) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def spider(shop: str, tmp_path: Path) -> str:
    path = tmp_path / "shop.py"
    path.write_text(SPIDER.format(url=f"{shop}/"))
    return str(path)


def test_a_form_that_redirects_is_followed_with_get_as_a_worker_does(skitter, shop, tmp_path):
    path = tmp_path / "form.py"
    seed = f'Request(url="{shop}/form", method="POST", body=b"x")'
    path.write_text(
        f"from skitter import Request, Spider\nspider = Spider('form', [{seed}])\n"
        "@spider.page\ndef page(page): yield {'title': page.css_first('h1').text()}\n"
    )

    answer = skitter("fetch", f"{shop}/form", "--spider", str(path))

    assert answer.exit_code == 0, answer.err
    assert "One" in answer.out


# --- fetch ----------------------------------------------------------------------------------------


def test_a_page_is_described(skitter, shop):
    answer = skitter("fetch", f"{shop}/")

    assert answer.exit_code == 0
    shown = dict(re.findall(r"^(\w+) +(.*?) *$", answer.out, re.MULTILINE))
    assert shown["url"] == f"{shop}/"
    assert shown["status"] == "200 OK"
    assert shown["address"] == "127.0.0.1"
    assert re.fullmatch(r"\d+ ms", shown["time"])
    assert shown["size"] == f"{len(PAGES['/'][2])} bytes"
    assert shown["encoding"].lower() == "utf-8"
    assert shown["robots"] == "allowed."
    assert shown["title"] == "The Shop"
    assert shown["links"] == "4"
    assert shown["text"] == "Café One Two Plan Away"
    assert "x-from" not in answer.out


def test_headers_are_shown_when_asked_for(skitter, shop):
    assert "x-from: the shop" in skitter("fetch", f"{shop}/", "--headers").out


def test_each_redirect_is_shown(skitter, shop):
    answer = skitter("fetch", f"{shop}/old")

    assert answer.exit_code == 0
    first, second, last, *_ = answer.out.splitlines()
    assert first.split() == ["redirect", "301", "Moved", "Permanently", f"{shop}/old"]
    assert second.split() == ["302", "Found", f"{shop}/older"]
    assert last.split() == ["url", f"{shop}/"]


def test_programs_get_all_of_it(skitter, shop):
    page = skitter("fetch", f"{shop}/older", "--json").json

    assert [(hop["status"], hop["location"]) for hop in page["hops"]] == [(302, "/"), (200, None)]
    assert page["url"] == f"{shop}/"
    assert page["problem"] is None
    assert page["title"] == "The Shop"
    assert ["x-from", "the shop"] in page["headers"]
    assert page["links"][-1] == "https://elsewhere.test/"
    assert page["size_bytes"] == len(PAGES["/"][2])


def test_the_encoding_is_the_one_that_was_found(skitter, shop):
    page = skitter("fetch", f"{shop}/latin", "--json").json

    assert page["title"] == "Café"
    assert page["encoding"] == "windows-1252"


def test_the_body_comes_as_it_is(shop):
    command = [sys.executable, "-m", "skitter", "fetch", f"{shop}/raw", "--body"]
    done = subprocess.run(command, capture_output=True, check=True)

    assert done.stdout == bytes(range(256))
    assert b"200 OK" in done.stderr


def test_its_main_part_comes_as_markdown_alone(skitter, shop):
    answer = skitter("fetch", "--markdown", f"{shop}/book/1")

    assert (answer.exit_code, answer.out) == (0, "# One\n")
    both = skitter("fetch", "--markdown", "--json", f"{shop}/book/1")
    assert both.exit_code == 2
    assert "--markdown and --json both write to standard output: choose one." in both.err


def test_what_is_no_text_is_not_read_as_text(skitter, shop):
    answer = skitter("fetch", f"{shop}/raw")

    assert answer.exit_code == 0
    assert "256 bytes" in answer.out
    assert "encoding" not in answer.out


def test_a_page_cannot_steer_the_terminal(skitter, shop):
    answer = skitter("fetch", f"{shop}/evil")

    assert "owned" in answer.out
    assert "\x1b" not in answer.out


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/nowhere", "/nowhere: 404 Not Found. A worker would give it up."),
        ("/busy", "/busy: 503 Service Unavailable. A worker would try again in 120 s."),
        ("/loop", "/loop?again: redirect loop: "),
        ("/secret/plan", "robots.txt: disallowed by line 2, `Disallow: /secret`. To look at it"),
        (
            "/away",
            "127.0.0.1 is a loopback address: to fetch it anyway, use --allow-host 127",
        ),
    ],
)
def test_what_a_worker_would_not_complete_is_told_in_a_sentence(skitter, shop, path, says):
    answer = skitter("fetch", f"{shop}{path}")

    assert answer.exit_code == 1
    assert says in answer.err.replace("\n", " ")
    assert "Traceback" not in answer.err


def test_a_page_with_an_error_status_is_shown_all_the_same(skitter, shop):
    assert "no such page" in skitter("fetch", f"{shop}/nowhere").out


def test_a_host_that_is_allowed_is_asked(skitter, shop):
    answer = skitter("fetch", f"{shop}/away", "--allow-host", "127.0.0.1:1")
    assert answer.exit_code == 1
    assert "nothing listens on that port" in answer.err


def test_robots_txt_can_be_ignored(skitter, shop):
    answer = skitter("fetch", f"{shop}/secret/plan", "--ignore-robots")

    assert "404 Not Found." in answer.err
    assert "not asked" in answer.out


def test_nobody_there(skitter):
    for words in ([], ["--ignore-robots"]):
        answer = skitter("fetch", "http://127.0.0.1:1/", *words)
        assert answer.exit_code == 1
        assert "nothing listens on that port" in answer.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nonsense"], "cannot use 'nonsense' as a URL"),
        (["{shop}/", "--body", "--json"], "both write to standard output"),
        (["{shop}/", "--handler", "book"], "name its file with --spider"),
        (["{shop}/", "--spider", "nowhere.py"], "there is no file nowhere.py"),
        (["{shop}/", "--spider", "{spider}", "--handler", "boook"], "has no handler 'boook'"),
    ],
)
def test_a_mistake_is_answered_with_a_sentence(skitter, shop, spider, words, says):
    answer = skitter("fetch", *(word.format(shop=shop, spider=spider) for word in words))

    assert answer.exit_code == 2
    assert says in answer.err


# --- with a spider --------------------------------------------------------------------------------


def test_a_spider_shows_its_items_its_links_and_what_was_refused(skitter, shop, spider):
    answer = skitter("fetch", f"{shop}/", "--spider", spider)

    assert answer.exit_code == 0
    assert re.search(r"items +1\s+- \{\"title\":\"Café\"\}", answer.out)
    assert re.search(rf"would follow +2\s+- {shop}/book/1  book, priority 5", answer.out)
    assert re.search(r"would skip +2\s", answer.out)
    assert "https://elsewhere.test/  host elsewhere.test is neither a seed's" in answer.out
    assert f"{shop}/secret/plan  robots.txt disallows it" in answer.out


def test_programs_get_what_the_handler_found(skitter, shop, spider):
    found = skitter("fetch", f"{shop}/", "--spider", spider, "--json").json["handler"]

    assert found["items"] == [{"title": "Café"}]
    assert [one["url"] for one in found["follow"]] == [f"{shop}/book/1", f"{shop}/book/2"]
    assert [one["url"] for one in found["refused"]] == [
        "https://elsewhere.test/",
        f"{shop}/secret/plan",
    ]


def test_what_a_handler_sends_along_is_shown_without_its_secrets(skitter, shop, tmp_path):
    file = tmp_path / "keys.py"
    file.write_text(
        "from skitter import Spider\n"
        f"spider = Spider('keys', ['{shop}/'])\n"
        "@spider.page\n"
        "def home(page):\n"
        "    key = {'Authorization': 'Bearer hunter2'}\n"
        "    yield page.follow('/book/1', headers=key, meta={'password': 'hunter2'})\n"
    )

    answer = skitter("fetch", f"{shop}/", "--spider", str(file), "--json")

    [follow] = answer.json["handler"]["follow"]
    assert follow["headers"] == {"Authorization": "***"}
    assert "hunter2" not in answer.out


def test_a_handler_that_fails_is_told_by_its_own_line(skitter, shop, spider):
    answer = skitter("fetch", f"{shop}/book/1", "--spider", spider, "--handler", "book")

    assert answer.exit_code == 1
    assert "200 OK" in answer.out
    assert "handler book failed" in answer.err
    assert "shop.py:14" in answer.err
    assert "Traceback" not in answer.err


def test_a_hook_that_fails_is_told_by_its_own_line(skitter, shop, spider):
    with Path(spider).open("a") as file:
        file.write("\n@spider.on_start\ndef begin():\n    raise ValueError('no key')\n")

    answer = skitter("fetch", f"{shop}/", "--spider", spider)

    assert answer.exit_code == 1
    assert "an on_start hook failed: ValueError: no key (" in answer.err
    assert "ValueError: no key" in answer.err


def test_a_redirect_out_of_scope_is_not_followed(skitter, shop, spider):
    answer = skitter("fetch", f"{shop}/away", "--spider", spider)

    assert answer.exit_code == 1
    assert "it redirects out of scope, to http://127.0.0.1:1/private" in answer.err


# --- shell ----------------------------------------------------------------------------------------


def test_what_is_piped_in_is_run_and_expressions_are_shown(skitter, shop, spider):
    program = "for link in page.css('a')[:2]:\n    print(link.text())\npage.status\nspider.name\n"
    answer = skitter("shell", f"{shop}/", "--spider", spider, stdin=program)

    assert answer.exit_code == 0
    assert answer.out == "One\nTwo\n200\n'shop'\n"


def test_a_program_that_fails_is_told_by_its_line(skitter, shop):
    for program, says in (
        ("1\nresponse.nothing\n", "standard input, line 2: AttributeError: "),
        ("page.status\nif\n", "standard input, line 2: SyntaxError: invalid syntax"),
    ):
        answer = skitter("shell", f"{shop}/", stdin=program)
        assert answer.exit_code == 1
        assert says in answer.err
        assert "Traceback" not in answer.err


def test_the_shell_opens_on_an_error_page_too(skitter, shop):
    answer = skitter("shell", f"{shop}/nowhere", stdin="page.status\n")

    assert answer.out == "404\n"
    assert "404 Not Found." in answer.err


def test_there_is_no_shell_without_a_page(skitter, shop):
    answer = skitter("shell", f"{shop}/secret/plan", stdin="print('ran')")

    assert answer.exit_code == 1
    assert "disallowed" in answer.err
    assert answer.out == ""


def test_on_a_terminal_the_shell_is_a_conversation(shop):
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "skitter", "shell", f"{shop}/"]
    with Child(command, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        try:
            read_until(ours, b">>> ")
            os.write(ours, b"page.status + 1000\n")
            read_until(ours, b"1200\r\n>>> ")
            os.write(ours, b"1 / 0\n")
            told = read_until(ours, b"division by zero\r\n>>> ")
            assert told.count(b"Traceback") == 1
            assert b"IPython" not in told
            os.write(ours, b"exit()\n")
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()
            os.close(ours)


def read_until(terminal: int, words: bytes) -> bytes:
    seen = b""
    while words not in seen:
        seen += os.read(terminal, 4096)  # an OSError, if the program has ended
    return seen


def test_a_page_is_shown_as_a_browser_renders_it(skitter, shop) -> None:
    """On uvloop, as in every worker."""
    need("chromium")
    assert not skitter("fetch", f"{shop}/made", "--json").json["title"]
    assert skitter("fetch", f"{shop}/made", "--render", "--json").json["title"] == "Made"
    assert skitter("doctor", "--json").json["browser"].startswith("playwright 1.")


async def test_a_page_is_fetched_with_the_spiders_log_in():
    async with serve_web(Members(pages=1)) as web:
        url = web.url(host="127.0.0.1")
        spider = Spider("members", start=[url])

        @spider.login(web.url("/login", host="127.0.0.1"))
        def login(page):
            return page.form().fill(user="me", password=PASSWORD).submit()

        @spider.page
        def page(page):
            return {"text": page.text[-6:]}

        found = await visit(url, spider, config=Config(fetch=FetchOptions(obey_robots=False)))

    assert found.output is not None
    assert found.output.items == [{"text": "inside"}]
    assert len(found.hops) == 1


def test_a_crawl_that_needs_a_browser_says_at_once_that_there_is_none(
    skitter, spider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = Path(spider)
    file.write_text(file.read_text().replace("@spider.page", "@spider.page(render=True)"))
    monkeypatch.setenv("PATH", str(tmp_path))
    for words in (("run", "--out", str(tmp_path / "out.jsonl")), ("worker", "--only", "browser")):
        found = skitter(words[0], str(file), *words[1:])
        assert found.exit_code == 3
        assert "Chromium was not found: apt-get install chromium" in found.err


def stages_of(text: str) -> dict[str, str]:
    """The lines of one page, by stage."""
    assert all(len(line) <= 80 for line in text.splitlines())
    return dict(line.split(None, 1) for line in text.splitlines())


def test_each_stage_says_what_it_did_with_a_page(skitter, shop, spider):
    good = stages_of(skitter("fetch", f"{shop}/", "--spider", spider, "--stages").out)
    assert list(good) == ["url", *(one.__name__ for one in STAGES)]
    assert good["Robots"] == "allowed"
    assert good["Fetch"].startswith("200 with ")
    assert good["Handler"] == "found 1 item and 4 links"
    assert good["Links"] == "2 links for the frontier"
    assert good["Traps"] == "off: needs a job"

    secret = skitter("fetch", f"{shop}/secret", "--stages")
    assert secret.exit_code == 1
    assert "The visit ended here." in stages_of(secret.out)["Robots"]
    assert stages_of(secret.out)["Fetch"] == "not reached"
    assert "--ignore-robots" in secret.err
    ignored = skitter("fetch", f"{shop}/nothing", "--stages", "--ignore-robots")
    assert stages_of(ignored.out)["Robots"] == "off: needs --obey-robots"
    assert stages_of(ignored.out)["Judge"] == "404 Not Found. The visit ended here."
    first, _, second = skitter("fetch", f"{shop}/old", "--stages").out.partition("\nurl")
    assert stages_of(first)["Judge"] == f"a redirect to {shop}/older. The visit ended here."
    assert second.partition("\n")[0].strip() == f"{shop}/older"


def test_stages_for_programs(skitter, shop):
    answer = json.loads(skitter("fetch", f"{shop}/old", "--stages", "--json").out)

    assert [hop["status"] for hop in answer["hops"]] == [301, 302, 200]
    first, *_, last = ({one["stage"]: one for one in hop["stages"]} for hop in answer["hops"])
    assert (first["Judge"]["ended"], first["Handler"]["hooks"]) == (True, [])
    assert (last["Judge"]["ended"], last["Handler"]["hooks"]) == (False, ["handle"])
    assert "stages" not in json.loads(skitter("fetch", f"{shop}/", "--json").out)["hops"][0]
    assert skitter("fetch", f"{shop}/", "--stages", "--body").exit_code == 2
