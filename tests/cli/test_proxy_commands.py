"""skitter proxy: routes on loopback, tried and compared from the command line."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from fetch.site import reply, serve
from proxies import Proxy, open_proxy
from skitter.cli.commands.proxies import show_stats
from skitter.engine.proxies.table import RouteRow

ADDRESS = b'{"ip": "203.0.113.9", "country": "DE"}'
PAGES = {"/me": reply(ADDRESS), "/a": reply(b"<title>Books</title>" + b"x" * 400)}


@pytest.fixture
async def shop(job, tmp_path, monkeypatch) -> AsyncIterator[str]:
    """A shop that a good proxy brings, a dear one too, and a banned one does not."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("THE_WORD", "hidden-word")
    host = f"shop-{job}.example"
    async with serve(PAGES) as site, AsyncExitStack() as stack:
        names = {host: ("127.0.0.1", site.port)}
        banned = Proxy(names=names, banned_by={host})
        good, dear = Proxy(names=names), Proxy(names=names, credentials="me:hidden-word")
        for one in (good, banned, dear):
            await stack.enter_async_context(open_proxy(one))
        (tmp_path / "skitter.toml").write_text(
            f"""
            [routes]
            test_url = "http://{host}/me"

            [[proxy]]
            name = "good-{job}"
            url = "{good.url()}"
            price_per_request = 0.002

            [[proxy]]
            name = "banned-{job}"
            url = "{banned.url()}"

            [[proxy]]
            name = "dear-{job}"
            url = "{dear.url()}"
            user = "me"
            secret = "env:THE_WORD"
            price_per_request = 0.5

            [[proxy]]
            name = "dead-{job}"
            url = "http://127.0.0.1:1"
            """
        )
        yield host


async def test_test_tells_address_country_time_and_price(shop, job, skitter_here):
    answer = await skitter_here("proxy", "test", "--json")
    rows = {row["proxy"].removesuffix(f"-{job}"): row for row in answer.json}
    assert answer.exit_code == 1  # not all of them work
    assert (rows["good"]["address"], rows["good"]["country"]) == ("203.0.113.9", "DE")
    assert (rows["good"]["price"], rows["banned"]["price"]) == ("0.002 a request", "free")
    assert rows["good"]["seconds"] > 0
    assert "answered 403" in rows["banned"]["problem"]
    assert rows["banned"]["address"] == ""  # a block page says none
    assert "does not listen" in rows["dead"]["problem"]
    one = await skitter_here("proxy", "test", f"dear-{job}")
    assert one.exit_code == 0
    assert "203.0.113.9" in one.out
    assert "hidden-word" not in one.out + one.err


async def test_bench_compares_and_recommends_and_stats_remember(shop, job, skitter_here):
    answer = await skitter_here("proxy", "bench", f"http://{shop}/a", "--times", "4", "--json")
    rows = {row["proxy"].removesuffix(f"-{job}"): row for row in answer.json["routes"]}
    assert answer.json["recommended"] == f"good-{job}"
    assert (rows["good"]["good"], rows["good"]["success"]) == (4, 1.0)
    assert rows["good"]["cost_per_1000_good"] == 2
    assert rows["dear"]["cost_per_1000_good"] == 500
    assert (rows["banned"]["bans"], rows["banned"]["good"]) == (4, 0)
    assert rows["dead"]["proxy_faults"] >= 1

    known = (await skitter_here("proxy", "stats", "--domain", shop, "--json")).json
    found = {row["proxy"].removesuffix(f"-{job}"): row for row in known}
    assert (found["good"]["good"], found["good"]["cost"]) == (4, 0.008)
    assert (found["banned"]["bans"], found["banned"]["success"]) == (4, 0.0)
    unknown = await skitter_here("proxy", "stats", "--domain", "nobody.example")
    assert unknown.out == "No page of nobody.example has come through a proxy yet.\n"
    totals = (await skitter_here("proxy", "stats")).out
    assert f"dead-{job}" in totals

    forgot = await skitter_here("proxy", "forget", f"good-{job}")
    assert forgot.exit_code == 0
    assert f"(all)   good-{job}" not in (await skitter_here("proxy", "stats")).out


