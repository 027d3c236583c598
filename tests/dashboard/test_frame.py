"""The frame of the dashboard: log-in, keyboard, themes, what is disconnected, what is hostile."""

from __future__ import annotations

import pytest
from playwright.async_api import Locator, Page, expect

from conftest import rude
from dashboard.conftest import Desk, token_with
from skitter.frontier.control import set_state
from skitter.frontier.frontier import Frontier
from skitter.frontier.jobs import create_job, purge_job
from skitter.frontier.transport.connection import Server
from skitter.frontier.workers import log_lines
from skitter.model import Completion, Failure, Request, State

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

HOSTILE = "<img src=x onerror=document.title='hacked'><script>document.title='hacked'</script>"


def field(page: Page, name: str):
    """A number of the overview, by its name in `skitter status --json`."""
    return page.locator(f"main dd[data-field={name}]")


async def test_a_wrong_token_is_answered_and_the_right_one_opens_the_dashboard(
    desk: Desk, redis: Server
) -> None:
    await create_job(redis, "log-in", options=rude())
    page = await desk.open(logged_in=False)

    await page.get_by_label("Token").fill("skt_wrong")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("alert")).to_contain_text("mistyped or was revoked")
    await expect(page.get_by_label("Token")).to_be_focused()

    await page.get_by_label("Token").fill(desk.token)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("navigation", name="Pages")).to_be_visible()

    await page.get_by_role("button", name="Log out").click()
    await expect(page.get_by_label("Token")).to_be_visible()
    await page.reload()
    await expect(page.get_by_label("Token")).to_be_visible()


async def test_a_link_that_was_used_says_so(desk: Desk) -> None:
    page = await desk.open("#token=used", logged_in=False)
    await expect(page.get_by_role("alert")).to_contain_text("This link works once")
    assert "token" not in page.url


async def test_a_job_is_paused_and_resumed_and_every_action_shows_its_command(
    desk: Desk, redis: Server
) -> None:
    frontier = await create_job(redis, "steered", options=rude())
    await frontier.add([Request(f"http://a.test/{i}") for i in range(3)])
    page = await desk.open("#/jobs/steered/overview")
    await expect(field(page, "pending")).to_have_text("3")

    await page.get_by_role("button", name="Pause").hover()
    await expect(page.get_by_role("tooltip")).to_contain_text("skitter pause steered")
    await page.get_by_role("button", name="Pause").click()
    await expect(page.locator(".head .pill")).to_have_text("paused")
    assert (await frontier.stats()).state is State.PAUSED

    await page.get_by_role("button", name="Resume").click()
    await expect(page.locator(".head .pill")).to_have_text("running")
    assert (await frontier.stats()).state is State.RUNNING


async def test_a_job_offers_what_fits_its_state(desk: Desk, redis: Server) -> None:
    frontier = await create_job(redis, "over", options=rude())
    await frontier.add([Request("http://a.test/")])
    page = await desk.open("#/jobs/over/overview")
    actions = page.locator(".head-actions button:visible")
    await expect(actions).to_have_text(["Pause", "Drain", "Cancel"])

    leases = (await frontier.lease(1)).leases
    await frontier.complete([Completion(lease=lease) for lease in leases])
    await expect(page.locator(".head .pill")).to_have_text("finished")
    await expect(actions).to_have_text(["Purge"])

    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url))
    await page.keyboard.press(".")
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog")).to_be_visible()
    await page.keyboard.press("Escape")
    assert not [url for url in sent if url.endswith("/pause")]

    await set_state(frontier, State.PAUSED)
    await expect(actions).to_have_text(["Resume", "Purge"])
    await actions.first.click()
    await expect(actions).to_have_text(["Purge"])

    await set_state(frontier, State.CANCELLED)
    await expect(actions).to_have_text(["Resume", "Purge"])


async def test_the_list_of_jobs_shows_what_each_has_done(desk: Desk, redis: Server) -> None:
    frontier = await create_job(redis, "several", options=rude())
    await frontier.add([Request(f"http://{n}.test/") for n in range(2)])
    leases = (await frontier.lease(2)).leases
    await frontier.complete([Completion(lease=lease) for lease in leases])
    page = await desk.open("#/jobs")

    row = page.locator("tbody tr").filter(has_text="several")
    await expect(row.locator(".pill")).to_have_text("finished")
    await expect(row.get_by_role("img")).to_have_attribute("aria-label", "2 done")


async def test_those_who_may_only_look_cannot_press_a_button(desk: Desk, redis: Server) -> None:
    frontier = await create_job(redis, "looked-at", options=rude())
    await frontier.add([Request("http://a.test/")])
    desk.token = await token_with(redis, ["read"])
    page = await desk.open("#/jobs/looked-at/overview")

    await expect(page.get_by_role("button", name="Pause")).to_be_disabled()


async def test_hostile_names_and_lines_are_only_text(desk: Desk, redis: Server) -> None:
    frontier = await create_job(redis, "hostile", options=rude())
    await frontier.add([Request(f"http://a.test/{HOSTILE}")])
    await log_lines(frontier, HOSTILE, [("error", HOSTILE, f"javascript:{HOSTILE}")])
    page = await desk.open("#/jobs/hostile/pipeline")

    await expect(page.get_by_role("heading", name="hostile")).to_be_visible()
    assert await page.locator("main img, main script").count() == 0
    links = await page.locator("a").evaluate_all("all => all.map(a => a.protocol)")
    assert set(links) <= {"http:"}
    assert "hacked" not in await page.title()


