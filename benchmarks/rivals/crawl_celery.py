"""Run by benchmarks in Celery's own environment. Not a module of Skitter.

Takes one JSON argument {socket, seed, pages, processes, tuned}, prints one JSON object of figures:
starts a Celery worker on this very file, sends it the first URL, waits until every page is stored.
That worker imports it as its task module.
"""

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

import httpx
import redis
from celery import Celery
from selectolax.lexbor import LexborHTMLParser

SOCKET = os.environ.get("SKITTER_BENCH_SOCKET") or json.loads(sys.argv[1])["socket"]
SEEN, TITLES = "celery:seen", "celery:titles"
START_S = 30

app = Celery("titles", broker=f"redis+socket://{SOCKET}")
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
    (tuned if task["tuned"] else plain).delay(task["seed"])
    while server.llen(TITLES) < task["pages"]:
        time.sleep(0.01)
    return {"pages": server.llen(TITLES), "seconds": time.perf_counter() - started}


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
        json.dump(crawl(task), sys.stdout)
    finally:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()


if __name__ == "__main__":
    main()
