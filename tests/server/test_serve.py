"""`skitter serve` as people start it: with an embedded server, its token and its link."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path

import httpx

from skitter.client import Client
from waiting import Child


def test_a_server_is_started_used_and_stopped(short_dir: Path):
    directory = short_dir / "serve"
    words = [sys.executable, "-m", "skitter", "serve", "--port", "0", "--dir", str(directory)]
    environment = {**os.environ, "NO_COLOR": "1"}
    environment.pop("SKITTER_REDIS_URL", None)
    with Child(words, stdout=subprocess.PIPE, text=True, env=environment) as served:
        assert served.stdout
        said = "".join(served.stdout.readline() for _ in range(3))
        url = re.search(r"Serving (\S+/)", said)
        token = re.search(r"skt_\w+", said.replace("-", "_"))
        code = re.search(r"#token=(\S+)", said)
        assert url, said
        assert token, said
        assert code, said
        kept = directory / "http-token"
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600

        with Client(url[1], token=kept.read_text().strip()) as skitter:
            skitter.create("books")
            assert skitter.push("books", ["http://a.test/"]).new == 1
        browser = httpx.post(f"{url[1]}api/login", json={"token": code[1]})
        assert browser.json()["scopes"] == ["operate"]

        served.send_signal(signal.SIGINT)
        assert served.wait() == 0
