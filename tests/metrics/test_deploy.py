"""deploy/: every metric that alerts and the dashboard name is one that `/metrics` has."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from needs import need
from skitter.frontier.admin.exposition import families
from skitter.metrics.prometheus import PREFIX

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
