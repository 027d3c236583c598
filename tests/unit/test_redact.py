"""Secrets stay out of what is shown, from parsed parts."""

import pytest

from skitter.redact import (
    MASK,
    redact,
    redact_headers,
    redact_service,
    redact_text,
    redact_tree,
    redact_webhook,
)
from skitter.sinks.databases.postgres import Postgres


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://host:6379/0", "redis://host:6379/0"),
        ("redis://:pw@host:6379/0", "redis://***@host:6379/0"),
        ("rediss://user:pw@host", "rediss://***@host"),
        ("redis://host:6379?password=pw&db=1", "redis://host:6379?password=***&db=1"),
        ("redis://host?db=1;PassWord=pw", "redis://host?db=1;PassWord=***"),
        ("redis://host?pass%77ord=pw", "redis://host?pass%77ord=***"),
        ("https://h/?token[a][b]=pw&q=1", "https://h/?token[a][b]=***&q=1"),
        ("https://h/?user[token][0]=pw", "https://h/?user[token][0]=***"),
        ("https://h/?token%00=pw", "https://h/?token%00=***"),
        ("https://h/?bearer=pw&page[token]=2", "https://h/?bearer=***&page[token]=2"),
        ("https://h/cart;jsessionid=pw?page=2", "https://h/cart;jsessionid=***"),
        ("https://h/a;v=1/b;c?page=2", "https://h/a;v=1/b;c?page=2"),
        ("https://h/?next=https://me:pw@h/&q=1", "https://h/?next=***&q=1"),
        ("https://h/?next=https%3A%2F%2Fme%3Apw%40h", "https://h/?next=***"),
        ("https://h/?next=https://h/@me&q=a@b", "https://h/?next=https://h/@me&q=a@b"),
        ("host=db user=me password=pw dbname=x", "host=db user=me password=*** dbname=x"),
        ("host=db password = 'p w' dbname=x", "host=db password = *** dbname=x"),
        # Characters that end a value to some parsers.
        ("redis://host?password=p;w&db=1", "redis://host?password=***&db=1"),
        ("redis://host?password=p?w", "redis://host?password=***"),
        ("redis://host?password=p#w", "redis://host?password=***"),
        ("redis://host?db=1;password=p;w=x", "redis://host?db=1;password=***"),
        # Nobody can tell where such a password ends.
        ("redis://:p/w@host:6379/0", "redis://***"),
        ("redis://:p?w@host:6379/0", "redis://***"),
        ("redis://:p@s/w@host:6379/0", "redis://***"),
        ("redis://user:1?a=b@host", "redis://***"),
        ("redis://:pw@host:p6", "redis://***"),
        ("redis://:p#w@host", "redis://***@host"),
        ("redis+sentinel://:pw@a:1,b:2/main", "redis+sentinel://***@a:1,b:2/main"),
        ("redis+cluster://u:p@[::1]:7000", "redis+cluster://***@[::1]:7000"),
        ("unix:///tmp/a@b.sock?db=1&password=pw", "unix:///tmp/a@b.sock?db=1&password=***"),
        ("redis://USER:PASSWORD@host:6379", "redis://USER:PASSWORD@host:6379"),
        ("redis://:PASSWORD@pw@host:6379", "redis://***@host:6379"),
        ("redis://me:PASSWORD@host:6379", "redis://***@host:6379"),
        ("unix://user:pw@/tmp/a.sock", "unix://***@/tmp/a.sock"),
        ("postgresql://me:pw@db/items", "postgresql://***@db/items"),
        ("postgresql://db/items?user=me&password=pw", "postgresql://db/items?user=me&password=***"),
        ("postgresql://db/items?sslpassword=pw", "postgresql://db/items?sslpassword=***"),
        ("postgresql://me:p/w@db/items", "postgresql://***"),
        ("https://me:pw@site.example/a@b", "https://***"),
        ("https://me:p@w/x@site.example/", "https://***"),
        ("https:me:pw@site.example/", "https:***@site.example/"),
        ("https://site.example/@me?q=1", "https://site.example/@me?q=1"),
        ("https://site.example/?api_key=1&page=2", "https://site.example/?api_key=***&page=2"),
        ("https://site.example/a?token=pw&page=2", "https://site.example/a?token=***&page=2"),
        ("https://site.example/a?token[]=pw&a[]=1", "https://site.example/a?token[]=***&a[]=1"),
        ("https://site.example/a?token[0]=pw", "https://site.example/a?token[0]=***"),
        ("https://site.example/a?user[password]=pw", "https://site.example/a?user[password]=***"),
        ("https://site.example/a?token%5B%5D=pw", "https://site.example/a?token%5B%5D=***"),
        ("https://site.example/a?page[token]=ab", "https://site.example/a?page[token]=ab"),
        ("https://site.example/a?filter[tag][]=b", "https://site.example/a?filter[tag][]=b"),
        ("https://site.example/a?csrf_token=pw", "https://site.example/a?csrf_token=***"),
        ("https://site.example/a?x=1?token=pw", "https://site.example/a?x=1?token=***"),
        ("https://s3.example/a?X-Amz-Signature=pw", "https://s3.example/a?X-Amz-Signature=***"),
        ("https://blob.example/a?sv=1&sig=pw&se=2", "https://blob.example/a?sv=1&sig=***&se=2"),
        ("https://site.example/a?jwt=pw", "https://site.example/a?jwt=***"),
        ("https://site.example/a?id_jwt=pw&x=1", "https://site.example/a?id_jwt=***&x=1"),
        ("https://site.example/a?hmac=pw", "https://site.example/a?hmac=***"),
        ("https://api.example/?access_key=pw", "https://api.example/?access_key=***"),
        ("https://api.example/?Subscription-Key=pw", "https://api.example/?Subscription-Key=***"),
        ("https://site.example/?PHPSESSID=pw&p=2", "https://site.example/?PHPSESSID=***&p=2"),
        ("https://site.example/?config=1&design=2", "https://site.example/?config=1&design=2"),
        ("https://site.example/#access_token=pw&x=1", "https://site.example/#access_token=***&x=1"),
        ("https://site.example/?nextPageToken=abc", "https://site.example/?nextPageToken=abc"),
        ("https://site.example/token/1#token", "https://site.example/token/1#token"),
        ("http://me:p/w@site.example/", "http://***"),
        ("me:pw@host", "me:***@host"),
        (":p/w@host", "***"),
        ("items.csv", "items.csv"),
        ("out@home/items@2.db", "out@home/items@2.db"),
        ("sqlite:///a@b.db", "sqlite:///a@b.db"),
        ("", ""),
    ],
)
def test_a_url_is_shown_without_its_secrets(url: str, shown: str) -> None:
    assert redact(url) == shown
    assert redact(shown) == shown


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (
            "https://api.example/v1/?key=pw&render=true",
            "https://api.example/v1/?key=***&render=true",
        ),
        ("https://api.example/?ACCESS=pw#x", "https://api.example/?ACCESS=***"),
        ("http://proxy.example:3128", "http://proxy.example:3128"),
        ("?api_key={secret}&url={url}", "?api_key={secret}&url={url}"),
        ("?api_key=pw&url={url}", "?api_key=***&url={url}"),
        ("?api_key={secret}pw", "?api_key=***"),
    ],
)
def test_the_key_of_a_service_may_have_a_plain_name(url: str, shown: str) -> None:
    assert redact_service(url) == shown


