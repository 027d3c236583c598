"""robots.txt by RFC 9309. The section of each rule is in the name or beside the case."""

from __future__ import annotations

import random

import pytest
from protego import Protego

from fetch.site import redirect, reply, serve, then_close
from skitter.errors import AddressRefused, ConnectFailed
from skitter.fetch import Guard, HttpFetcher, RobotsRules, StaticFetcher, fetch_robots
from skitter.fetch.robots import (
    FRESH_S,
    LOST_AFTER_S,
    MAX_BYTES,
    TROUBLE_S,
    product_token,
    robots_url,
)
from skitter.model import Response
from unit.growth import growth

AT = 1_700_000_000.0
AGENT = "Skitter/0.1 (+https://github.com/skitter/skitter)"
ORIGIN = "https://example.com"


def rules(text: str | bytes) -> RobotsRules:
    body = text if isinstance(text, bytes) else text.encode()
    return RobotsRules.from_response(200, body, at=AT)


def url(path: str) -> str:
    return f"{ORIGIN}{path}"


# --- the rules (2.2) ------------------------------------------------------------------------------

GROUPS = """
User-agent: *
Disallow: /
User-agent: SKITTER
Disallow: /ours
User-agent: skitterish
Disallow: /theirs
User-agent: other
User-agent: skitter
Disallow: /merged
"""


@pytest.mark.parametrize(
    ("text", "path", "allowed"),
    [
        ("", "/x", True),
        ("<html>not robots at all</html>", "/x", True),
        ("Disallow: /x", "/x", True),  # no group
        ("User-agent: *\nDisallow:", "/x", True),
        ("User-agent: *\nDisallow: /x", "/x", False),
        ("User-agent: *\nDisallow: /x", "/xyz", False),
        ("User-agent: *\nDisallow: /x", "/X", True),  # paths keep their case
        ("user-AGENT : *\ndisALLOW : /x # why", "/x", False),
        ("User-agent: *\nDisallow: /", "/robots.txt", True),  # 2.2.2: implicitly allowed
        # 2.2.2: the longest match wins, allow wins a tie
        ("User-agent: *\nDisallow: /a\nAllow: /a/b", "/a/b/c", True),
        ("User-agent: *\nAllow: /a/b\nDisallow: /a", "/a/b/c", True),
        ("User-agent: *\nAllow: /a\nDisallow: /a/b", "/a/b/c", False),
        ("User-agent: *\nDisallow: /a\nAllow: /a", "/a", True),
        # 2.2.2: percent-encoding is compared as what it stands for
        ("User-agent: *\nDisallow: /caf%C3%A9", "/caf%c3%a9", False),
        ("User-agent: *\nDisallow: /café", "/caf%C3%A9", False),
        ("User-agent: *\nDisallow: /%7ejoe", "/~joe", False),
        # 2.2.3: special characters
        ("User-agent: *\nDisallow: /*.php$", "/a/b.php", False),
        ("User-agent: *\nDisallow: /*.php$", "/a/b.php?x=1", True),
        ("User-agent: *\nDisallow: /*?*session=", "/a?b=1&session=2", False),
        # 2.2.1: groups by product token, in any case, merged
        (GROUPS, "/anything", True),
        (GROUPS, "/ours", False),
        (GROUPS, "/theirs", True),
        (GROUPS, "/merged", False),
        # 2.2.4: other records do not end a group
        ("User-agent: *\nSitemap: /s.xml\nDisallow: /x", "/x", False),
        ("User-agent: a\nSitemap: /s.xml\nUser-agent: skitter\nDisallow: /x", "/x", False),
        ("\ufeffUser-agent: *\nDisallow: /x", "/x", False),
        ("User-agent: *\r\nDisallow: /x\r\n", "/x", False),
        ("User-agent: *\rDisallow: /x\r", "/x", False),
    ],
)
def test_the_rules_are_those_of_rfc_9309(text, path, allowed):
    assert rules(text).allows(url(path), AGENT) is allowed


