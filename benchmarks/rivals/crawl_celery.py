"""Run by benchmarks in Celery's own environment. Not a module of Skitter.

Takes one JSON argument {socket, seed, pages, processes, way}, prints one JSON object of figures:
starts a Celery worker on this very file, which imports it as its task module; sends it the first
URL (ways "plain" and "tuned": a crawl), or all URLs (ways "record" and "batch"); waits until every
page, or every result, is stored.
"""

import asyncio
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from urllib.parse import urljoin

import aiohttp
import httpx
import redis
from celery import Celery
from selectolax.lexbor import LexborHTMLParser

SOCKET = os.environ.get("SKITTER_BENCH_SOCKET") or json.loads(sys.argv[1])["socket"]
SEEN, TITLES = "celery:seen", "celery:titles"
START_S = 30
BATCH, AT_ONCE = 100, 64
RESULTS_DB = 1

app = Celery(
    "titles",
    broker=f"redis+socket://{SOCKET}",
    backend=f"redis+socket://{SOCKET}?virtual_host={RESULTS_DB}",
)
app.conf.update(task_ignore_result=True, worker_hijack_root_logger=False)


@app.task(name="plain")
def plain(url):
    """As most people would write it: httpx.get, a SADD per link."""
    tree = LexborHTMLParser(httpx.get(url).text)
    server = connect()
    for link in links_of(url, tree):
        if server.sadd(SEEN, link):
            plain.delay(link)
    server.rpush(TITLES, tree.css_first("title").text())


@app.task(name="tuned")
def tuned(url):
    """With one client per process, which keeps its connection, and one round trip for all links."""
    tree = LexborHTMLParser(http_client().get(url).text)
    links = links_of(url, tree)
    pipe = connect().pipeline(transaction=False)
    for link in links:
        pipe.sadd(SEEN, link)
    pipe.rpush(TITLES, tree.css_first("title").text())
    for link, is_new in zip(links, pipe.execute()[:-1], strict=True):
        if is_new:
            tuned.delay(link)


@app.task(name="record", ignore_result=False)
def record(url):
    """One page as its result, with a client that keeps its connection."""
    response = http_client().get(url)
    return record_of(url, response.text, response.status_code)


def record_of(url, text, status):
    tree = LexborHTMLParser(text)
    return {
        "url": url,
        "title": tree.css_first("title").text(),
        "text": tree.body.text(separator=" ", strip=True),
        "links": links_of(url, tree),
        "status": status,
    }


@app.task(name="batch")
def batch(urls):
    """The same record, batched by hand: one message for many pages, fetched at once by one event
    loop."""
    records = asyncio.run(fetch_all(urls))
    connect().rpush(TITLES, *map(json.dumps, records))


async def fetch_all(urls):
    limit = asyncio.Semaphore(AT_ONCE)
    async with aiohttp.ClientSession() as session:

        async def fetch(url):
            async with limit, session.get(url) as response:
                return record_of(url, await response.text(), response.status)

        return await asyncio.gather(*map(fetch, urls))


def links_of(url, tree):
    hrefs = (node.attributes["href"] for node in tree.css("a[href]"))
    return list(dict.fromkeys(urljoin(url, href) for href in hrefs))


@cache
def connect():
    return redis.Redis(unix_socket_path=SOCKET)


@cache
def http_client():
    return httpx.Client(trust_env=False)


def crawl(task):
    server = connect()
    server.sadd(SEEN, task["seed"])
    started = time.perf_counter()
    {"plain": plain, "tuned": tuned}[task["way"]].delay(task["seed"])
    while server.llen(TITLES) < task["pages"]:
        time.sleep(0.01)
    return {"pages": server.llen(TITLES), "seconds": time.perf_counter() - started}


def fetch_listed(task, worker):
    server, results = connect(), redis.Redis(unix_socket_path=SOCKET, db=RESULTS_DB)
    urls = [urljoin(task["seed"], f"{number}.html") for number in range(task["pages"])]
    used_before_s, started = cpu_s(worker.pid), time.perf_counter()
    if task["way"] == "record":
        for url in urls:
            record.delay(url)
    else:
        for first in range(0, len(urls), BATCH):
            batch.delay(urls[first : first + BATCH])
    while (pages := server.llen(TITLES) + results.dbsize()) < len(urls):
        time.sleep(0.01)
    seconds = time.perf_counter() - started
    used_s = cpu_s(worker.pid) - used_before_s
    return {"pages": pages, "seconds": seconds, "cpu_s": used_s}


def cpu_s(worker):
    """The CPU time of this process, of the worker and of its pool: proc(5)."""
    children = Path(f"/proc/{worker}/task/{worker}/children").read_text().split()
    used = time.process_time()
    for pid in (worker, *children):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
        used += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return used


def die_with_parent():
    """On Linux the worker and its pool end (SIGQUIT: a cold shutdown) even if we are killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGQUIT)  # PR_SET_PDEATHSIG


def main():
    task = json.loads(sys.argv[1])
    here = Path(__file__)
    words = [sys.executable, "-m", "celery", "-A", here.stem, "worker", "--pool", "prefork"]
    words += ["--concurrency", str(task["processes"]), "--loglevel", "ERROR"]
    words += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    worker = subprocess.Popen(
        words,
        cwd=here.parent,
        env=os.environ | {"SKITTER_BENCH_SOCKET": SOCKET, "PYTHONPATH": str(here.parent)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=die_with_parent,
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        deadline = time.monotonic() + START_S
        while not app.control.ping(timeout=0.5):
            if worker.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the Celery worker did not start")
        is_crawl = task["way"] in ("plain", "tuned")
        json.dump(crawl(task) if is_crawl else fetch_listed(task, worker), sys.stdout)
    finally:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()


if __name__ == "__main__":
    main()
