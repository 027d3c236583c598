"""`skitter serve` as people start it: with an embedded server, its token and its link."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import ssl
import stat
import subprocess
from collections import Counter
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from needs import need
from serving import address_of, start
from skitter.cli.dashboard import dashboard
from skitter.client import Client
from skitter.embedded import hold, running
from skitter.frontier.jobs import open_job
from skitter.frontier.records.metrics import record
from skitter.frontier.transport.connection import connect
from skitter.observe.metrics import Batch, Histogram
from skitter.server.application import is_known_host
from skitter.server.serving import Address, listen
from skitter.settings import Settings
from waiting import PATIENCE_S


async def measure(directory: Path, job: str) -> int:
    """As a worker would; returns the process of the embedded server."""
    fetches = Histogram()
    fetches.add(120.0)
    with hold(directory) as embedded:
        async with connect(embedded.url) as server:
            batch = Batch(Counter(pages=30, items=20), {"fetch": fetches})
            await record(await open_job(server, job), batch)
            return int((await server.command("INFO", "server"))["process_id"])


def charts(web: httpx.Client, job: str) -> tuple[dict[str, int], dict[str, set[float]]]:
    """What a week of charts shows: the sums, and the quantiles."""
    query = f"names=pages,items,fetch&since_s={7 * 86_400}"
    said = web.get(f"api/jobs/{job}/history?{query}").json()
    sums = {name: sum(filter(None, points)) for name, points in said["series"].items()}
    quantiles = said["quantiles"]["fetch"].items()
    return sums, {name: set(filter(None, points)) for name, points in quantiles}


def certificate(directory: Path) -> tuple[Path, Path]:
    """For 127.0.0.1, signed by itself; and its key."""
    made, key = directory / "made.pem", directory / "key.pem"
    words = ["req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=here", "-newkey", "ec"]
    words += ["-pkeyopt", "ec_paramgen_curve:prime256v1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(made)]
    subprocess.run([need("openssl"), *words, *files], check=True, capture_output=True)
    return made, key


def test_a_server_is_started_used_and_killed_and_its_charts_are_there_again_over_tls(
    short_dir: Path,
):
    directory = short_dir / "serve"
    with start(directory) as served:
        assert served.stdout
        said = "".join(served.stdout.readline() for _ in range(3))
        url = address_of(said)
        code = re.search(r"#token=(\S+)", said)
        assert not re.search(r"skt_[0-9a-f]{12}", said)  # this may be the log of a service
        assert code, said
        kept = directory / "http-token"
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        token = kept.read_text().strip()

        with Client(url, token=token) as skitter:
            skitter.create("books")
            assert skitter.push("books", ["http://a.test/"]).new == 1
        browser = httpx.post(f"{url}api/login", json={"token": code[1]}, timeout=PATIENCE_S)
        assert browser.json()["scopes"] == ["operate"]
        pid = asyncio.run(measure(directory, "books"))
        headers = {"authorization": f"Bearer {token}"}
        with httpx.Client(base_url=url, headers=headers, timeout=PATIENCE_S) as web:
            before = charts(web, "books")
        assert before[0] == {"pages": 30, "items": 20}
        assert [len(points) for points in before[1].values()] == [1, 1, 1]
        served.kill()
        os.kill(pid, signal.SIGKILL)
        served.wait()

    made, key = certificate(short_dir)
    with start(directory, "--tls-cert", str(made), "--tls-key", str(key)) as served:
        assert served.stdout
        url = address_of("".join(served.stdout.readline() for _ in range(2)))
        trusting = ssl.create_default_context(cafile=made)
        with httpx.Client(
            base_url=url, headers=headers, verify=trusting, timeout=PATIENCE_S
        ) as web:
            assert url.startswith("https:")
            assert charts(web, "books") == before
            del web.headers["authorization"]
            cookie = web.post("api/login", json={"token": token}).headers["set-cookie"]
        assert cookie.endswith("; Secure")

        served.send_signal(signal.SIGINT)
        assert served.wait() == 0


def test_ctrl_c_is_over_when_the_dashboard_beside_a_crawl_has_left_the_server(short_dir: Path):
    """The demo then removes its folder, without which nobody could stop the server any more."""
    where = Settings(directory=short_dir / "beside")

    with suppress(KeyboardInterrupt), dashboard(where, wanted=True):
        assert running(where.directory)
        raise KeyboardInterrupt

    assert running(where.directory) is None


@pytest.mark.parametrize(
    ("address", "name"),
    [
        (Address("127.0.0.1"), "127.0.0.1"),
        (Address("::1"), "[::1]"),
        (Address("0.0.0.0"), "127.0.0.1"),
        (Address("::"), "[::1]"),
        (Address("0.0.0.0", aliases=("Crawl.example", "b.example")), "Crawl.example"),
        (Address("crawl.example"), "crawl.example"),
        (Address("127.0.0.1", aliases=("behind-a-proxy.example",)), "127.0.0.1"),
    ],
)
def test_the_link_is_one_that_a_browser_can_open_and_the_server_answers(address, name):
    with listen(Address()) as listener:
        port = listener.getsockname()[1]
        assert address.url(listener) == f"http://{name}:{port}/"
    assert is_known_host(f"{name}:{port}", address.names)
