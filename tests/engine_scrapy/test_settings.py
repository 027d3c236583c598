"""Every setting of scrapy-redis is honoured, or refused with a sentence."""

from __future__ import annotations

import ssl

import pytest
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.dupefilters import RFPDupeFilter as ScrapyDupeFilter
from scrapy.settings import Settings
from scrapy_redis.spiders import RedisSpider as TheirSpider  # type: ignore[import-untyped]

from skitter import scrapy as ours
from skitter.errors import BadOption, UsageError
from skitter.frontier.records.runs import Spec
from skitter.scrapy import defaults
from skitter.scrapy.compatibility import ATTRIBUTES, METHODS, SETTINGS
from skitter.scrapy.connection import SETTINGS_PARAMS_MAP, server_settings
from skitter.scrapy.dupefilter import NoDupeFilter, RFPDupeFilter, make_dupefilter
from skitter.scrapy.project import check
from skitter.scrapy.requests.codec import request_fields
from skitter.scrapy.settings import job_name, queue_order, read_options
from skitter.scrapy.utils import bytes_to_str, convert_bytes_to_str, is_dict


class Books(Spider):
    name = "books"


@pytest.fixture(autouse=True)
def nothing_from_outside(monkeypatch):
    for name in ("SKITTER_REDIS_URL", "SKITTER_DIR"):
        monkeypatch.delenv(name, raising=False)


def url_of(**settings):
    return server_settings(Settings(settings)).redis_url


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ({}, "redis://localhost:6379/0"),
        ({"REDIS_URL": "redis://a:1/2", "REDIS_HOST": "b"}, "redis://a:1/2"),
        ({"REDIS_HOST": "b", "REDIS_PORT": 7, "REDIS_DB": 3}, "redis://b:7/3"),
        ({"REDIS_HOST": "b", "REDIS_PASSWORD": "p@ss"}, "redis://:p%40ss@b:6379/0"),
        ({"REDIS_PARAMS": {"db": 4, "socket_timeout": 3}}, "redis://localhost:6379/4"),
        ({"REDIS_DB": 0, "REDIS_PARAMS": {"db": 4}}, "redis://localhost:6379/0"),
        ({"REDIS_PARAMS": {"ssl": True, "ssl_ca_certs": "/c"}},
         "rediss://localhost:6379/0?ssl_ca_certs=%2Fc"),
        ({"REDIS_PARAMS": {"unix_socket_path": "/s", "username": "u"}}, "unix://u:@/s?db=0"),
        ({"REDIS_URL": "redis://a", "REDIS_PARAMS": {"password": "x"}}, "redis://:x@a"),
        ({"REDIS_URL": "redis://y@a", "REDIS_PARAMS": {"password": "x"}}, "redis://y@a"),
        ({"REDIS_URL": "redis://a:1", "REDIS_DB": 2}, "redis://a:1/2"),
        ({"REDIS_URL": "redis://a:1/", "REDIS_PARAMS": {"db": 2}}, "redis://a:1/2"),
        ({"REDIS_URL": "redis://a:1/3", "REDIS_DB": 2}, "redis://a:1/3"),
        ({"REDIS_URL": "redis://a?db=3", "REDIS_DB": 2}, "redis://a?db=3"),
        ({"REDIS_URL": "unix:///s", "REDIS_DB": 2}, "unix:///s?db=2"),
        ({"REDIS_URL": "redis+sentinel://a/main", "REDIS_DB": 2}, "redis+sentinel://a/main/2"),
        ({"REDIS_URL": "redis+cluster://a", "REDIS_DB": 0}, "redis+cluster://a"),
        ({"REDIS_URL": "rediss://a", "REDIS_PARAMS": {"ssl_cert_reqs": None}},
         "rediss://a?ssl_cert_reqs=none"),
        ({"REDIS_URL": "rediss://a?ssl_ca_certs=/d",
          "REDIS_PARAMS": {"ssl_ca_certs": "/c", "ssl_check_hostname": False}},
         "rediss://a?ssl_ca_certs=/d&ssl_check_hostname=False"),
        ({"REDIS_URL": "redis+cluster://a", "REDIS_PARAMS": {"ssl": True}}, "rediss+cluster://a"),
        ({"REDIS_PARAMS": {"ssl": True, "ssl_cert_reqs": ssl.CERT_NONE}},
         "rediss://localhost:6379/0?ssl_cert_reqs=none"),
    ],
)  # fmt: skip
def test_the_server_is_found_as_scrapy_redis_finds_it(settings, url):
    assert url_of(**settings) == url