def test_bytes_that_are_not_utf8_do_not_hide_the_other_rules():
    assert not rules(b"User-agent: *\nDisallow: /\xff\xfe\nDisallow: /x").allows(url("/x"), AGENT)


def test_only_whole_lines_within_500_kib_are_parsed():
    head = b"User-agent: *\nDisallow: /kept\n"
    cut = b"Disallow: /cut-in-half\n"
    filler = b"#" * (MAX_BYTES - len(head) - 1 - len(cut) // 2) + b"\n"
    found = rules(head + filler + cut + b"Disallow: /beyond\n")
    assert not found.allows(url("/kept"), AGENT)
    assert found.allows(url("/cut-"), AGENT)
    assert found.allows(url("/cut-in-half"), AGENT)
    assert found.allows(url("/beyond"), AGENT)
    assert len(found.body) <= MAX_BYTES


def test_one_endless_line_says_nothing():
    assert rules(b"User-agent: *" + b"x" * MAX_BYTES).body == b""


def test_crawl_delay_and_sitemaps_are_read():
    found = rules("Sitemap: https://a/1.xml\nUser-agent: skitter\nCrawl-delay: 2.5\nSitemap: /2")
    assert found.crawl_delay_s(AGENT) == 2.5
    assert found.crawl_delay_s("other") is None
    assert found.sitemaps == ("https://a/1.xml", "/2")


@pytest.mark.parametrize(
    ("text", "delay_s"),
    [
        ("Request-rate: 1/5", 5.0),
        ("Request-rate: 2/1m", 30.0),
        ("Request-rate: 1/10s 0600-0845", 10.0),  # at any time of day
        ("Request-rate: 1/5\nCrawl-delay: 7", 7.0),
        ("Request-rate: 1/9\nCrawl-delay: 0.5", 9.0),
        ("Request-rate: 0/9", None),
        ("Request-rate: soon", None),
    ],
)
def test_a_request_rate_is_a_delay_too(text, delay_s):
    assert rules(f"User-agent: *\n{text}").crawl_delay_s(AGENT) == delay_s


def test_robots_txt_itself_may_always_be_fetched():  # 2.2.2
    found = rules("User-agent: *\nDisallow: /")
    assert found.allows(url("/robots.txt"), AGENT)
    assert not found.allows(url("/a/robots.txt"), AGENT)


@pytest.mark.parametrize(
    ("path", "said"),
    [("/", "train-ai=n"), ("/news/1", "train-ai=y"), ("/news/old/1", "train-ai=n, search=n")],
)
def test_the_usage_rule_that_matches_most_of_the_path_counts(path, said):
    found = rules(
        "User-agent: *\nContent-Usage: train-ai=n\nContent-Usage: /news/ train-ai=y\n"
        "Content-Usage: /news/old/ train-ai=n, search=n # all\nUser-agent: other\nContent-Usage: x"
    )
    assert found.usage(url(path), AGENT) == said
    assert rules("User-agent: *\nDisallow: /x").usage(url(path), AGENT) == ""


@pytest.mark.parametrize("value", ["-1", "nan", "inf", "soon", ""])
def test_a_crawl_delay_that_is_no_delay_is_ignored(value):
    assert rules(f"User-agent: *\nCrawl-delay: {value}").crawl_delay_s(AGENT) is None


@pytest.mark.parametrize(
    ("user_agent", "token"),
    [
        (AGENT, "skitter"),
        ("My-Bot", "my-bot"),
        ("my_bot/2 (+mailto:a@b)", "my_bot"),
        ("Mozilla/5.0 (compatible; FooBot/1.0; +https://foo.example)", "foobot"),
    ],
)
def test_the_product_token_is_what_groups_are_compared_with(user_agent, token):
    assert product_token(user_agent) == token


def test_words_of_the_users_comment_match_no_group():
    assert rules("User-agent: github\nDisallow: /").allows(url("/"), AGENT)


# --- the answers (2.3) ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "allowed", "ttl_s"),
    [
        (204, True, FRESH_S),
        (301, True, FRESH_S),  # 2.3.1.2: too many redirects are "unavailable"
        (400, True, FRESH_S),
        (401, True, FRESH_S),
        (403, True, FRESH_S),
        (404, True, FRESH_S),
        (410, True, FRESH_S),
        (451, True, FRESH_S),
        (429, False, TROUBLE_S),
        (500, False, TROUBLE_S),
        (503, False, TROUBLE_S),
        (599, False, TROUBLE_S),
        (999, False, TROUBLE_S),
        (101, False, TROUBLE_S),
    ],
)
def test_the_status_decides_when_there_are_no_rules(status, allowed, ttl_s):
    found = RobotsRules.from_response(status, b"User-agent: *\nDisallow: /x", at=AT)
    assert found.allows(url("/y"), AGENT) is allowed
    assert found.ttl_s == ttl_s


