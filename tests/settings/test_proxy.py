"""[[proxy]] in skitter.toml: one table per route."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from skitter.errors import UsageError
from skitter.settings import WorkerConfig, resolve

TWO = """
[routes]
region = "eu"

[[proxy]]
name = "home"
kind = "direct"

[[proxy]]
name = "bright"
preset = "brightdata"
user = "hl_1-zone-a"
secret = "env:BRIGHT"
countries = ["de", "fr"]
budget_requests = 10
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(text: str) -> Path:
        path: Path = tmp_path / "skitter.toml"
        path.write_text(text)
        return path

    return write


def test_routes_are_read_with_their_presets(project):
    project(TWO)
    found = resolve()
    home, bright = found.proxies
    assert (home.kind, bright.kind, bright.budget_requests) == ("direct", "gateway", 10)
    assert bright.url == "http://brd.superproxy.io:33335"
    assert found.routes.region == "eu"
    assert bright.is_limited
    assert not home.is_limited
    assert [one.leaves_from("de") for one in (home, bright)] == [False, True]
    assert not bright.leaves_from("us")


def test_without_any_there_are_none(project):
    project("")
    assert resolve().proxies == ()


def test_a_job_may_have_its_own(project):
    project(TWO + '[[job.books.proxy]]\nname = "only"\nkind = "direct"\n')
    assert [one.name for one in resolve(job="books").proxies] == ["only"]
    assert len(resolve(job="films").proxies) == 2


def test_they_travel_to_worker_processes_without_their_secrets(project, monkeypatch):
    project(TWO)
    monkeypatch.setenv("BRIGHT", "hidden-word")
    config = WorkerConfig(proxies=resolve().proxies)
    assert WorkerConfig.from_json(config.to_json()).proxies == config.proxies
    assert "hidden-word" not in config.to_json()
    assert config.proxies[1].read_secret() == "hidden-word"


def test_a_secret_may_be_in_a_file_beside_the_settings(project, tmp_path):
    project('[[proxy]]\nname = "a"\nurl = "http://gw:1"\nsecret = "file:key.txt"\n')
    (tmp_path / "key.txt").write_text("word\n")
    [route] = resolve().proxies
    assert route.read_secret() == "word"


@pytest.mark.parametrize("secret", ["env:NOT_SET_ANYWHERE", "file:missing.txt"])
def test_a_secret_that_is_not_there_is_said(project, secret):
    project(f'[[proxy]]\nname = "a"\nurl = "http://gw:1"\nsecret = "{secret}"\n')
    with pytest.raises(UsageError, match="proxy a"):
        resolve().proxies[0].read_secret()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[proxy]\nname = "a"\n', r"must be written \[\[proxy\]\]"),
        ('[[proxy]]\nname = "A b"\nkind = "direct"\n', "lower case"),
        ('[[proxy]]\nname = "a"\npreset = "bright"\n', "preset must be thordata, brightdata"),
        ('[[proxy]]\nname = "a"\nkind = "tunnel"\n', "direct, gateway or api"),
        ('[[proxy]]\nname = "a"\nurl = "ftp://x"\n', "socks5://host:port, got 'ftp"),
        (
            '[[proxy]]\nname = "a"\nurl = "http://me:secretword@x:1"\n',
            "go into `user` and `secret`",
        ),
        ('[[proxy]]\nname = "a"\nurl = "http://x:1"\nsecret = "secretword"\n', "env:NAME"),
        ('[[proxy]]\nname = "a"\nkind = "api"\nurl = "http://x"\n', r"\{url\}"),
        ('[[proxy]]\nname = "a"\nkind = "direct"\nprices = 1\n', "is unknown"),
        ('[[proxy]]\nname = "a"\nkind = "direct"\ncountries = ["Germany"]\n', "two lower case"),
        ('[[proxy]]\nname = "a"\nkind = "direct"\n' * 2, "two of the same name"),
    ],
)
def test_mistakes_are_named(project, text, said):
    project(text)
    with pytest.raises(UsageError, match=said) as caught:
        resolve()
    assert "secretword" not in str(caught.value)


def test_the_how_to_can_be_used_as_it_is(project):
    page = Path(__file__).parents[2] / "docs" / "howto" / "proxies.md"
    blocks = re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL)
    project("\n".join(blocks))
    found = resolve()
    assert [one.name for one in found.proxies] == ["home", "office", "bright", "api", "own"]
    assert found.routes.success_rate == 0.7
