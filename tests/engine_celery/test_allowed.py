"""What a worker may run without a signature, and where its frontier is. Pure."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from skitter.celery import CelerySettings, Queues
from skitter.celery.config import frontier_server
from skitter.celery.factory import check_pool
from skitter.celery.jobs import JobSpec
from skitter.celery.security import check_job, check_permitted, granted, is_named
from skitter.embedded import EmbeddedServer
from skitter.errors import NotAllowed, UsageError
from skitter.settings import FetchOptions, Settings, WorkerConfig
from skitter.settings.tables import FileOptions
from skitter.spider import Spider

HERE = Settings(redis_url="redis://h")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "spiders" / "deep").mkdir(parents=True)
    for name in ("spiders/books.py", "spiders/deep/more.py", "evil.py"):
        (tmp_path / name).write_text("")
    (tmp_path / "link.py").symlink_to(tmp_path / "evil.py")
    (tmp_path / "way").symlink_to(tmp_path / "spiders")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("target", "patterns", "named"),
    [
        ("spiders/books.py", ("spiders/*.py",), True),
        ("spiders/books.py:books", ("spiders/*.py",), True),
        ("way/books.py", ("spiders/*.py",), True),  # the same file
        ("spiders/../evil.py", ("spiders/*.py",), False),
        ("spiders/deep/more.py", ("spiders/*.py",), False),
        ("spiders/deep/more.py", ("spiders/**/*.py",), True),
        ("evil.py", ("link.py",), True),  # the operator's own link
        ("spiders/books.py:books", ("spiders/books.py:books",), True),
        ("spiders/books.py:other", ("spiders/books.py:books",), False),
        ("spiders/books.py", ("spiders/books.py:books",), False),
        ("shop.spiders:books", ("shop.spiders",), True),
        ("shop.spiders", ("shop.spiders",), True),
        ("shop.spiders.deep:x", ("shop.spiders",), False),
        ("shop.spiders.deep:x", ("shop.*",), True),
        ("evil.py", ("*",), False),  # modules, and no files
        ("shop", ("*",), True),
        ("spiders/books.py", ("*",), False),
        ("os:system", ("shop.*",), False),
        ("nowhere.py", ("nowhere.py",), False),
        ("evil.py", (), False),
    ],
)
def test_spiders_are_named_by_their_real_place_or_their_module(folder, target, patterns, named):
    assert is_named(target, patterns) is named


def test_a_file_by_its_whole_path_is_the_same_file(folder):
    assert is_named(str(folder / "spiders" / "books.py"), ("spiders/*.py",))
    assert is_named("spiders/books.py", (str(folder / "spiders" / "*.py"),))


def settings(**options: Any) -> CelerySettings:
    return CelerySettings(where=HERE, spiders=(), **options)


def test_what_is_not_named_needs_a_signature():
    with pytest.raises(NotAllowed, match=r"SKITTER_SPIDERS=evil\.py.*SKITTER_SECRET"):
        check_permitted("evil.py", "", settings(), signed=False)

    assert check_permitted("evil.py", "", settings(), signed=True) == ""
    assert check_permitted("", "", settings(), signed=False) == ""


def test_an_output_is_found_by_its_name():
    known = settings(outputs={"Ware-House": "postgresql://u:pw@h/db"})

    assert "pw" not in repr(known)
    assert check_permitted("", "ware_house", known, signed=False) == "postgresql://u:pw@h/db"
    assert check_permitted("", "WARE-house", known, signed=False) == "postgresql://u:pw@h/db"
    assert check_permitted("", "pages.db", known, signed=True) == "pages.db"
    for out, signed, variable in (
        ("pages.db", False, "NAME"),
        ("my-other", False, "MY_OTHER"),
        ("my-other", True, "MY_OTHER"),
    ):
        with pytest.raises(NotAllowed, match=f"SKITTER_OUTPUT_{variable}=DSN"):
            check_permitted("", out, known, signed=signed)
    for signed in (False, True):
        with pytest.raises(UsageError) as caught:
            check_permitted("", "postgresql://u:pw@h/db", settings(), signed=signed)
        assert "pw" not in str(caught.value)


def test_outputs_and_spiders_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("SKITTER_OUTPUT_WAREHOUSE", "items.db")
    monkeypatch.setenv("SKITTER_SPIDERS", "spiders/*.py, shop.spiders")

    found = CelerySettings()

    assert found.outputs == {"warehouse": "items.db"}
    assert found.spiders == ("spiders/*.py", "shop.spiders")


def test_settings_for_an_app_of_a_team_take_the_rest_from_the_environment(monkeypatch):
    monkeypatch.setenv("SKITTER_ALLOW_HOSTS", "intranet:8080, wiki")
    monkeypatch.setenv("SKITTER_BROKER_URL", "amqp://rabbit")

    own = CelerySettings(queues=Queues(http="crawl"))

    assert own.allow_hosts == {"intranet:8080", "wiki"}
    assert own.broker == "amqp://rabbit"


@pytest.mark.parametrize(("text", "stuck_s"), [("none", None), ("5", 5.0)])
def test_how_long_a_page_may_block_comes_from_the_environment(monkeypatch, text, stuck_s):
    monkeypatch.setenv("SKITTER_STUCK_S", text)

    assert CelerySettings().stuck_s == stuck_s


def test_how_long_a_page_may_block_comes_from_the_configuration_too(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "skitter.toml").write_text("[workers]\nstuck_s = 7\n")

    assert CelerySettings().stuck_s == 7


def fetch_of(spec, own, *, signed, spider=None):
    return granted(spec, spider or Spider("j"), own, signed=signed).fetch


def test_how_pages_are_fetched_is_said_by_settings_the_environment_and_the_spider(monkeypatch):
    said = FetchOptions(user_agent="spider", total_timeout_s=5, max_body_mb=30)
    spider, own = Spider("j", fetch=said), settings(fetch=FetchOptions(total_timeout_s=7))
    monkeypatch.setenv("SKITTER_FETCH_MAX_BODY_MB", "40")

    fetch = fetch_of(JobSpec(job="j"), own, signed=False, spider=spider)

    assert (fetch.total_timeout_s, fetch.max_body_mb, fetch.user_agent) == (7, 40, "spider")


def test_where_files_go_needs_a_signature(tmp_path):
    spec = JobSpec(job="j", config=WorkerConfig(files=FileOptions(folder=tmp_path)))

    signed, not_signed = (
        granted(spec, Spider("j"), settings(), signed=one).files for one in (True, False)
    )

    assert (signed.folder, not_signed.folder) == (tmp_path, FileOptions().folder)


def test_hosts_and_robots_txt_count_only_with_a_signature():
    asked = FetchOptions(allow_hosts=("10.0.0.1",), obey_robots=False)
    spec = JobSpec(job="j", config=WorkerConfig(fetch=asked))
    own = settings(allow_hosts=frozenset({"intranet"}))

    signed, not_signed = (fetch_of(spec, own, signed=one) for one in (True, False))

    assert (sorted(signed.allow_hosts), signed.obey_robots) == (["10.0.0.1", "intranet"], False)
    assert (sorted(not_signed.allow_hosts), not_signed.obey_robots) == (["intranet"], True)


@pytest.mark.parametrize(("asked", "with_it", "without"), [(1024, 1024, 10), (1, 1, 1)])
def test_larger_pages_than_usual_need_a_signature(asked, with_it, without):
    spec = JobSpec(job="j", config=WorkerConfig(fetch=FetchOptions(max_body_mb=asked)))

    assert fetch_of(spec, settings(), signed=True).max_body_mb == with_it
    assert fetch_of(spec, settings(), signed=False).max_body_mb == without


def test_a_user_agent_and_headers_need_a_signature():
    asked = FetchOptions(user_agent="theirs", headers={"X-Key": "theirs"})
    spec = JobSpec(job="j", config=WorkerConfig(fetch=asked))
    own = settings(fetch=FetchOptions(user_agent="ours", total_timeout_s=5))

    signed, not_signed = (fetch_of(spec, own, signed=one) for one in (True, False))

    assert (signed.user_agent, signed.total_timeout_s) == ("theirs", 5)
    assert signed.headers == {"X-Key": "theirs"}
    assert (not_signed.user_agent, not_signed.headers) == ("ours", {})


def test_arguments_of_a_spider_need_a_signature():
    spec = JobSpec(job="j", config=WorkerConfig(arguments={"path": "/etc/passwd"}))

    with pytest.raises(NotAllowed, match="the arguments of j"):
        check_job(spec, settings(), signed=False)


def test_a_reducer_needs_a_signature():
    with pytest.raises(NotAllowed, match="SKITTER_SECRET"):
        check_job(JobSpec(job="j", reducer={"task": "t"}), settings(), signed=False)


# --- where the frontier is -----------------------------------------------------------------------


def conf(url: str | list[str] | None, **options: Any) -> Any:
    options = {"broker_transport_options": {}, "broker_use_ssl": None} | options
    return SimpleNamespace(broker_url=url, broker_write_url=url, **options)


@pytest.mark.parametrize(
    ("broker", "options", "frontier"),
    [
        ("redis://h:6380/3", {}, "redis://h:6380/3"),
        ("redis://:p%2Fw@h", {}, "redis://:p%2Fw@h"),
        ("rediss://h/0?ssl_cert_reqs=CERT_NONE", {}, "rediss://h/0?ssl_cert_reqs=none"),
        ("redis+socket:///run/r.sock?virtual_host=4", {}, "unix:///run/r.sock?db=4"),
        ("redis+socket://:pw@/run/r.sock", {}, "unix://:pw@/run/r.sock?db=0"),
        (
            "sentinel://:pw@a:26379;sentinel://b:26380/2",
            {"master_name": "main"},
            "redis+sentinel://:pw@a:26379,b:26380/main/2",
        ),
        ("sentinel://a:26379", {"master_name": "main"}, "redis+sentinel://a:26379/main/0"),
    ],
)
def test_the_frontier_is_on_the_broker_if_nobody_said_otherwise(broker, options, frontier):
    where = frontier_server(
        CelerySettings(where=Settings()), conf(broker, broker_transport_options=options)
    )

    assert where.redis_url == frontier


@pytest.mark.parametrize(
    ("broker", "options"),
    [
        ("amqp://user:pw@h//", {}),
        (None, {}),
        ("sqs://", {}),
        ("memory://", {}),
        ("redis://a;redis://b", {}),
        (["redis://a", "redis://b"], {}),
        ("redis://h/x", {}),
        ("sentinel://a:1", {}),
        ("sentinel://a:1", {"master_name": "m", "sentinel_kwargs": {"password": "x"}}),
    ],
)
def test_a_broker_that_cannot_hold_it_asks_for_a_server(broker, options):
    with pytest.raises(UsageError, match="SKITTER_REDIS_URL") as caught:
        frontier_server(
            CelerySettings(where=Settings()), conf(broker, broker_transport_options=options)
        )

    assert "pw" not in str(caught.value)


def test_what_the_settings_name_comes_first(tmp_path):
    socket = EmbeddedServer(directory=tmp_path).socket
    embedded = Settings(directory=tmp_path)

    assert frontier_server(CelerySettings(where=HERE), conf("amqp://h")) == HERE
    beside_it = conf(f"redis+socket://{socket}?virtual_host=1")
    assert frontier_server(CelerySettings(where=embedded), beside_it) == embedded


@pytest.mark.parametrize(
    "pool",
    ["gevent", "eventlet", "celery.concurrency.gevent:TaskPool", "celery.concurrency.gevent"],
)
def test_pools_with_an_event_loop_of_their_own_are_refused(pool):
    with pytest.raises(UsageError, match="-P threads"):
        check_pool(pool)
    check_pool("prefork")