def test_without_a_word_about_redis_the_environment_decides(monkeypatch, tmp_path):
    assert server_settings(Settings({"SKITTER_DIR": str(tmp_path)})).directory == tmp_path
    monkeypatch.setenv("SKITTER_REDIS_URL", "redis://elsewhere")
    assert url_of() == "redis://elsewhere"


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"REDIS_URL": "http://a"}, "REDIS_URL"),
        ({"REDIS_URL": "redis://a:port"}, "REDIS_URL"),
        ({"REDIS_URL": "redis://[a", "REDIS_DB": 2}, "REDIS_URL"),
        ({"REDIS_HOST": "a", "REDIS_PORT": "port"}, "REDIS_HOST with REDIS_PORT"),
    ],
)
def test_an_address_that_is_none_is_named_by_its_setting(settings, name):
    with pytest.raises(BadOption, match=f"^{name} must be"):
        url_of(**settings)


def test_a_client_class_is_refused_with_what_to_use_instead():
    with pytest.raises(UsageError, match=r"REDIS_PARAMS\['redis_cls'\].*redis\+cluster://"):
        url_of(REDIS_PARAMS={"redis_cls": "my.Redis"})


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"SCHEDULER_SERIALIZER": "json"}, "requests travel as msgpack"),
        ({"SCHEDULER_DUPEFILTER_CLASS": "x"}, "use DUPEFILTER_CLASS"),
        ({"SCHEDULER_DUPEFILTER_KEY": "all:seen"}, "use SKITTER_JOB"),
        ({"REDIS_DECODE_RESPONSES": True}, "leave it out"),
        ({"REDIS_URL": "redis+cluster://a", "REDIS_DB": 2}, "a cluster has no database 2"),
        ({"REDIS_URL": "redis://a", "REDIS_PARAMS": {"ssl_ca_certs": "/c"}}, "needs TLS"),
        ({"REDIS_PARAMS": {"ssl_validate_ocsp": True}}, "cannot be honoured"),
        ({"SCHEDULER_QUEUE_CLASS": "my.Queue"}, "skitter.scrapy.PriorityQueue"),
    ],
)
def test_what_cannot_be_honoured_is_refused_with_a_sentence(settings, sentence):
    with pytest.raises(UsageError, match=sentence):
        read_options(Settings(settings), Books())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SKITTER_LEASE_S", "abc"),
        ("SKITTER_LEASE_S", -1),
        ("SCHEDULER_IDLE_BEFORE_CLOSE", "abc"),
        ("CONCURRENT_REQUESTS", "many"),
        ("CONCURRENT_REQUESTS_PER_DOMAIN", -1),
        ("DOWNLOAD_DELAY", "nan"),
        ("DOWNLOAD_SLOTS", {"a.test": {"delay": "long"}}),
        ("DOWNLOAD_SLOTS", {"a.test": {"concurrency": 0}}),
        ("SKITTER_JOB", "%(name)s"),
        ("SCHEDULER_QUEUE_KEY", "100%:requests"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named_in_the_sentence(name, value):
    with pytest.raises(UsageError, match=f"^{name}"):
        read_options(Settings({name: value}), Books())


def test_the_key_of_the_statistics_is_checked_before_the_crawl():
    with pytest.raises(UsageError, match=r"^STATS_KEY"):
        ours.RedisStatsCollector(Crawler(Books, {"STATS_KEY": "%(name)s"})).begin("books")


def test_every_row_of_the_table_says_what_becomes_of_it():
    for row in (*SETTINGS, *ATTRIBUTES, *METHODS):
        assert row.becomes.startswith(("honoured", "refused", "not needed", "as in Scrapy")), row


def test_options_are_read_from_scrapys_settings():
    settings = Settings(
        {
            "DOWNLOAD_DELAY": 2, "CONCURRENT_REQUESTS_PER_DOMAIN": 4, "CONCURRENT_REQUESTS": 32,
            "DOWNLOAD_SLOTS": {"a.test": {"delay": 9, "concurrency": 1, "randomize_delay": False}},
            "SCHEDULER_PERSIST": "1", "SCHEDULER_IDLE_BEFORE_CLOSE": 5,
            "SCHEDULER_QUEUE_CLASS": "scrapy_redis.queue.LifoQueue",
        }
    )  # fmt: skip

    options = read_options(settings, Books())

    assert (options.politeness.delay_s, options.politeness.max_in_flight) == (2, 4)
    assert options.slots == {"a.test": {"delay_s": 9, "max_in_flight": 1}}
    assert (options.persist, options.linger_s, options.layout.order) == (True, 5, "lifo")
    assert (options.concurrency, options.prefetch) == (32, 0)
    assert read_options(Settings(), Books()).prefetch == 16


def test_attributes_of_the_spider_win(monkeypatch):
    monkeypatch.setattr(Books, "download_delay", 7, raising=False)
    monkeypatch.setattr(Books, "max_concurrent_requests", 3, raising=False)

    politeness = read_options(Settings(), Books()).politeness

    assert (politeness.delay_s, politeness.max_in_flight) == (7, 3)


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({}, "books"),
        ({"SCHEDULER_QUEUE_KEY": "%(spider)s:requests"}, "books"),
        ({"SCHEDULER_QUEUE_KEY": "shop:%(spider)s:queue"}, "shop-books-queue"),
        ({"SKITTER_JOB": "%(spider)s-2"}, "books-2"),
    ],
)
def test_the_job_is_named_by_the_queues_key(settings, name):
    assert job_name(Settings(settings), "books") == name


