"""Spiders that are fed from outside: list, set and zset, URLs and JSON, and nonsense."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from bookshop import fetched_twice
from chaos.servers import Node, running
from needs import need
from skitter.embedded import server_binary

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def shop(open_shop):
    return open_shop(books=60)


def test_messages_of_every_kind_become_requests_and_nonsense_dead_letters(
    shop, make_cluster, until
):
    cluster = make_cluster(shop)
    page = shop.url.rstrip("/")
    node = cluster.run_odd("fed", SCHEDULER_PERSIST=True, MAX_IDLE_TIME_BEFORE_CLOSE=3)
    until(lambda: "scrapy node started" in node.log)

    cluster.push(page + "/?plain")
    full = {
        "url": page + "/?json", "method": "post", "headers": {"X-Test": "yes"}, "body": "text",
        "cookies": {"a": "b"}, "meta": {"color": "red"}, "priority": 5, "dont_filter": False,
    }  # fmt: skip
    cluster.push(json.dumps(full), json.dumps(full))
    cluster.push(json.dumps({"url": page + "/?gone", "name": "Ada"}))
    cluster.push(
        json.dumps({"url": page + "/?cb", "callback": "other", "cb_kwargs": {"number": 7}})
    )
    until(lambda: len(cluster.items()) == 4)
    cluster.push(page + "/?set", kind="set")
    until(lambda: len(cluster.items()) == 5)
    cluster.push(page + "/?zset-1", page + "/?zset-2", kind="zset")
    until(lambda: len(cluster.items()) == 7)
    secret = cluster.folder / "secret"
    secret.write_text("nobody is to see this")
    nonsense = ["not a URL", "[1]", '{"url": 5}', '{"no": "url"}', secret.as_uri(), "data:,x"]
    nonsense += [
        json.dumps({"url": page, "callback": name, "cb_kwargs": {"name": "x"}})
        for name in ("x", "__init__", "setup_redis", "from_crawler", "closed", "_hidden")
    ]
    cluster.push(*nonsense)
    cluster.push(page + "/?plain", page + "/?plain")
    until(lambda: len(cluster.items()) == 9)

    assert node.finish() == "finished"
    made = {one["upc"].rpartition("?")[2]: one for one in cluster.items()}
    assert made["json"] == {
        "upc": page + "/?json", "method": "POST", "header": "yes", "cookie": "a=b", "body": "text",
        "meta": "red", "priority": 5,
    }  # fmt: skip
    assert "name=Ada" in made
    assert made["other"]["number"] == 7
    assert sorted(cluster.dead()) == sorted(f"feed:{one}" for one in nonsense)
    assert shop.pages().count("/?plain") == 3, "what is fed is not filtered"
    assert "a feed may only name http and https addresses" in cluster.dead()["feed:data:,x"]
    cluster.assert_accounted_for()


def test_a_feed_does_not_choose_the_proxy(shop, make_cluster):
    cluster = make_cluster(shop)
    cluster.push(json.dumps({"url": shop.url, "meta": {"proxy": "http://10.0.0.1:6379"}}))

    node = cluster.run_odd("fed", MAX_IDLE_TIME_BEFORE_CLOSE=1)

    assert node.finish() == "finished"
    assert cluster.items() == []
    [reason] = cluster.dead().values()
    assert "a feed may not choose the proxy" in reason


def test_a_scheme_that_the_operator_allowed_may_be_fed(shop, make_cluster):
    cluster = make_cluster(shop)
    cluster.push("data:,hello")

    node = cluster.run_odd("fed", MAX_IDLE_TIME_BEFORE_CLOSE=1, SKITTER_FEED_SCHEMES="https,data")

    assert node.finish() == "finished"
    assert [one["upc"] for one in cluster.items()] == ["data:,hello"]


def test_a_key_that_is_no_feed_is_named_once_and_a_large_batch_is_read_in_parts(
    shop, make_cluster, until
):
    cluster = make_cluster(shop)
    key = f"{cluster.job}:start_urls"
    cluster.command("HSET", key, "a", "b")
    node = cluster.run_odd("fed", REDIS_START_URLS_BATCH_SIZE=5000)
    until(lambda: f"{key} is a hash" in node.log)

    cluster.command("DEL", key)
    cluster.push(*(f"{shop.url}?{n}" for n in range(30)))
    until(lambda: len(cluster.items()) == 30)
    node.interrupt()

    assert node.finish() == "shutdown"
    assert node.log.count(f"{key} is a hash") == 1


def test_two_nodes_with_rules_are_fed_one_address_and_bring_every_book_once(
    shop, make_cluster, until
):
    cluster = make_cluster(shop)
    idle = {"MAX_IDLE_TIME_BEFORE_CLOSE": 2}
    nodes = [cluster.start("crawl", "ruled", **idle) for _ in range(2)]
    until(lambda: all("scrapy node started" in node.log for node in nodes))

    cluster.push(shop.url)

    assert [node.finish() for node in nodes] == ["finished", "finished"]
    cluster.assert_complete()
    # As in Scrapy: what is fed is not filtered, so a link back to it is another request.
    assert fetched_twice(shop.log()) == ["/"]


QUEUED = """
from skitter.scrapy import RedisSpider


