"""What deploy/ says can be read by those whom it is for, and asks for nothing that is not there."""

from __future__ import annotations

import configparser
import os
import re
import subprocess
from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from redis import AuthenticationError, Redis

from needs import need
from skitter.cli.menu import Menu
from skitter.embedded import server_binary
from skitter.errors import HELD, InfrastructureError, UsageError
from skitter.settings.sources import OPTIONS
from waiting import Child, until

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
SUBSTITUTES = {"${SPIDER:-books}": "books", "%i": "books"}


def documents(file: Path) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(file.read_text()) if one]


def compose() -> dict[str, Any]:
    return documents(DEPLOY / "compose.yaml")[0]


def resources() -> list[dict[str, Any]]:
    return [one for file in MANIFESTS for one in documents(file)]


def pods() -> dict[str, dict[str, Any]]:
    found = {
        one["metadata"]["name"]: one["spec"].get("template") for one in resources() if "spec" in one
    }
    return {name: template["spec"] for name, template in found.items() if template}


def unit(file: Path) -> configparser.ConfigParser:
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(file.read_text())
    return parser  # type: ignore[return-value]


def lines_of(file: Path) -> list[tuple[str, str]]:
    """All lines, as a name may occur twice."""
    return re.findall(r"(?m)^(\w+)=(.*)$", file.read_text())


def command_lines() -> list[list[str]]:
    """Every `skitter ...` of these files, without the program."""
    services = compose()["services"].values()
    lines = [one["command"] for one in services if one["image"] == "skitter"]
    containers = [one for pod in pods().values() for one in pod["containers"]]
    lines += [one["args"] for one in containers if one["image"] == "skitter"]
    starts = [unit(file)["Service"]["ExecStart"].split() for file in UNITS]
    lines += [words[1:] for words in starts]
    return [[replaced(word) for word in line] for line in lines]


def replaced(word: str) -> str:
    for mark, text in SUBSTITUTES.items():
        word = word.replace(mark, text)
    return word


@pytest.mark.parametrize("line", command_lines(), ids=" ".join)
def test_every_command_is_one_that_skitter_takes(line):
    command: Any = Menu().get_command(None, line[0])

    command.make_context(line[0], line[1:])  # raises what a user would be told


def test_there_is_something_to_check():
    assert len(command_lines()) == 11


def test_services_name_what_the_file_has():
    found = compose()
    services, volumes = found["services"], found["volumes"]

    assert {"valkey", "postgres", "worker", "loader", "dashboard"} <= services.keys()
    for service in services.values():
        assert service.get("depends_on", {}).keys() <= services.keys()
        named = [one.partition(":")[0] for one in service.get("volumes", ())]
        assert {one for one in named if not one.startswith(".")} <= volumes.keys()
        files = [one for one in named if one.startswith(".") and one != "./spiders"]
        assert all((DEPLOY / one).is_file() for one in files)


def test_variables_are_those_that_skitter_reads():
    known = {*(one.variable for one in OPTIONS.values()), "SKITTER_PASSWORD"}
    files = [file for file in DEPLOY.rglob("*") if file.is_file()]
    named = {name for file in files for name in re.findall(r"\bSKITTER_[A-Z_]+", file.read_text())}

    assert named <= known


def test_no_container_has_rights_that_it_does_not_need():
    for name, pod in pods().items():
        assert pod["securityContext"]["runAsNonRoot"], name
        for container in pod["containers"]:
            rights = container["securityContext"]
            assert rights["capabilities"] == {"drop": ["ALL"]}
            assert (rights["readOnlyRootFilesystem"], rights["allowPrivilegeEscalation"]) == (
                True,
                False,
            )
            mounts = {one["name"] for one in container["volumeMounts"]}
            claims = {"data"} if name == "valkey" else set()
            assert mounts == {one["name"] for one in pod["volumes"]} | claims


def test_no_container_of_compose_has_rights_that_it_does_not_need():
    for name, service in compose()["services"].items():
        assert service["cap_drop"] == ["ALL"], name
        assert (service["read_only"], "/tmp" in service["tmpfs"]) == (True, True), name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["mem_limit"], name
        assert service["image"] == "skitter" or service["user"] == "999", name


def words_of_processes() -> Iterator[str]:
    """All that becomes an argument of a process, where `ps` shows it."""
    for service in compose()["services"].values():
        yield from (*service.get("command", ()), *service.get("entrypoint", ()))
        yield from service.get("healthcheck", {}).get("test", ())
    for container in (one for pod in pods().values() for one in pod["containers"]):
        yield from (*container.get("command", ()), *container.get("args", ()))
    for file in UNITS:
        yield from (value for name, value in unit(file)["Service"].items() if "Exec" in name)