def test_rules_are_read_from_any_2xx_and_from_nothing_else():
    for status, allowed in ((200, False), (203, False), (404, True)):
        found = RobotsRules.from_response(status, b"User-agent: *\nDisallow: /x", at=AT)
        assert found.allows(url("/x"), AGENT) is allowed


def test_trouble_is_asked_about_ever_more_rarely_and_after_30_days_everything_is_allowed():
    since, at, asked = AT, AT, 0
    while True:
        found = RobotsRules.from_response(503, at=at, unreachable_since=since)
        if found.allows(url("/x"), AGENT):
            break
        asked += 1
        assert TROUBLE_S <= found.ttl_s <= FRESH_S
        at += found.ttl_s
    assert at - since >= LOST_AFTER_S
    assert found.ttl_s == FRESH_S
    assert asked < 50


def test_trouble_remembers_when_it_began_and_an_answer_forgets_it():
    first = RobotsRules.unreachable("no answer", at=AT)
    second = RobotsRules.from_response(503, at=AT + 900, unreachable_since=first.unreachable_since)
    third = RobotsRules.from_response(404, at=AT + 999, unreachable_since=second.unreachable_since)
    assert [found.unreachable_since for found in (first, second, third)] == [AT, AT, None]


@pytest.mark.parametrize(
    ("header", "ttl_s"), [("3600", 3600), ("5", TROUBLE_S), ("9" * 9, FRESH_S)]
)
def test_retry_after_is_obeyed_within_reason(header, ttl_s):
    assert RobotsRules.from_response(429, at=AT, retry_after=header).ttl_s == ttl_s


# --- sharing and explaining -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "found",
    [
        rules("User-agent: *\nDisallow: /x\nCrawl-delay: 3"),
        RobotsRules.from_response(404, at=AT),
        RobotsRules.from_response(503, at=AT, retry_after="1000", unreachable_since=AT - 5),
        RobotsRules.unreachable("the name does not resolve", at=AT),
    ],
)
def test_rules_survive_the_way_through_the_frontier(found):
    found.allows(url("/x"), AGENT)  # parsed, which must not show in the bytes
    again = RobotsRules.from_bytes(found.to_bytes())
    assert again == found
    assert again.ttl_s == found.ttl_s
    assert again.allows(url("/x"), AGENT) is found.allows(url("/x"), AGENT)
    assert len(found.to_bytes()) < 200