async def test_keys_alone_are_enough(desk: Desk, redis: Server) -> None:
    await create_job(redis, "keys", options=rude())
    page = await desk.open("#/jobs/keys/overview")
    await expect(page.locator(".head .pill")).to_have_text("running")

    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog")).to_contain_text("List the shortcuts")
    await page.keyboard.press("Escape")
    await page.keyboard.press("g")
    await page.keyboard.press("p")
    await expect(page.get_by_role("heading", name="keys Pipeline")).to_be_visible()
    await page.keyboard.press("/")
    await expect(page.get_by_label("Filter the log")).to_be_focused()
    await page.keyboard.press("Tab")
    await page.keyboard.press("Tab")
    await page.keyboard.press(".")
    await expect(page.locator(".head .pill")).to_have_text("paused")


async def tab_to(page: Page, wanted: Locator) -> None:
    """Press Tab until it has the focus."""
    await expect(wanted).to_be_visible()
    for _ in range(100):
        if await wanted.evaluate("one => one === document.activeElement"):
            return
        await page.keyboard.press("Tab")
    raise AssertionError("the focus never comes there")


async def test_a_whole_visit_needs_no_mouse(desk: Desk, redis: Server) -> None:
    frontier = await create_job(redis, "visited", options=rude())
    await frontier.add([Request(f"http://a.test/{i}") for i in range(2)])
    [lease] = (await frontier.lease(1)).leases
    await frontier.bury([Failure(lease=lease, error="404 Not Found")])
    page = await desk.open(logged_in=False)

    await tab_to(page, page.get_by_label("Token"))
    await page.keyboard.type(desk.token)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("navigation", name="Pages")).to_be_visible()
    await page.keyboard.press("a")
    await tab_to(page, page.locator("a.job-link").filter(has_text="visited"))
    await page.keyboard.press("Enter")
    pill = page.locator(".head .pill")
    await expect(pill).to_have_text("running")
    for state in (State.PAUSED, State.RUNNING):
        await page.keyboard.press(".")
        await expect(pill).to_have_text(state)
        assert (await frontier.stats()).state is state
    await page.keyboard.press("g")
    await page.keyboard.press("d")
    letters = page.get_by_role("region", name="Dead letters", exact=True)
    await tab_to(page, letters.get_by_role("button", name="Retry"))
    await page.keyboard.press("Enter")

    await expect(letters.locator("tbody tr")).to_have_count(0)
    stats = await frontier.stats()
    assert (stats.dead, stats.pending) == (0, 2)


async def test_a_hidden_tab_lets_go_and_a_session_that_is_over_leads_to_the_log_in(
    desk: Desk, redis: Server
) -> None:
    await create_job(redis, "left-open", options=rude())
    page = await desk.open("#/jobs/left-open/workers")
    await expect(page.locator(".link-state")).to_have_text("Live")
    turn = """isHidden => {
        Object.defineProperty(document, "hidden", { value: isHidden, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
    }"""

    await page.evaluate(turn, arg=True)
    held = "navigator.locks.query().then(({ held }) => held.length)"
    await page.wait_for_function(f"{held}.then(number => number === 0)")
    await page.context.clear_cookies()
    await page.evaluate(turn, arg=False)

    await expect(page.get_by_label("Token")).to_be_visible()
    await expect(page.get_by_role("alert")).to_contain_text("Your log-in is over")


async def test_a_page_left_open_shows_the_next_job_of_that_name_and_nothing_of_the_last(
    desk: Desk, redis: Server
) -> None:
    async def make(number: int) -> Frontier:
        frontier = await create_job(redis, "nightly", options=rude())
        await frontier.add([Request(f"http://a.test/{i}") for i in range(number)])
        await log_lines(frontier, "w", [("info", f"job of {number} URLs", "")])
        return frontier

    frontier = await make(3)
    page = await desk.open("#/jobs/nightly/pipeline")
    pending, line = page.locator(".stage b[data-field=pending]"), page.locator(".log-line")
    await expect(pending).to_have_text("3")
    await expect(line).to_contain_text("job of 3 URLs")

    await purge_job(frontier)
    frontier = await make(4)
    await expect(pending).to_have_text("4")
    await expect(line).to_have_count(1)
    await expect(line).to_contain_text("job of 4 URLs")

    await purge_job(frontier)
    banner = page.get_by_role("alert").filter(has_text="There is no such job")
    await expect(banner).to_contain_text("The figures are those of")
    await expect(page.locator("#content")).to_have_class("is-stale")
    await make(5)
    await expect(pending).to_have_text("5")
    await expect(banner).to_be_hidden()
    await expect(line).to_contain_text("job of 5 URLs")


async def test_the_theme_is_chosen_and_kept(desk: Desk) -> None:
    page = await desk.open("#/jobs", color_scheme="light")
    colour = "getComputedStyle(document.body).backgroundColor"
    light = await page.evaluate(colour)

    for said in ("light", "dark"):
        await page.get_by_role("button", name="Theme").click()
        await expect(page.get_by_role("button", name=f"Theme: {said}")).to_be_visible()
    await page.reload()
    await expect(page.get_by_role("button", name="Theme: dark")).to_be_visible()
    assert await page.evaluate(colour) != light
