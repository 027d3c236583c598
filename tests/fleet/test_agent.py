"""What an agent decides, without its processes."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import closing

import msgspec
import pytest

from chaos.rig import PrivateServer
from skitter.crawl.agent import Agency, Work, _files_as_of_now
from skitter.errors import SpiderError
from skitter.frontier.jobs import create_job
from skitter.frontier.records.agents import Argument, Offer
from skitter.frontier.records.runs import Spec
from skitter.frontier.records.schedule import new_schedule, read_schedule, set_schedule
from skitter.frontier.transport.connection import connect
from skitter.spider import load_spider
from skitter.spider.offers import find_offers

SPIDERS = {
    "plain.py": """
from skitter import Spider

spider = Spider("plain")

@spider.page
def page(page): ...
""",
    "helper.py": "A = 1\n",
    "wrong.py": "1 / 0\n",
    "twin.py": "from skitter import Spider\nspider = Spider('plain')\nspider.page(print)\n",
    "lazy.py": """
from __future__ import annotations
from typing import TYPE_CHECKING
from skitter import Spider

if TYPE_CHECKING:
    from collections.abc import Sequence

def typed(pages: int = 3, tags: Sequence[str] = ()) -> Spider:
    spider = Spider(f"typed-{pages + 1}")
    spider.page(print)
    return spider
""",
    "two.py": """
from typing import Literal
from skitter import Spider

def early(kind: Literal["a", "b"] = "a", rare: bool = False) -> Spider:
    spider = Spider(f"early-{kind}")
    spider.page(print)
    return spider

def late(pages: int) -> Spider:
    return Spider("late")
""",
}


def test_offers_are_the_spiders_of_a_list_with_what_they_take(tmp_path):
    for name, code in SPIDERS.items():
        (tmp_path / name).write_text(code)
    found = {one.name: one for one in find_offers([f"{tmp_path}/*.py"])}
    early, late, plain = found["early-a"], found["late"], found["plain"]
    assert plain.job == "plain"
    assert plain.version.startswith("plain ")
    assert (early.target, early.job) == (f"{tmp_path}/two.py:early", "")
    kind = Argument(name="kind", type="Literal['a', 'b']", default="a", choices=["a", "b"])
    rare = Argument(name="rare", type="bool", default="no", choices=["yes", "no"])
    assert early.arguments == [kind, rare]
    assert late.arguments == [Argument(name="pages", type="int")]
    types = [(one.name, one.type) for one in found["typed-4"].arguments]
    assert types == [("pages", "int"), ("tags", "Sequence[str]")]
    where = f"{tmp_path}/lazy.py"
    assert load_spider(where, {"pages": "5"}).name == "typed-6"
    with pytest.raises(SpiderError, match="which is not known"):
        load_spider(where, {"tags": "a,b"})
    errors = {name: one.error for name, one in found.items() if one.error}
    assert sorted(errors) == [f"{tmp_path}/twin.py", f"{tmp_path}/wrong.py"]
    assert "has a spider of that name, too" in errors[f"{tmp_path}/twin.py"]


def test_a_list_is_loaded_again_when_a_file_of_it_changes(tmp_path):
    shop, project = tmp_path / "shop.py", tmp_path / "scrapy.cfg"
    spiders = tmp_path / "shelf" / "spiders"
    spiders.mkdir(parents=True)
    for file in (shop, project, spiders / "one.py"):
        file.write_text("")
    for pattern, changed in ((f"{shop}:books", shop), (str(project), spiders / "one.py")):
        before = _files_as_of_now([pattern])
        os.utime(changed, (1, 1))
        assert _files_as_of_now([pattern]) != before
    assert _files_as_of_now(["skitter.scrape"]) == _files_as_of_now(["skitter.scrape"])


@pytest.fixture
async def due(server, job):
    """A job with a round that is due."""
    frontier = await create_job(server, job)
    schedule = new_schedule(every_s=3600, now_ms=0)
    await set_schedule(frontier, msgspec.structs.replace(schedule, next_ms=1000))
    return frontier


async def test_a_round_is_one_run_and_one_that_never_began_it_does_not_hold_up_the_next(
    server, job, due
):
    agencies = [Agency(server, [], 1, name, {}, print) for name in ("a", "b")]
    offer = Offer(name=job, job=job)
    for agency in agencies:
        await agency._begin_round(offer, due)
    runs = agencies[0].runs
    [run], _ = await runs.newest(lambda run: run.job == job, limit=10)
    assert (run.state, run.by) == ("waiting", "schedule")
    before = await read_schedule(due)
    assert before
    assert before.next_ms == 1000

    await runs.stop(run.id, by="ana")
    await agencies[1]._begin_round(offer, due)
    after = await read_schedule(due)
    assert after
    assert after.next_ms > 1000
    await agencies[1]._begin_round(offer, due)
    assert len((await runs.newest(lambda run: run.job == job, limit=10))[0]) == 1


async def test_an_agent_that_is_told_twice_to_stop_waits_for_no_server_that_is_away():
    with closing(PrivateServer()) as private:
        private.start()
        async with connect(private.url) as server:
            server.patience_s = 0.1
            said: list[str] = []
            agency = Agency(server, [], 1, "a", {}, said.append)
            await agency.runs.start(Spec(spider="books"), "one")
            lease = await agency.runs.take("a", ["books"])
            assert lease
            words, pipe = (sys.executable, "-c", ""), asyncio.subprocess.PIPE
            process = await asyncio.create_subprocess_exec(*words, stdout=pipe, stderr=pipe)
            agency._works["one"] = Work(lease, process)
            private.kill()
            ending = asyncio.create_task(agency._carry_out(agency._works["one"]))
            agency._stop()
            agency._stop()
            await ending
            assert not agency._works
            assert said[0].startswith("run one: ")
