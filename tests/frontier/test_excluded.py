"""What the job's patterns exclude is neither fetched nor dead, and comes back with the patterns."""

from __future__ import annotations

from collections.abc import Sequence

from skitter.engine.leases import exclude
from skitter.frontier.audit.auditor import audit
from skitter.frontier.audit.why import why
from skitter.frontier.control import change_options
from skitter.frontier.dead import dead_letters, excluded_letters, find_dead, unfetched
from skitter.frontier.frontier import Frontier
from skitter.frontier.jobs import create_job
from skitter.frontier.records.exposition import exposition
from skitter.model import Completion, Ended, Failure, Lease, Request
from skitter.observe.report import CrawlResult, Written, end_of, report_of
from skitter.settings import JobOptions, Layout, Limits, Politeness

HIDDEN = [f"https://{host}.test/private/{n}" for host in "ab" for n in range(3)]
SHOWN = [f"https://{host}.test/public/{n}" for host in "ab" for n in range(2)]


async def take(frontier: Frontier) -> list[Lease]:
    found = []
    while batch := (await frontier.lease(50)).leases:
        found += batch
    return found


async def set_aside(frontier: Frontier, leases: Sequence[Lease]) -> list[Ended]:
    judged = [exclude(lease, frontier.options.limits) for lease in leases]
    return await frontier.bury([one for one in judged if one is not None])


async def finish(frontier: Frontier, leases: Sequence[Lease]) -> None:
    await frontier.complete([Completion(lease=lease) for lease in leases])


async def fill(frontier: Frontier) -> list[Lease]:
    await frontier.add([Request(url, depth=1) for url in HIDDEN + SHOWN])
    await change_options(frontier, {"exclude": "/private/*", "delay_s": 0, "max_in_flight": 50})
    return await take(frontier)


async def test_an_excluded_url_is_a_state_of_its_own(frontier):
    leases = await fill(frontier)
    await set_aside(frontier, leases)
    rest = [lease for lease in leases if "/public/" in lease.url]
    await frontier.bury([Failure(lease=rest[0], error="404 Not Found")])
    await finish(frontier, rest[1:])

    stats = await frontier.stats()

    assert (stats.excluded, stats.dead, stats.done) == (len(HIDDEN), 1, len(SHOWN) - 1)
    assert stats.crawled
    assert not (await audit(frontier)).problems
    assert [one.url async for one in dead_letters(frontier)] == [rest[0].url]
    set_aside_now = [one async for one in excluded_letters(frontier)]
    assert sorted(one.url for one in set_aside_now) == HIDDEN
    assert await find_dead(frontier, set_aside_now[0].fingerprint) is None
    assert len([one async for one in unfetched(frontier)]) == len(HIDDEN) + 1
    assert f'skitter_queue_depth{{crawl="{frontier.job}",state="excluded"}} 6' in await exposition(
        frontier.server
    )


async def test_why_names_the_pattern_and_how_it_comes_back(frontier):
    await set_aside(frontier, await fill(frontier))

    found = await why(frontier, HIDDEN[0])

    assert found.state == "excluded"
    assert found.because[0].endswith("it matches '/private/*' of the option exclude")
    assert found.because[1] == "it comes back when `skitter set` changes that option"


async def test_it_comes_back_when_the_patterns_let_it_in(frontier):
    leases = await fill(frontier)
    await set_aside(frontier, leases)
    await finish(frontier, [lease for lease in leases if "/public/" in lease.url])

    await change_options(frontier, {"exclude": "https://b.test/*"})
    back = await take(frontier)

    assert sorted(lease.url for lease in back) == HIDDEN[:3]
    assert (await frontier.stats()).excluded == 3
    # As a later run does, with the settings of its flags.
    again = await create_job(frontier.server, frontier.job, options=JobOptions())
    assert ((await again.stats()).excluded, (await again.stats()).pending) == (0, 3)
    assert not (await audit(frontier)).problems


async def test_what_was_judged_by_old_patterns_is_pending_again(frontier):
    """A worker may still judge by patterns that an operator has just removed."""
    leases = await fill(frontier)
    judged = [one for lease in leases if (one := exclude(lease, frontier.options.limits))]
    await change_options(frontier, {"exclude": None})

    assert set(await frontier.bury(judged)) == {Ended.RELEASED}

    stats = await frontier.stats()
    assert (stats.excluded, stats.pending) == (0, len(HIDDEN))
    assert not (await audit(frontier)).problems


async def test_it_uses_no_turn_of_its_host(make_frontier):
    patterns = Limits(exclude="/private/*")
    polite = JobOptions(politeness=Politeness(delay_s=5), limits=patterns)
    frontier = await make_frontier(polite)
    await frontier.add([Request(url) for url in (*HIDDEN[:3], SHOWN[0])])

    leased = []
    while leases := (await frontier.lease(1)).leases:  # the clock stands still
        leased += [lease.url for lease in leases]
        await set_aside(frontier, leases)

    assert leased == [*HIDDEN[:3], SHOWN[0]]


def test_links_must_match_include_and_start_urls_need_not():
    limits = Limits(include="/docs/* /faq", exclude="*.pdf")

    judged = {
        (path, depth): limits.excludes_request(Request(f"https://a.test{path}", depth=depth))
        for path in ("/docs/1", "/faq", "/blog", "/docs/1.pdf")
        for depth in (0, 1)
    }

    assert {where for where, why in judged.items() if why} == {
        ("/blog", 1),
        ("/docs/1.pdf", 0),
        ("/docs/1.pdf", 1),
    }
    assert judged["/blog", 1] == "it matches no pattern of the option include"


async def test_a_crawl_that_excludes_most_urls_has_not_failed(frontier):
    before = await frontier.stats()
    leases = await fill(frontier)
    await set_aside(frontier, leases)
    await finish(frontier, [lease for lease in leases if "/public/" in lease.url])

    result = CrawlResult(before, await frontier.stats(), 1.0, over=True)

    report = report_of(result, Written("x.db"))
    assert (end_of(result), report.exit_code) == ("finished", 0)
    assert (report.dead, report.excluded) == (0, len(HIDDEN))


async def test_shards_each_set_their_own_aside(make_frontier):
    frontier = await make_frontier(layout=Layout(shards=3))
    await set_aside(frontier, await fill(frontier))

    assert (await frontier.stats()).excluded == len(HIDDEN)
    await change_options(frontier, {"exclude": None})

    assert (await frontier.stats()).pending == len(HIDDEN)