def test_no_secret_is_an_argument():
    """`$$NAME` of compose and `$NAME` of a shell are read by the shell itself, from its
    environment; `${NAME}` of compose and systemd and `$(NAME)` of Kubernetes become arguments."""
    put_in = [re.findall(r"(?<!\$)\$[{(](\w+)", word) for word in words_of_processes()]

    assert {name for names in put_in for name in names} <= {"SPIDER"}
    assert "requirepass" not in " ".join(words_of_processes()).replace('echo "requirepass ', "")


@pytest.mark.parametrize("file", ["compose.yaml", "kubernetes/valkey.yaml"])
def test_the_server_gets_its_password_in_a_file_that_only_it_can_read(file, tmp_path):
    """The line is run, with a server that stands in for the one of the image."""
    if file == "compose.yaml":
        [line] = compose()["services"]["valkey"]["command"]
        line = line.replace("$$", "$")
    else:
        [line] = pods()["valkey"]["containers"][0]["args"]
    (tmp_path / "valkey.conf").write_text((DEPLOY / "valkey.conf").read_text() + "port 0\n")
    socket = tmp_path / "valkey.sock"
    with (tmp_path / "valkey.conf").open("a") as more:
        more.write(f"unixsocket {socket}\ndir {tmp_path}\n")
    for name in ("/etc/valkey/valkey.conf", "/etc/valkey.conf"):
        line = line.replace(name, str(tmp_path / "valkey.conf"))
    line = line.replace("/tmp/valkey.conf", str(written := tmp_path / "made.conf"))
    line = line.replace("exec valkey-server", f"exec {server_binary()}")
    short = os.path.relpath(socket) if len(str(socket)) > 100 else str(socket)

    words = [need("bash"), "-c", line]
    with Child[bytes](words, env={"REDISCLI_AUTH": "secret1"}, stdout=subprocess.DEVNULL) as server:
        until(socket.exists)
        shown = Path(f"/proc/{server.pid}/cmdline").read_bytes()
        with Redis(unix_socket_path=short, password="secret1") as client:
            facts = client.config_get("maxmemory*")
        with Redis(unix_socket_path=short) as stranger, pytest.raises(AuthenticationError):
            stranger.ping()
        server.terminate()

    assert b"secret1" not in shown
    assert written.stat().st_mode & 0o777 == 0o600
    assert (facts["maxmemory"], facts["maxmemory-policy"]) == (str(3 * 2**30), "noeviction")


def test_pods_that_may_hang_are_restarted_and_a_server_that_is_away_restarts_nobody():
    for name in ("valkey", "dashboard"):
        [container] = pods()[name]["containers"]
        assert container["livenessProbe"]["failureThreshold"] >= 3
    assert "healthz" not in str(container["livenessProbe"])


def test_the_network_is_closed_but_for_what_each_pod_needs():
    found = {
        one["metadata"]["name"]: one["spec"] for one in resources() if "Network" in one["kind"]
    }
    closed = found["skitter-nothing"]
    [chosen] = closed["podSelector"]["matchExpressions"]

    assert {*chosen["values"]} == pods().keys()
    assert {*closed["policyTypes"]} == {"Ingress", "Egress"}
    assert not closed.keys() & {"ingress", "egress"}
    [web] = found["skitter-web"]["egress"]
    blocks = [one["ipBlock"] for one in web["to"]]
    private = [ip_network(each) for block in blocks for each in block["except"]]
    inside = ["10.1.2.3", "169.254.169.254", "192.168.0.1", "172.31.0.1", "100.64.0.1", "127.0.0.1"]
    inside += [f"64:ff9b::{address}" for address in inside]
    for address in (*inside, "fd00::1", "::1", "fe80::1"):
        assert any(ip_address(address) in one for one in private), address
    for address in ("8.8.8.8", "64:ff9b::8.8.8.8", "2606:4700::1111"):
        assert not any(ip_address(address) in one for one in private), address


def test_labels_lead_to_pods():
    labels = {pod_name: {"app": pod_name} for pod_name in pods()}
    for one in resources():
        if one["kind"] == "Service":
            assert one["spec"]["selector"] in labels.values()
        if one["kind"] in ("Deployment", "StatefulSet"):
            assert (
                one["spec"]["selector"]["matchLabels"]
                == one["spec"]["template"]["metadata"]["labels"]
            )