async def test_what_programs_read_has_keys_and_numbers_for_programs(shop, job, skitter_here):
    bench = await skitter_here("proxy", "bench", f"http://{shop}/a", "--times", "1", "--json")
    stats = await skitter_here("proxy", "stats", "--json")
    rows = [*bench.json["routes"], *stats.json]
    assert all(name.isidentifier() and name.islower() for row in rows for name in row)
    numbers = ("page_faults", "proxy_faults", "success", "cost_per_1000_good")
    for row in rows:
        assert all(isinstance(row[name], int | float | None) for name in numbers)
    good = next(one for one in stats.json if one["proxy"] == f"good-{job}")
    assert (good["domain"], good["success"], good["cost_per_1000_good"]) == ("(all)", 1.0, 2.0)


async def test_what_is_not_known_cannot_be_forgotten(shop, job, skitter_here, tmp_path):
    await skitter_here("proxy", "test", f"good-{job}")
    nobody = await skitter_here("proxy", "forget", "NOPE")
    assert (nobody.exit_code, nobody.out) == (2, "")
    assert "nothing is known about a proxy 'NOPE': known are " in nobody.err
    assert f"good-{job}" in nobody.err
    both = await skitter_here("proxy", "forget", f"good-{job}", "NOPE")
    assert both.exit_code == 2
    totals = (await skitter_here("proxy", "stats")).out
    assert re.search(rf"\(all\) +good-{job} ", totals)  # nothing was forgotten
    (tmp_path / "skitter.toml").unlink()  # what is known need not be configured any more
    for _ in range(2):  # what was learned about its domains is still known
        forgot = await skitter_here("proxy", "forget", f"good-{job}")
        assert (forgot.exit_code, forgot.out) == (0, f"forgot what good-{job} spent.\n")


def test_stats_fit_on_eighty_columns(capsys):
    row = RouteRow(
        domain="shop.example.com",
        proxy="brightdata",
        good=12_345,
        bans=1_234,
        page_faults=1_200,
        proxy_faults=34,
        success=1.0,
        mb=1234.5,
        cost=123.4567,
        cost_per_1000_good=9999.0,
    )
    show_stats([row])
    head, row = capsys.readouterr().out.splitlines()
    assert max(len(head.rstrip()), len(row.rstrip())) <= 80
    assert head.split("faults")[0].split() == ["domain", "proxy", "good", "bans"]
    assert row.split()[4] == "1,234"


async def test_the_comparison_is_a_table_of_one_line_per_proxy(shop, job, skitter_here):
    shown = (await skitter_here("proxy", "bench", f"http://{shop}/a", "--times", "1")).out
    head, *rows, best = shown.splitlines()
    assert head.split()[:7] == ["proxy", "good", "bans", "faults", "ok", "seconds", "per"]
    assert [row.split("-")[0] for row in rows] == ["good", "banned", "dear", "dead"]
    assert best == f"recommended: good-{job}"


async def test_config_shows_routes_and_where_their_secrets_are(shop, job, skitter_here):
    shown = (await skitter_here("config", "--json")).json
    assert shown[f"proxy.dear-{job}.secret"]["value"] == "env:THE_WORD"
    assert "hidden-word" not in str(shown)


async def test_config_hides_a_key_that_was_written_into_an_address(
    tmp_path, monkeypatch, skitter_here
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "skitter.toml").write_text(
        """
        [[proxy]]
        name = "one"
        kind = "api"
        url = "https://api.example/?key=hidden-word"
        template = "url={url}&render=true&apikey=hidden-word"
        """
    )
    answer = await skitter_here("config", "--json")
    assert answer.json["proxy.one.url"]["value"] == "https://api.example/?key=***"
    assert answer.json["proxy.one.template"]["value"] == "url={url}&render=true&apikey=***"
    assert "hidden-word" not in answer.out + answer.err


async def test_without_a_proxy_it_says_what_to_write(tmp_path, monkeypatch, skitter_here):
    monkeypatch.chdir(tmp_path)
    answer = await skitter_here("proxy", "test")
    assert answer.exit_code == 2
    assert "[[proxy]]" in answer.err


async def test_a_look_at_a_page_goes_by_the_proxies_too(shop, skitter_here, tmp_path):
    """Only the proxy knows where the shop is."""
    config = tmp_path / "skitter.toml"
    config.write_text("[[proxy]]".join(config.read_text().split("[[proxy]]")[:2]))

    page = await skitter_here("fetch", f"http://{shop}/a", "--json")
    assert (page.exit_code, page.json["title"]) == (0, "Books")
    mapped = await skitter_here("map", f"http://{shop}/a")
    assert "does not resolve" not in mapped.err

    config.write_text(f"{config.read_text()}budget_requests = 0\n")
    spent = await skitter_here("fetch", f"http://{shop}/a")
    assert spent.exit_code == 1
    assert "no proxy is free" in spent.err