@pytest.mark.parametrize(
    ("found", "path", "sentence"),
    [
        (rules(GROUPS), "/ours", "disallowed by line 5, `Disallow: /ours`"),
        (rules(GROUPS), "/merged", "disallowed by line 10, `Disallow: /merged`"),
        (rules(GROUPS), "/free", "allowed."),
        (
            rules("User-agent: *\nDisallow: /a\nAllow: /a/b # but"),
            "/a/b",
            "allowed by line 3, `Allow: /a/b # but`",
        ),
        (RobotsRules.from_response(404, at=AT), "/", "everything may be fetched (it answered 404)"),
        (RobotsRules.from_response(503, at=AT), "/", "nothing may be fetched for now (it answered"),
        (RobotsRules.unreachable("no DNS", at=AT), "/", "nothing may be fetched for now (no DNS)"),
        (
            RobotsRules.unreachable("no DNS", at=AT, unreachable_since=AT - LOST_AFTER_S),
            "/",
            "everything may be fetched (no DNS, for 30 days)",
        ),
    ],
)
def test_the_verdict_can_be_explained(found, path, sentence):
    assert sentence in found.explain(url(path), AGENT)


def many_rules(size: int) -> RobotsRules:
    return rules("User-agent: *\n" + "Disallow: /*a$\n" * size)


def many_names(size: int) -> RobotsRules:
    """Each of them would have each of the rules."""
    names = "".join(f"User-agent: bot{i}\n" for i in range(size))
    return rules(names + "Disallow: /x\n" * size)


def many_groups(size: int) -> RobotsRules:
    return rules("User-agent: bot\nDisallow: /x\nUser-agent: skitter\nDisallow: /y\n" * size)


@pytest.mark.parametrize("make", [many_rules, many_names, many_groups])
@pytest.mark.parametrize("ask", [RobotsRules.allows, RobotsRules.explain])
def test_the_cost_of_rules_grows_as_their_number(make, ask):
    assert growth(lambda size: ask(make(size), url("/page"), AGENT), 800) < 9


LINES = [
    *("User-agent: *", "User-agent: skitter", "User-Agent: Skit # us", "useragent: other"),
    *("User agent other", "User-agent: skitter*", "User-agent: myskitter", "User-agent:"),
    *("Disallow: /a", "Disallow: /a/b", "Allow: /a/b", "Disallow: /*c$", "Disallow /d", "Allow: /"),
    *("Disallow: /", "Disallow:", "disalow: /a/c", "Crawl-delay: 3", "Crawl-delay: 7", "Foo: bar"),
    *("junk words", "# comment", "junk # a: b", "Sitemap: /s", "Sitemap http://x/y", "Host: x", ""),
]


@pytest.mark.parametrize("seed", range(20))
def test_the_lines_that_speak_to_us_say_the_same_as_the_whole_file(seed):
    chance = random.Random(seed)
    for _ in range(100):
        text = "\n".join(chance.choices(LINES, k=chance.randint(1, 12)))
        whole, ours = Protego.parse(text), rules(text)
        assert ours.crawl_delay_s(AGENT) == whole.crawl_delay("skitter"), text
        for path in ("/", "/a", "/a/b/c", "/a/c", "/d", "/e"):
            assert ours.allows(url(path), AGENT) == whole.can_fetch(url(path), "skitter"), text


# --- fetching -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("https://example.com", "https://example.com/robots.txt"),
        ("https://example.com:8443/a/b?c#d", "https://example.com:8443/robots.txt"),
        ("http://[::1]/", "http://[::1]/robots.txt"),
    ],
)
def test_the_rules_stand_at_the_root_of_the_origin(page, expected):
    assert robots_url(page) == expected


def moved(to: str, status: int = 301) -> Response:
    return Response(url="", status=status, headers=(("location", to),))


async def test_up_to_five_redirects_are_followed_to_other_hosts_too():
    pages: dict[str, bytes | Response | Exception] = {
        f"https://host{hop}.example/robots.txt": moved(f"https://host{hop + 1}.example/robots.txt")
        for hop in range(5)
    }
    pages["https://host5.example/robots.txt"] = b"User-agent: *\nDisallow: /x"
    fetcher = StaticFetcher(pages)
    found = await fetch_robots(fetcher, Guard(), "https://host0.example", at=AT)
    assert len(fetcher.asked) == 6
    assert not found.allows("https://host0.example/x", AGENT)