class Queued(RedisSpider):
    name = "queued"
    redis_key = ["{job}:high", "{job}:low"]
    custom_settings = {{"ROBOTSTXT_OBEY": False}}

    def parse(self, response):
        pass
"""


def test_later_messages_overtake_those_that_wait_by_score_and_by_key(
    open_shop, make_cluster, until
):
    shop = open_shop(books=50, latency_s=0.1)
    cluster = make_cluster(shop)
    high, low = f"{cluster.job}:high", f"{cluster.job}:low"
    file = cluster.folder / "queued.py"
    file.write_text(QUEUED.format(job=cluster.job))
    many = [part for n in range(300) for part in (1, f"{shop.url}?{n}")]
    cluster.command("ZADD", low, *many)
    few = {"CONCURRENT_REQUESTS": 4, "MAX_IDLE_TIME_BEFORE_CLOSE": 2}
    nodes = [cluster.start("runspider", str(file), **few) for _ in range(2)]

    until(lambda: len(shop.log()) > 20)
    begun = len(shop.log())
    waiting = cluster.command("ZCARD", low)
    cluster.command("ZADD", low, 9, f"{shop.url}?urgent")
    cluster.command("LPUSH", high, f"{shop.url}?first")
    assert [node.finish() for node in nodes] == ["finished", "finished"]

    pages = shop.pages()
    assert sorted(pages) == sorted([f"/?{n}" for n in range(300)] + ["/?urgent", "/?first"])
    # A node holds two batches of 4 of its own, and 4 and 4 leases; the rest is in the key.
    assert 300 - waiting - begun < 60
    assert max(pages.index("/?urgent"), pages.index("/?first")) < begun + 80
    cluster.assert_accounted_for()


TUTORIAL = {
    "scrapy.cfg": "[settings]\ndefault = shop.settings\n",
    "shop/__init__.py": "",
    "shop/settings.py": """
SCHEDULER = "skitter.scrapy.Scheduler"
DUPEFILTER_CLASS = "skitter.scrapy.RFPDupeFilter"
ITEM_PIPELINES = {{"skitter.scrapy.RedisPipeline": 300}}
REDIS_URL = "redis://localhost:{port}"
REDIS_DB = 2
REDIS_PARAMS = {{"password": "secret"}}
SKITTER_ALLOW_HOSTS = "localhost"
""",
    "fed.py": """
from skitter.scrapy import RedisSpider


class Fed(RedisSpider):
    name = "fed"

    def parse(self, response):
        yield {{"url": response.url}}
""",
}


@contextmanager
def tutorial(folder, until, nodes=1):
    """A server with a password, and nodes of the project that wait for messages."""
    server = Node(server_binary(), folder / "server", requirepass="secret")
    for name, text in TUTORIAL.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text.format(port=server.port))
    ours = {name: value for name, value in os.environ.items() if "SKITTER" not in name}
    scrapy = [sys.executable, "-m", "scrapy", "runspider", "fed.py"]
    with running([server]), (folder / "log").open("a") as log:
        until(server.answers)
        started = [subprocess.Popen(scrapy, cwd=folder, stderr=log, env=ours) for _ in range(nodes)]
        try:
            until(lambda: (folder / "log").read_text().count("scrapy node started") == nodes)
            yield server
        finally:
            for node in started:
                node.kill()
                node.wait()


def test_the_lines_of_the_tutorial(shop, tmp_path, until):
    """A password and a database in settings.py, `redis-cli lpush`, `scrapy runspider`."""

    def redis_cli(*words: str) -> str:
        login = ["-p", str(server.port), "-a", "secret", "--no-auth-warning", "-n", "2"]
        words = (need("redis-cli"), *login, *words)
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout

    with tutorial(tmp_path, until) as server:
        pushed_at = time.monotonic()
        redis_cli("lpush", "fed:start_urls", f"{shop.url}?tutorial")
        until(lambda: "/?tutorial" in shop.pages())
        took_s = time.monotonic() - pushed_at
        until(lambda: redis_cli("llen", "fed:items").strip() == "1")

    assert took_s < 20, "a fifth of a second on an idle machine, two seconds with scrapy-redis"


@pytest.mark.chaos
def test_nodes_that_wait_for_messages_leave_the_server_alone(tmp_path, until):
    with tutorial(tmp_path, until, nodes=3) as server:
        time.sleep(45)  # they ask ever more rarely
        before, at = server.ask("INFO", "stats")["total_commands_processed"], time.monotonic()
        time.sleep(20)
        after, seconds = (
            server.ask("INFO", "stats")["total_commands_processed"],
            time.monotonic() - at,
        )

    assert (after - before) / seconds / 3 < 20, "commands of scripts count too"
