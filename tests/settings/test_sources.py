"""flag > environment > file (the job's tables first) > spider > default."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from skitter.errors import UsageError
from skitter.settings import FetchOptions, Politeness, find_server, resolve
from skitter.settings.sources import parse_setting

KEY = "fetch.user_agent"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder of its own; `write` puts a file there."""
    for name in ("SKITTER_REDIS_URL", "SKITTER_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)

    def write(text: str, name: str = "skitter.toml") -> Path:
        path: Path = tmp_path / name
        path.write_text(text)
        return path

    return write


GENERAL = '[fetch]\nuser_agent = "file"\n'
OF_JOB = GENERAL + '[job.books.fetch]\nuser_agent = "job"\n'


@pytest.mark.parametrize(
    ("said", "wins", "origin"),
    [
        (("flag", "env", OF_JOB, "spider"), "flag", "flag --user-agent"),
        ((None, "env", OF_JOB, "spider"), "env", "SKITTER_FETCH_USER_AGENT"),
        ((None, None, OF_JOB, "spider"), "job", "skitter.toml, [job.books]"),
        ((None, None, GENERAL, "spider"), "file", "skitter.toml"),
        ((None, None, "", "spider"), "spider", "the spider"),
        ((None, "", "", None), FetchOptions().user_agent, "default"),
    ],
)
def test_who_wins(project, monkeypatch, said, wins, origin):
    flag, variable, file, spider = said
    project(file)
    if variable is not None:
        monkeypatch.setenv("SKITTER_FETCH_USER_AGENT", variable)
    tables = {"fetch": FetchOptions(user_agent=spider)} if spider else {}

    found = resolve({KEY: flag} if flag else {}, job="books", spider=tables)

    assert found.fetch.user_agent == wins
    assert found.origins[KEY].endswith(origin)


def test_tables_of_another_job_do_not_count(project):
    project(OF_JOB)

    assert resolve(job="shoes").fetch.user_agent == "file"


def test_the_file_is_searched_upwards(project, tmp_path, monkeypatch):
    project("[politeness]\ndelay_s = 7\n")
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)

    assert resolve().politeness == Politeness(delay_s=7)


def test_pyproject_has_a_table_for_us(project):
    project('[project]\nname = "x"\n[tool.skitter.limits]\nmax_pages = 9\n', "pyproject.toml")

    assert resolve().limits.max_pages == 9


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_another_user_counts_only_if_it_is_named(project, monkeypatch):
    path = project(GENERAL)
    os.chown(path, 65534, -1)
    (path.parent / "sub").mkdir()
    for place in (path.parent, path.parent / "sub"):
        monkeypatch.chdir(place)
        with pytest.raises(UsageError, match=f"another user .* set SKITTER_CONFIG={path}; if not"):
            resolve()

    monkeypatch.setenv("SKITTER_CONFIG", os.path.relpath(path))  # valid in any folder
    with pytest.raises(UsageError, match="belongs to another user"):
        resolve()
    monkeypatch.setenv("SKITTER_CONFIG", str(path))
    assert resolve().fetch.user_agent == "file"
    monkeypatch.delenv("SKITTER_CONFIG")
    Path("skitter.toml").write_text('[fetch]\nuser_agent = "mine"\n')
    assert resolve().fetch.user_agent == "mine"


@pytest.mark.parametrize(
    ("mode", "gid", "is_read"),
    [(0o644, -1, True), (0o600, -1, True), (0o664, -1, True), (0o666, -1, False)]
    + [(0o664, 65534, False), (0o644, 65534, True)] * (os.geteuid() == 0),
)
def test_a_file_that_others_can_write_does_not_count(project, mode, gid, is_read):
    path = project(GENERAL)
    os.chown(path, -1, gid)
    path.chmod(mode)
    if is_read:  # 664 is what a umask of 002 makes, with a group that is the user's own
        assert resolve().fetch.user_agent == "file"
        return
    with pytest.raises(UsageError, match=f"mode {mode:o}.*`chmod go-w {path}`"):
        resolve()
    path.chmod(mode & ~0o022)
    assert resolve().fetch.user_agent == "file"


def test_a_file_that_is_named_and_missing_is_said(project, monkeypatch):
    project(GENERAL)
    monkeypatch.setenv("SKITTER_CONFIG", "/nowhere.toml")
    with pytest.raises(UsageError, match=r"SKITTER_CONFIG names /nowhere.toml, which cannot be"):
        resolve()


def test_skitter_toml_is_nearer_than_pyproject(project):
    project("[tool.skitter.limits]\nmax_pages = 9\n", "pyproject.toml")
    project("[limits]\nmax_pages = 8\n")

    assert resolve().limits.max_pages == 8


@pytest.mark.parametrize(
    "text",
    [
        "[tool.skitter]\nlimits.max_pages = 9",
        "[ tool . 'skitter' . limits ]\nmax_pages = 9",
        '["tool"."skitter"]\nlimits = { max_pages = 9 }',
        "[tool]\nskitter.limits.max_pages = 9",
        "tool.skitter.limits.max_pages = 9",
        "tool = { skitter = { limits = { max_pages = 9 } } }",
    ],
)
def test_that_table_is_found_however_it_is_written(project, text):
    project(text, "pyproject.toml")
    assert resolve().limits.max_pages == 9


def test_a_pyproject_of_others_is_nothing_to_us(project):
    project("[tool.black]\nline-length = 1\n", "pyproject.toml")

    assert resolve().origins["limits.max_pages"] == "default"