@pytest.mark.parametrize(
    ("named", "order"),
    [
        ("scrapy_redis.queue.SpiderQueue", "fifo"),
        ("skitter.scrapy.LifoQueue", "lifo"),
        (ours.FifoQueue, "fifo"),
        ("scrapy_redis.queue.PriorityQueue", "priority"),
    ],
)
def test_queues_go_by_both_names(named, order):
    assert queue_order(named) == order


class Mine(RFPDupeFilter):
    def request_fingerprint(self, request):
        return "always the same"


@pytest.mark.parametrize(
    ("named", "kind"),
    [
        ("skitter.scrapy.RFPDupeFilter", RFPDupeFilter),
        ("scrapy_redis.dupefilter.RFPDupeFilter", RFPDupeFilter),
        (ScrapyDupeFilter, RFPDupeFilter),
        ("scrapy.dupefilters.BaseDupeFilter", NoDupeFilter),
        (Mine, Mine),
    ],
)
def test_dupefilters_that_the_frontier_stands_in_for(named, kind):
    crawler = Crawler(Books, {"DUPEFILTER_CLASS": named, "TELNETCONSOLE_ENABLED": False})
    crawler.request_fingerprinter = ours.RequestFingerprinter()

    assert type(make_dupefilter(crawler)) is kind


def test_a_dupefilter_of_ones_own_is_refused():
    crawler = Crawler(Books, {"DUPEFILTER_CLASS": "scrapy.Spider"})

    with pytest.raises(UsageError, match="REQUEST_FINGERPRINTER_CLASS"):
        make_dupefilter(crawler)


class Fed(ours.RedisSpider):
    name = "fed"


@pytest.mark.parametrize(
    ("attributes", "settings", "keys"),
    [
        ({}, {}, ("fed:start_urls",)),
        ({"redis_key": "%(name)s:x"}, {}, ("fed:x",)),
        ({"redis_key": ["a", "b", "a"]}, {}, ("a", "b")),
        ({}, {"REDIS_START_URLS_KEY": "all:%(name)s"}, ("all:fed",)),
    ],
)
def test_the_key_of_the_feed(attributes, settings, keys):
    spider = Fed.from_crawler(Crawler(Fed, settings), **attributes)

    assert spider.feed.keys == keys


def test_attributes_of_a_fed_spider_may_come_as_text_from_the_command_line():
    crawler = Crawler(Fed, {"MAX_IDLE_TIME_BEFORE_CLOSE": 9})

    spider = Fed.from_crawler(crawler, redis_batch_size="50", max_idle_time="7")

    assert (spider.feed.batch_size, spider.max_idle_time, spider.redis_encoding) == (50, 7, "utf-8")
    assert Fed.from_crawler(crawler).max_idle_time == 9


def test_attributes_that_cannot_be_are_refused():
    crawler = Crawler(Fed)

    nothing: list[object] = ["", " ", []]
    for empty in nothing:
        with pytest.raises(UsageError, match="is empty"):
            Fed(redis_key=empty).setup_redis(crawler)
    with pytest.raises(BadOption, match="redis_batch_size"):
        Fed(redis_batch_size=0).setup_redis(crawler)
    for name in ("redis_batch_size", "max_idle_time", "redis_encoding"):
        with pytest.raises(UsageError, match=f"^{name}"):
            Fed(**{name: "klingon"}).setup_redis(crawler)
    for name in ("REDIS_ENCODING", "REDIS_START_URLS_BATCH_SIZE", "MAX_IDLE_TIME_BEFORE_CLOSE"):
        with pytest.raises(UsageError, match=f"^{name}"):
            Fed().setup_redis(Crawler(Fed, {name: "klingon"}))
    with pytest.raises(UsageError, match=r"^REDIS_START_URLS_KEY"):
        Fed().setup_redis(Crawler(Fed, {"REDIS_START_URLS_KEY": "%(spider)s:u"}))


