"""deploy/: every metric that alerts and the dashboard name is one that `/metrics` has."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import yaml  # type: ignore[import-untyped]

from chaos.rig import PrivateServer
from needs import need
from serving import address_of, start
from skitter.frontier.records.exposition import PREFIX, families
from skitter.frontier.records.operators import new_token
from skitter.frontier.transport.connection import connect
from waiting import Child, until

DEPLOY = Path(__file__).parents[2] / "deploy"
FILES = [DEPLOY / "prometheus" / "skitter-alerts.yml", DEPLOY / "grafana" / "skitter.json"]


def exposed() -> set[str]:
    names = {PREFIX + one.name for one in families([]) if one.kind != "histogram"}
    for one in families([]):
        if one.kind == "histogram":
            names |= {f"{PREFIX}{one.name}{suffix}" for suffix in ("_bucket", "_sum", "_count")}
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_metric_that_is_named_exists(path):
    text = path.read_text()
    named = set(re.findall(rf"\b{PREFIX}[a-z_]+", text))

    assert named
    assert named <= exposed()


def test_the_dashboard_is_one_that_grafana_imports():
    found = json.loads(FILES[1].read_text())

    assert found["title"] == "Skitter"
    assert len({one["id"] for one in found["panels"]}) == len(found["panels"]) > 8
    assert all(target["expr"] for one in found["panels"] for target in one["targets"])


def test_promtool_takes_the_rules_and_the_configuration():
    promtool = need("promtool")
    for words in (
        ["check", "rules", str(FILES[0])],
        ["check", "config", "--syntax-only", str(DEPLOY / "prometheus" / "prometheus.yml")],
    ):
        checked = subprocess.run([promtool, *words], capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_every_alert_fires_for_its_fault_and_for_no_other():
    faults = DEPLOY / "prometheus" / "skitter-alerts.test.yml"
    words = [need("promtool"), "test", "rules", str(faults)]
    tested = subprocess.run(words, capture_output=True, text=True, check=False)
    assert tested.returncode == 0, tested.stdout + tested.stderr

    alerts = re.findall(r"- alert: (\w+)", FILES[0].read_text())
    told = set(re.findall(r'alertname="(\w+)"', faults.read_text()))
    assert len(alerts) > 10
    assert told == set(alerts)


@pytest.mark.chaos
def test_a_dead_server_is_an_alert_of_a_real_prometheus(short_dir: Path):
    """`skitter serve` and Prometheus as people run them; only the waits are shorter."""
    prometheus, home = need("prometheus"), short_dir / "prometheus"
    home.mkdir()
    private = PrivateServer()
    private.start()
    with start(short_dir / "serve", "--redis", private.url) as served, free_port() as port:
        assert served.stdout
        url = address_of("".join(served.stdout.readline() for _ in range(3)))
        token = asyncio.run(token_on(private.url))
        settings = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
        settings["global"] = {"evaluation_interval": "1s"}
        [scrape] = settings["scrape_configs"]
        scrape |= {"scrape_interval": "1s", "authorization": {"credentials": token}}
        scrape["static_configs"] = [{"targets": [url.split("/")[2]]}]
        (home / "prometheus.yml").write_text(yaml.safe_dump(settings))
        rules = re.sub(r"for: \w+", "for: 0s", FILES[0].read_text())
        (home / "skitter-alerts.yml").write_text(rules)
        words = [f"--config.file={home}/prometheus.yml", f"--storage.tsdb.path={home}/data"]
        words.append(f"--web.listen-address=127.0.0.1:{port}")

        def firing() -> set[str]:
            try:
                said = httpx.get(f"http://127.0.0.1:{port}/api/v1/alerts").json()["data"]["alerts"]
            except (httpx.TransportError, ValueError, KeyError):
                return set()
            return {one["labels"]["alertname"] for one in said if one["state"] == "firing"}

        def is_up() -> bool:
            query = {"query": "skitter_server_up"}
            try:
                said = httpx.get(f"http://127.0.0.1:{port}/api/v1/query", params=query).json()
            except (httpx.TransportError, ValueError):
                return False
            return [one["value"][1] for one in said["data"]["result"]] == ["1"]

        with Child([prometheus, *words], stderr=subprocess.DEVNULL) as watching:
            until(is_up)
            assert firing() == set()
            private.kill()
            until(lambda: firing() == {"SkitterServerAway"})
            private.start()
            until(lambda: firing() == set())
            served.terminate()
            until(lambda: firing() == {"SkitterDown"})
            watching.terminate()
    private.close()


async def token_on(url: str) -> str:
    async with connect(url) as server:
        return await new_token(server, name="prometheus", scopes=["read"])


@contextmanager
def free_port() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    yield port