def test_the_kustomization_has_every_manifest():
    (found,) = documents(DEPLOY / "kubernetes" / "kustomization.yaml")

    listed = {*found["resources"], "kustomization.yaml"}
    assert listed == {file.name for file in MANIFESTS}
    assert (DEPLOY / "kubernetes/valkey.conf").read_text() == (DEPLOY / "valkey.conf").read_text()


def test_scaling_asks_for_what_the_api_answers():
    from skitter.crawl.watch import Overview
    from skitter.server.api.routes import ROUTES

    (scaled,) = [one for one in resources() if one["kind"] == "ScaledObject"]
    (trigger,) = scaled["spec"]["triggers"]
    asked = trigger["metadata"]

    assert scaled["spec"]["scaleTargetRef"]["name"] in pods()
    assert "/api/jobs/{job}" in {route.path for route in ROUTES}
    assert re.fullmatch(r"http://dashboard:8765/api/jobs/\w+", asked["url"])
    assert asked["valueLocation"] in Overview.__struct_encode_fields__


@pytest.mark.parametrize("file", UNITS, ids=lambda file: file.name)
def test_units_run_with_few_rights_and_stop_in_time(file):
    service = unit(file)["Service"]

    assert service["DynamicUser"] == service["NoNewPrivileges"] == "yes"
    assert service["EnvironmentFile"] == "/etc/skitter/env"
    assert float(service["TimeoutStopSec"]) >= 20
    assert service["ProtectProc"] == "invisible"
    assert service["IPAddressDeny"].split() == ["link-local", "multicast"]  # a cloud's metadata
    assert service["MemoryMax"]
    places = [value for name, value in lines_of(file) if name == "Environment"]
    assert f"SKITTER_DIR={service['WorkingDirectory']}/.skitter" in places


@pytest.mark.parametrize("file", UNITS, ids=lambda file: file.name)
def test_systemd_understands_the_units(file, tmp_path):
    copy = tmp_path / file.name.replace("@.", "@books.")
    # Skitter itself is not where a unit looks for it.
    copy.write_text(re.sub(r"(?m)^ExecStart=\S+", f"ExecStart={need('sleep')}", file.read_text()))

    done = subprocess.run(
        [need("systemd-analyze"), "verify", copy], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_image_copies_what_there_is():
    lines = (DEPLOY / "Containerfile").read_text().splitlines()
    copied = [
        line.split()[1:-1] for line in lines if line.startswith("COPY ") and "--from" not in line
    ]

    assert all((ROOT / name).exists() for names in copied for name in names)
    assert "requirements.lock" in copied[0]


def test_the_first_process_of_every_container_reaps_what_killed_processes_leave():
    """A killed browser's children would stay zombies, and use up the container's processes."""
    stage = (DEPLOY / "Containerfile").read_text().rpartition("\nFROM ")[2]
    services = [one for one in compose()["services"].values() if one["image"] == "skitter"]
    containers = [one for pod in pods().values() for one in pod["containers"]]

    assert re.search(r"apt-get install .*\btini\b", stage)
    assert 'ENTRYPOINT ["tini", "--", "skitter"]' in stage.splitlines()
    assert all(one.get("entrypoint", ["tini", "--"])[:2] == ["tini", "--"] for one in services)
    assert not any("init" in one for one in services)  # a second init would not be the first
    assert not any("command" in one for one in containers if one["image"] == "skitter")


def test_the_image_owns_the_directories_that_volumes_are_mounted_on():
    services = [one for one in compose()["services"].values() if one["image"] == "skitter"]
    mounts = [one for service in services for one in service["volumes"] if not one.endswith(":ro")]
    made = re.findall(r"install -d -o skitter .* (/\S+)", (DEPLOY / "Containerfile").read_text())

    assert [one.partition(":")[2] for one in mounts] == made == ["/state"]


def test_a_crawl_whose_report_is_bad_does_not_begin_again_for_ever():
    """4: pages are held back, 1: it failed; 3: the server was away, which passes."""
    job = next(one["spec"] for one in resources() if one["kind"] == "Job")
    failing = {
        code
        for rule in job["podFailurePolicy"]["rules"]
        if rule["action"] == "FailJob"
        for code in rule["onExitCodes"]["values"]
    }
    assert failing == {1, UsageError.exit_code, HELD}
    assert InfrastructureError.exit_code not in failing
    assert job["template"]["spec"]["restartPolicy"] == "Never", "or the policy is refused"
    assert re.fullmatch(r"on-failure:\d", compose()["services"]["crawl"]["restart"])