def test_paths_are_seen_from_the_file(project, tmp_path, monkeypatch):
    project('[server]\ndirectory = "state"\n[log]\nfile = "logs/crawl.log"\n')
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")

    assert resolve().server.directory == tmp_path / "state"
    assert resolve().log.file == tmp_path / "logs/crawl.log"


def test_a_number_of_processes_is_a_number(project):
    project("[workers]\nprocesses = 4\n")

    assert resolve().workers.processes == "4"


def test_no_limit_is_spelled_none(project):
    project('[limits]\nmax_pages = "none"\n')

    assert resolve(spider={"politeness": Politeness()}).limits.max_pages is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[fetch]\nuser_agnet = "x"\n', "skitter.toml, line 2: fetch.user_agnet is unknown"),
        ('[fetch]\nuser_agnet = "x"\n', "did you mean user_agent?"),
        ("[fetsh]\nhttp2 = true\n", "line 1: fetsh is unknown: did you mean fetch?"),
        ("fetch = 3\n", "line 1: fetch must be a table: write [fetch]."),
        ('[fetch]\ntotal_timeout_s = "x"\n', "line 2: fetch.total_timeout_s must be a number from"),
        ("[limits]\nmax_pages = 0\n", "limits.max_pages must be a whole number from 1"),
        ("[limits]\nmax_pages = true\n", "got True"),
        ('[log]\nlevel = "loud"\n', "log.level must be debug, info, warning or error, got 'loud'"),
        ('[job.books.limits]\nmax_pags = 1\n', "job.books.limits.max_pags is unknown"),
        ("[job.books]\ndelay_s = 1\n", "job.books.delay_s is unknown"),
        ("job = 1\n", "job must hold tables"),
        ("[fetch\n", "is not TOML"),
        ('[fetch]\nca_file = "none.pem"\n', "a PEM file that exists"),
        ('[workers]\nprocesses = "many"\n', "workers.processes (from"),
        ('[fetch.headers]\nX-Key = 5\n', "got '(hidden)'"),
        ('[fetch.headers]\nX-Key = "ä"\n', "fetch.headers (from skitter.toml) must be one line of"),
        ("[fetch]\nuser_agent = 5\n", "skitter.toml, line 2: fetch.user_agent must be text, got 5"),
        ("[fetch]\naccept = true\n", "line 2: fetch.accept must be text, got True"),
        ('[fetch]\nhttp2 = "true"\n', "line 2: fetch.http2 must be true or false, got 'true'"),
        ("[fetch]\nhttp2 = 1\n", "line 2: fetch.http2 must be true or false, got 1"),
        ("[fetch]\nallow_hosts = 'a.test'\n", "fetch.allow_hosts must be a list of strings, got"),
        ("[fetch]\nallow_hosts = [1]\n", "fetch.allow_hosts must be a list of strings, got"),
        ("[fetch]\nheaders = ['a']\n", "fetch.headers must be a table of strings"),
        ("[fetch]\nca_file = 5\n", "fetch.ca_file must be a path, or none, got 5"),
        ("[fetch]\nmax_redirects = 1.5\n", "fetch.max_redirects must be a whole number"),
        ("[fetch]\nmax_redirects = 'none'\n", "fetch.max_redirects must be a whole number"),
        ("[fetch]\ntotal_timeout_s = nan\n", "fetch.total_timeout_s must be a number from"),
        ("[log]\nlevel = 5\n", "log.level must be debug, info, warning or error, got 5"),
        ('[log]\nfile = ""\n', "line 2: log.file must be a path, or none, got ''"),
        ('[server]\ndirectory = ""\n', "line 2: server.directory must be a path, got ''"),
        ("[workers]\nprocesses = true\n", "workers.processes must be a number from 1 to 1000"),
        ("[workers]\nprocesses = 1.5\n", "workers.processes must be a number from 1 to 1000"),
        (f'[workers]\nprocesses = "{"9" * 5000}"\n', "workers.processes (from"),
        ("[output]\nto = 5\n", "output.to must be a list of strings"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_file_is_one_sentence(project, text, says):
    project(text)

    with pytest.raises(UsageError) as caught:
        resolve(job="books")

    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("SKITTER_FETCH_USERAGENT", "x", "did you mean SKITTER_FETCH_USER_AGENT?"),
        ("SKITTER_LIMITS_MAX_PAGES", "few", "SKITTER_LIMITS_MAX_PAGES must be a whole number"),
    ],
)
def test_a_mistake_in_the_environment_is_one_sentence(project, monkeypatch, name, value, says):
    monkeypatch.setenv(name, value)

    with pytest.raises(UsageError, match=says.replace("?", r"\?")):
        resolve()


def test_the_server_is_found_like_any_setting(project, monkeypatch):
    project('[server]\nredis_url = "redis://file:1"\n')
    assert find_server().redis_url == "redis://file:1"

    monkeypatch.setenv("SKITTER_REDIS_URL", "redis://env:1")
    assert find_server().redis_url == "redis://env:1"
    assert find_server("redis://flag:1").redis_url == "redis://flag:1"
    assert find_server(directory="elsewhere").directory == Path("elsewhere")


def test_any_setting_can_be_given_as_key_and_value():
    assert parse_setting("fetch.headers=X-Key: a=b") == ("fetch.headers", {"X-Key": "a=b"})
    for text, says in (
        ("fetch.http", "key=value"),
        ("fetch.htp2=1", "did you mean fetch.http2"),
        ("fetch.timeot=3", "did you mean fetch.total_timeout_s"),  # not fetch.client
    ):
        with pytest.raises(UsageError, match=says):
            parse_setting(text)