def test_a_key_of_that_name_is_ordinary_in_the_url_of_a_page() -> None:
    page = "https://shop.example/list?key=price&code=DE&access=public&sign=leo"
    assert redact(page) == redact_text(page) == page


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://ops.example/skitter/books", "https://ops.example/skitter/books"),
        ("https://ops.example:8443/", "https://ops.example:8443/"),
        (
            "https://hooks.example/services/T0AB/B0CD/x1x2x3x4x5x6x7x8x9x0pwpw",
            "https://hooks.example/services/T0AB/B0CD/***",
        ),
        ("https://chat.example/a?v=1&anything=pw#pw", "https://chat.example/a?v=***&anything=***"),
        ("https://me:pw@ops.example/a", "https://***@ops.example/a"),
    ],
)
def test_the_address_of_a_webhook_may_be_all_of_its_secret(url: str, shown: str) -> None:
    assert redact_webhook(url) == shown
    assert redact_webhook(shown) == shown


def test_urls_within_a_sentence_are_redacted() -> None:
    text = "proxy http://me:pw@proxy.example:3128 rejected our login (see https://a.example/@b)"
    assert redact_text("as in redis://:pw@host:6379.") == "as in redis://***@host:6379."
    assert redact_text("(redis://:PASSWORD@host:6379)") == "(redis://:PASSWORD@host:6379)"
    assert redact_text(text) == (
        "proxy http://***@proxy.example:3128 rejected our login (see https://a.example/@b)"
    )


def test_headers_that_may_carry_a_secret_are_masked() -> None:
    shown = redact_headers(
        {
            "Authorization": "Bearer pw",
            "COOKIE": "id=pw",
            "X-Api-Key": "pw",
            "X-Auth-Token": "pw",
            "Accept": "text/html",
            "Referer": "https://me:pw@site.example/",
        }
    )
    assert "pw" not in str(shown)
    assert shown["Accept"] == "text/html"
    assert shown["Referer"] == "https://***@site.example/"


def test_nested_data_is_masked_by_its_names() -> None:
    meta = {
        "page": 2,
        "login": {"user": "me", "password": "pw"},
        "cookies": [{"name": "id", "value": "pw"}],
        "headers": {"X-Csrf-Token": ["pw"], "Accept": ["text/html"]},
        "proxy": "http://me:pw@proxy.example",
        "http_proxy": "me:pw@proxy.example:8000",
        "other": {"proxy": "//me:pw@proxy.example:8000"},
    }
    shown = redact_tree(meta)
    assert "pw" not in str(shown)
    assert shown["page"] == 2
    assert shown["login"] == {"user": "me", "password": MASK}
    assert shown["headers"]["Accept"] == ["text/html"]


@pytest.mark.parametrize(
    "text",
    ["x:" + " " * 40_000, "a@" * 40_000, "//" * 40_000 + "@", "http://h?" + ";a=%40" * 40_000],
)
def test_redaction_takes_one_pass(text: str) -> None:
    """Anything quadratic would take minutes here."""
    redact(text)
    redact_text(text * 10)


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://me:pw@db/items",
        "postgresql://me%40corp:p%2Fw%40%23@db:5432/items",
        "postgresql://me@corp:pw@db/items",
        "postgresql:///items?user=me@corp",
        "postgresql://db/items?host=/tmp/a@b",
        "postgresql://[::1]:5432/items",
    ],
)
def test_ordinary_addresses_of_databases_are_taken(dsn: str) -> None:
    """Those that are not: tests/cli/test_secrets.py."""
    assert "PostgreSQL at" in Postgres(dsn).name
