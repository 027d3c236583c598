"""A real PostgreSQL and a real MariaDB, one per test process, from the Debian packages."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from contextlib import closing, suppress
from dataclasses import dataclass
from getpass import getuser
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import make_url

from needs import need
from waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

_numbers = count(1)


@dataclass(frozen=True)
class PostgresServer:
    """A server in a directory of its own."""

    data: Path
    port: int

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}"

    def run(self, command: str, *args: str) -> str:
        # PostgreSQL refuses to run as root.
        who = [need("runuser"), "-u", "postgres", "--"] if os.getuid() == 0 else []
        done = subprocess.run(
            [*who, need(command), *args],
            cwd="/tmp",
            check=False,
            stdin=subprocess.DEVNULL,
            # Not a pipe: the server inherits it, and it would never end.
            stdout=(log := tempfile.TemporaryFile("w+")),  # noqa: SIM115
            stderr=log,
        )
        log.seek(0)
        output = log.read()
        log.close()
        assert done.returncode == 0, output
        return output

    def start(self) -> None:
        options = f"-p {self.port} -k {self.data} -c listen_addresses=127.0.0.1 -c fsync=off"
        self.run("pg_ctl", "-D", str(self.data), "-w", "-l", str(self.data / "log"),
                 "-o", options, "start")  # fmt: skip

    def create(self, options: str = "") -> str:
        """The DSN of a new database."""
        import psycopg

        name = f"test_{next(_numbers)}"
        with psycopg.connect(f"{self.url}/postgres", autocommit=True) as admin:
            admin.execute(f"CREATE DATABASE {name} {options}".encode())
        return f"{self.url}/{name}"

    def stop(self) -> None:
        self.run("pg_ctl", "-D", str(self.data), "-w", "-m", "immediate", "stop")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    need("initdb")
    data = Path(tempfile.mkdtemp(prefix="sk-pg-", dir="/tmp"))
    if os.getuid() == 0:
        shutil.chown(data, "postgres", "postgres")
    server = PostgresServer(data, _free_port())
    try:
        server.run("initdb", "-D", str(data), "-A", "trust", "-U", "postgres",
                   "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")  # fmt: skip
        server.start()
        yield server
        server.stop()
    finally:
        shutil.rmtree(data, ignore_errors=True)


@pytest.fixture
def postgres(postgres_server: PostgresServer) -> str:
    """The DSN of a database of its own."""
    return postgres_server.create()


@pytest.fixture(scope="session")
def mysql_server() -> Iterator[str]:
    """The DSN of a MariaDB in a directory of its own, without a database."""
    need("mariadbd")
    home, port = Path(tempfile.mkdtemp(prefix="sk-my-", dir="/tmp")), _free_port()
    data = home / "data"
    place = ["--no-defaults", f"--datadir={data}", f"--user={getuser()}"]
    # A server that starts deletes the temporary tables of all that share a folder for them.
    place.append(f"--tmpdir={home}")
    # Several at once exhaust what the kernel has for asynchronous reads.
    place += ["--innodb-use-native-aio=0", "--innodb-log-file-size=8M"]
    install = [*place, "--auth-root-authentication-method=normal", "--skip-test-db"]
    listen = [f"--port={port}", "--bind-address=127.0.0.1", f"--socket={data}/socket"]
    listen += ["--innodb-flush-log-at-trx-commit=0"]
    log = (home / "log").open("w")
    try:
        subprocess.run([need("mariadb-install-db"), *install], check=True, stdout=log, stderr=log)
        server = subprocess.Popen([need("mariadbd"), *place, *listen], stdout=log, stderr=log)
        try:
            dsn = f"mysql://root@127.0.0.1:{port}"
            until(lambda: _answers(dsn) or server.poll() is not None)
            assert server.poll() is None, (home / "log").read_text()
            yield dsn
        finally:
            server.kill()
            server.wait()
    finally:
        log.close()
        shutil.rmtree(home, ignore_errors=True)


def _run(dsn: str, statement: str) -> None:
    import pymysql  # type: ignore[import-untyped]

    place = make_url(dsn)
    with (
        closing(pymysql.connect(host=place.host, port=place.port or 0, user="root")) as admin,
        admin.cursor() as cursor,
    ):
        cursor.execute(statement)


def _answers(dsn: str) -> bool:
    with suppress(Exception):
        _run(dsn, "SELECT 1")
        return True
    return False


@pytest.fixture
def mysql(mysql_server: str) -> str:
    """The DSN of a database of its own, whose character set does not hold all text."""
    name = f"test_{next(_numbers)}"
    _run(mysql_server, f"CREATE DATABASE {name} CHARACTER SET latin1")
    return f"{mysql_server}/{name}"


@pytest.fixture(params=["sqlite", "postgres", "mysql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The DSN of an empty database: each test that asks for it runs on all."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/items.db"
    dsn: str = request.getfixturevalue(request.param)
    return dsn


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
