"""The action log: who did what, over HTTP and from the command line."""

from __future__ import annotations

from skitter.frontier.records.operators import NewAction, note_action, read_actions


async def test_every_change_over_http_is_a_line_with_the_name_of_its_token(web, frontier, job):
    await web.post(f"/api/jobs/{job}/pause")
    await web.put(f"/api/jobs/{job}/workers", json={"workers": 3})
    await web.put(f"/api/jobs/{job}/workers", json={"workers": -3})  # refused

    scaled, paused = (await web.get(f"/api/jobs/{job}/actions")).json()["rows"]

    assert (paused["what"], paused["detail"]) == ("pause", "")
    assert (scaled["what"], scaled["detail"], scaled["job"]) == (
        "scale",
        "workers=3 per_machine=false preview=false",
        job,
    )
    assert scaled["who"].startswith("a test (")
    assert scaled["at"] >= paused["at"] > 1e9


async def test_looking_is_not_a_change(web, frontier, job):
    await web.get(f"/api/jobs/{job}")

    assert (await web.get(f"/api/jobs/{job}/actions")).json()["rows"] == []


async def test_the_log_comes_in_parts(web, server, job):
    for number in range(5):
        await note_action(server, "me", NewAction(job, "set", f"n={number}"))
        await note_action(server, "me", NewAction("another job", "set"))
    seen, query = list[str](), {"limit": "2"}
    while True:
        answer = (await web.get(f"/api/jobs/{job}/actions", params=query)).json()
        seen += [row["detail"] for row in answer["rows"]]
        if not answer["next"]:
            break
        query["after"] = answer["next"]

    assert seen == ["n=4", "n=3", "n=2", "n=1", "n=0"]


async def test_a_cursor_that_makes_no_sense_is_a_problem(web, frontier, job):
    answer = await web.get(f"/api/jobs/{job}/actions", params={"after": "; FLUSHALL"})

    assert (answer.status_code, answer.json()["field"]) == (422, "after")


async def test_what_was_done_is_cut_and_has_no_passwords(server, job):
    await note_action(server, "me", NewAction(job, "set", "proxy=http://u:secret@h/ " + "x" * 9999))

    [one] = await read_actions(server, job)

    assert "secret" not in one.detail
    assert len(one.detail) < 600