def test_a_request_made_from_a_message_of_ones_own():
    class Mine(Fed):
        def make_request_from_data(self, data):
            return [self._at(one) for one in data.decode().split()] if data else None

        def _at(self, url):
            return Request(url)

    spider = Mine.from_crawler(Crawler(Mine))

    assert [one.url for one in spider.requests_from(b"http://a.test/ http://b.test/")] == [
        "http://a.test/",
        "http://b.test/",
    ]
    assert list(spider.requests_from(b"")) == []


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        ({}, "no url"),
        ({"url": 5}, "url must be str"),
        ({"url": "http://a", "priority": "high"}, "priority must be int"),
        ({"url": "http://a", "priority": True}, "priority must be int"),
        ({"url": "http://a", "meta": []}, "meta must be dict"),
        ({"url": "http://a", "dont_filter": 1}, "dont_filter must be bool"),
    ],
)
def test_a_message_with_a_field_that_cannot_be_is_refused(message, sentence):
    with pytest.raises(UsageError, match=sentence):
        request_fields(message)


def test_other_keys_of_a_message_are_form_data_as_in_scrapy_redis():
    get = request_fields({"url": "http://a/p?x=1#f", "name": "A B", "n": [1, 2]})
    post = request_fields({"url": "http://a/", "method": "post", "n": 1, "headers": {"X": "y"}})

    assert get["url"] == "http://a/p?name=A+B&n=1&n=2#f", "what it had is replaced"
    assert (post["method"], post["body"]) == ("POST", "n=1")
    assert post["headers"] == {"Content-Type": "application/x-www-form-urlencoded", "X": "y"}


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("SKITTER_LEESE_S", "did you mean SKITTER_LEASE_S"),
        ("SKITTER_REDIS_URL", "it is a variable of the environment; the setting is REDIS_URL"),
    ],
)
def test_a_setting_of_ours_that_does_not_exist_is_refused(name, hint):
    with pytest.raises(UsageError, match=f"there is no setting {name}: {hint}"):
        read_options(Settings({name: 3}), Books())


def test_names_and_errors_that_code_for_scrapy_redis_relies_on():
    assert SETTINGS_PARAMS_MAP["REDIS_DECODE_RESPONSES"] == "decode_responses"
    assert defaults.START_URLS_KEY % {"name": "a"} == "a:start_urls"
    assert convert_bytes_to_str({b"a": (b"b", {b"c": 1})}) == {"a": ("b", {"c": 1})}
    assert (is_dict('"x"'), is_dict("x"), bytes_to_str(b"x")) == (True, False, "x")
    with pytest.raises(ValueError, match="crawler"):
        Fed().setup_redis()
    for name, value in {"redis_key": "", "redis_batch_size": "x", "max_idle_time": "x"}.items():
        with pytest.raises(ValueError, match=name):
            type("Mine", (Fed,), {name: value})().setup_redis(Crawler(Fed))


def test_what_still_is_scrapy_rediss_own_is_told(caplog):
    class Books(TheirSpider):  # type: ignore[misc]
        name = "books"

    theirs = {"ITEM_PIPELINES": {"scrapy_redis.pipelines.RedisPipeline": 300}}
    ours = {"ITEM_PIPELINES": {"skitter.scrapy.RedisPipeline": 300}}

    read_options(Settings(ours), Spider("books"))
    assert not caplog.messages
    read_options(Settings(theirs), Books())

    [feed, items] = caplog.messages
    assert feed.startswith("the spider 'books' still reads its feed with scrapy_redis: only when")
    assert items.endswith("stored twice if its node is killed. Name skitter.scrapy.RedisPipeline.")


@pytest.mark.parametrize(
    "given",
    [
        {"arguments": {"redis_key": "others:start_urls"}},
        {"arguments": {"name": "another"}},
        {"settings": {"limits.exclude": "/a"}},
        {"job": "../x"},
    ],
)
def test_a_run_cannot_turn_a_spider_to_the_keys_of_others(given):
    check(Spec(spider="books", arguments={"category": "poetry"}))
    with pytest.raises(UsageError):
        check(Spec(spider="books", **given))
