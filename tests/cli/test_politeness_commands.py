"""What the command line tells about politeness: hosts, status, why, audit --politeness."""

from __future__ import annotations

from skitter.fetch.robots import RobotsRules
from skitter.frontier.delays import SentRequest
from skitter.frontier.jobs import create_job
from skitter.frontier.sites.learned import store_robots
from skitter.model import Failure, Feedback, Request
from skitter.settings import JobOptions, Politeness


async def slow_job(server, job):
    """Two hosts: one is as it should be, one answered 503 to its first page."""
    frontier = await create_job(server, job, options=JobOptions(politeness=Politeness(delay_s=40)))
    await frontier.add([Request(url=f"https://{host}.test/{n}") for host in "ab" for n in range(3)])
    leases = (await frontier.lease(2)).leases
    [refused] = [lease for lease in leases if lease.host == "b.test"]
    await frontier.retry([Failure(lease=refused, error="503", feedback=Feedback(incident=503))])
    return frontier


async def test_the_slowest_host_is_shown_first_with_the_reason(server, job, skitter_here):
    await slow_job(server, job)

    slow, usual = (await skitter_here("hosts", job, "--json")).json
    shown = await skitter_here("hosts", job, "--limit", "1")

    assert (usual["host"], usual["delay_s"], usual["because"]) == ("a.test", 40, "configured")
    assert (slow["host"], slow["because"]) == ("b.test", "it answered 503")
    assert 80 <= slow["delay_s"] <= 88
    assert "b.test" in shown.out
    assert "a.test" not in shown.out


async def test_a_job_without_hosts_has_none_to_show(server, job, skitter_here):
    await create_job(server, job)

    assert (await skitter_here("hosts", job)).out == f"{job}: no hosts yet.\n"


async def test_status_why_and_top_say_that_a_host_was_slowed_down(server, job, skitter_here):
    await slow_job(server, job)

    status = await skitter_here("status", job)
    assert f"1 refusal by hosts, which now get fewer requests: `skitter hosts {job}`" in status.out
    why = (await skitter_here("why", job, "https://b.test/1", "--json")).json
    [reason] = [one for one in why["because"] if "its host gets a request every" in one]
    assert reason.endswith("s: it answered 503")
    top = await skitter_here("top", job, "--once")
    assert "b.test gets a request every 8" in top.out


async def test_the_audit_of_politeness_names_hosts_and_problems(server, job, skitter_here):
    frontier = await slow_job(server, job)
    nothing = await skitter_here("audit", job, "--politeness")
    assert nothing.out == f"{job}: no request to a host with a delay is on record.\n"

    def left(number, host="a.test", **changes):
        trip = SentRequest(host, f"https://{host}/{number}", 40_000 * number, 0, 0.1, 40)
        return trip._replace(**changes)

    await frontier.record([left(1), left(2)])
    polite = await skitter_here("audit", job, "--politeness")
    assert polite.exit_code == 0
    assert "40.000 s" in polite.out
    assert "Politeness was kept at every host." in polite.out

    await store_robots(frontier, "a.test", rules("Disallow: /4"), ttl_s=60)
    await frontier.record([left(3), left(4, at_ms=40_000 * 3 + 500)])
    rude = await skitter_here("audit", job, "--politeness")
    assert rude.exit_code == 1
    assert "a.test: 1 request sent too soon after the previous one" in rude.out
    assert "disallowed  https://a.test/4" in rude.out


def rules(text: str) -> bytes:
    return RobotsRules(
        status=200, body=f"User-agent: *\n{text}\n".encode(), fetched_at=0
    ).to_bytes()
