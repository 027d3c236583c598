"""Two releases on one server: what the other one wrote is read, kept, or refused by name."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

import skitter
from skitter.errors import JobDamaged, JobNewer
from skitter.extras import RELEASE
from skitter.frontier.audit.auditor import audit
from skitter.frontier.control import change_options
from skitter.frontier.jobs import create_job, for_each_job, note_fingerprinter, open_job
from skitter.frontier.records.health import find_warnings
from skitter.frontier.totals import KNOWN_FIELDS
from skitter.frontier.transport.keys import JOBS
from skitter.frontier.workers import Heartbeat, beat, heartbeats
from skitter.settings import FORMAT, JobOptions, Politeness

LUA = Path(skitter.__file__).parent / "frontier" / "lua"


async def layout_of(server, job):
    return json.loads(await server.command("HGET", JOBS, job))


async def write_layout(server, job, **changes):
    known = await layout_of(server, job) | changes
    await server.command("HSET", JOBS, job, json.dumps(known))


async def set_field(frontier, name, value):
    await frontier.server.command("HSET", frontier.home.keys.key("control"), name, value)


async def test_a_job_says_which_release_made_it_and_in_which_format(frontier, server, job):
    assert (await layout_of(server, job))["format"] == FORMAT
    assert (await layout_of(server, job))["release"] == RELEASE


async def test_a_job_of_a_release_before_formats_is_opened(frontier, server, job):
    known = await layout_of(server, job)
    del known["format"], known["release"]
    await server.command("HSET", JOBS, job, json.dumps(known))

    assert (await open_job(server, job)).layout.format == 1
    assert (await create_job(server, job, options=JobOptions())).layout.format == 1


async def test_a_job_of_a_newer_format_is_refused_by_name_and_hides_no_other(frontier, server, job):
    other = await create_job(server, f"{job}-other")
    # What it has besides may look in any way.
    await write_layout(server, job, format=FORMAT + 1, release="9.8.7", shards={"by": "moon"})
    told: dict[str, str] = {}

    with pytest.raises(JobNewer) as caught:
        await open_job(server, job)
    with pytest.raises(JobNewer):
        await create_job(server, job, options=JobOptions())
    found = await for_each_job(
        server,
        lambda name: open_job(server, name),
        lambda name, error: told.__setitem__(name, str(error)),
    )

    says = str(caught.value)
    assert f"9.8.7 made it in format {FORMAT + 1}, and this one knows {FORMAT}" in says
    assert f"not for this release of Skitter ({RELEASE})" in says
    assert other.job in found
    assert told[job] == says


async def test_options_of_a_newer_release_are_kept_and_told(frontier, server, job):
    await set_field(frontier, "moonlight", "half")
    await set_field(frontier, "set:moonlight", 1)

    again = await open_job(server, job)
    [note] = await find_warnings(again, await again.stats())
    await change_options(again, {"delay_s": 3})
    await create_job(server, job, options=JobOptions(politeness=Politeness(delay_s=4)))

    assert "newer release of Skitter set the option moonlight" in note
    control = await again.home.read_hash("control")
    assert (control["moonlight"], control["set:moonlight"]) == ("half", "1")
    assert not (await audit(again)).problems


async def test_a_word_that_only_a_newer_release_knows_is_not_called_damage(frontier, server, job):
    await set_field(frontier, "per", "moon")
    with pytest.raises(JobNewer, match="per is 'moon', which it does not know"):
        await open_job(server, job)

    await set_field(frontier, "per", "host")
    await set_field(frontier, "state", "hibernating")
    with pytest.raises(JobNewer, match="its state is 'hibernating'"):
        await open_job(server, job)


async def test_a_number_that_is_none_is_damage_all_the_same(frontier, server, job):
    await set_field(frontier, "max_pages", "many")

    with pytest.raises(JobDamaged, match="is damaged") as caught:
        await open_job(server, job)
    assert not isinstance(caught.value, JobNewer)


async def test_what_a_newer_release_noted_of_a_layout_survives_ours(frontier, server, job):
    await write_layout(server, job, phase="full")

    await note_fingerprinter(await open_job(server, job), "scrapy")

    assert (await layout_of(server, job)) | {"phase": "full", "fingerprinter": "scrapy"} == (
        await layout_of(server, job)
    )


async def test_a_heartbeat_tells_the_release_of_its_process(frontier):
    old = Heartbeat(name="old", host="web-1", pid=1, started_at=1.0, at=2.0)
    await beat(frontier, old)
    await beat(frontier, msgspec.structs.replace(old, name="new", release=RELEASE))

    assert {one.name: one.release for one in await heartbeats(frontier)} == {
        "new": RELEASE,
        "old": "",
    }


def test_every_field_that_our_own_scripts_use_is_known():
    """Else we would take it for one of a newer release."""
    texts = [file.read_text() for file in LUA.rglob("*.lua")]
    used = {name for text in texts for name in re.findall(r"\blimits\.(\w+)", text)}
    used |= {name for text in texts for name in re.findall(r"'H\w+', control, '(\w+)'", text)}

    assert used - {"running", "open", "name"} <= KNOWN_FIELDS


def test_the_changelog_has_a_section_for_the_release():
    """Between releases, what changed is under Unreleased."""
    changes = (Path(__file__).parents[2] / "CHANGELOG.md").read_text()
    sections = re.findall(r"^## \[(.+?)\]", changes, re.MULTILINE)

    assert sections[0] == ("Unreleased" if ".dev" in RELEASE else RELEASE)
    assert RELEASE not in sections[1:]