async def test_the_sixth_redirect_is_not_followed_and_counts_as_unavailable():
    fetcher = StaticFetcher({f"{ORIGIN}/robots.txt": moved("/robots.txt")})
    found = await fetch_robots(fetcher, Guard(), ORIGIN, at=AT)
    assert len(fetcher.asked) == 6
    assert found.allows(url("/x"), AGENT)


@pytest.mark.parametrize("location", ["", "mailto:a@b", "ftp://example.com/robots.txt"])
async def test_a_redirect_to_nowhere_counts_as_unavailable(location):
    fetcher = StaticFetcher({f"{ORIGIN}/robots.txt": moved(location)})
    assert (await fetch_robots(fetcher, Guard(), ORIGIN, at=AT)).allows(url("/x"), AGENT)


@pytest.mark.parametrize(
    "location",
    ["http://169.254.169.254/latest/meta-data/", "//127.0.0.1/", "http://localhost:6379/"],
)
async def test_a_redirect_into_our_network_is_not_followed(location):
    fetcher = StaticFetcher({f"{ORIGIN}/robots.txt": moved(location)})
    found = await fetch_robots(fetcher, Guard(), ORIGIN, at=AT)
    assert fetcher.asked_urls == [f"{ORIGIN}/robots.txt"]
    assert not found.allows(url("/x"), AGENT)
    assert "--allow-host" in found.reason


async def test_a_redirect_with_credentials_is_not_followed():
    fetcher = StaticFetcher({f"{ORIGIN}/robots.txt": moved("https://u:p@example.org/")})
    assert not (await fetch_robots(fetcher, Guard(), ORIGIN, at=AT)).allows(url("/x"), AGENT)


async def test_a_network_error_disallows_everything_for_now():
    fetcher = StaticFetcher({f"{ORIGIN}/robots.txt": ConnectFailed(ORIGIN, "no route")})
    found = await fetch_robots(fetcher, Guard(), ORIGIN, at=AT, unreachable_since=AT - 60)
    assert (found.status, found.reason, found.unreachable_since) == (0, "no route", AT - 60)
    assert not found.allows(url("/x"), AGENT)


async def test_robots_are_fetched_over_a_real_socket(fetcher):
    pages = {
        "/robots.txt": redirect("/elsewhere.txt"),
        "/elsewhere.txt": reply(b"User-agent: *\nDisallow: /x"),
    }
    async with serve(pages) as site:
        guard = Guard.for_seeds([site.url()])
        found = await fetch_robots(fetcher, guard, site.url(), at=AT)
        assert site.paths == ["/robots.txt", "/elsewhere.txt"]
    assert not found.allows(site.url("/x"), AGENT)
    assert found.allows(site.url("/y"), AGENT)


async def test_a_real_redirect_to_this_machine_by_another_name_is_refused():
    async with serve({}) as inside:
        pages = {"/robots.txt": redirect(inside.url("/robots.txt", host="localhost"))}
        async with serve(pages) as site:
            guard = Guard.for_seeds([site.url()])
            async with HttpFetcher(guard=guard) as fetcher:
                found = await fetch_robots(fetcher, guard, site.url(), at=AT)
                with pytest.raises(AddressRefused):
                    guard.check_url(inside.url())
        assert inside.connections == 0
    assert not found.allows(site.url("/x"), AGENT)


async def test_an_answer_that_is_not_http_disallows_everything_for_now(fetcher):
    async with serve({"/robots.txt": then_close(b"junk\r\n\r\n")}) as site:
        guard = Guard.for_seeds([site.url()])
        found = await fetch_robots(fetcher, guard, site.url(), at=AT)
    assert not found.allows(site.url("/x"), AGENT)
    assert found.reason == "the response is not HTTP"
