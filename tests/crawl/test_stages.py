"""A package brings a stage of its own, for workers and for `skitter fetch`."""

from __future__ import annotations

import json

from packages import install

SPIDER = """
from skitter import Limits, Politeness, Spider
spider = Spider("staged", ["%URL%"], politeness=Politeness(delay_s=0, max_in_flight=4),
                limits=Limits(max_pages=10))
@spider.page
def page(page):
    yield {"url": page.url}
    yield from page.follow_all()
"""
#: As an archive would: keeps each response before its page is completed.
STAGE = '''
from pathlib import Path
from skitter.engine.stages import Stage

class Keep(Stage):
    """Keeps responses; leaves pages of books out."""

    async def answered(self, visit, response):
        visit.notes["keep"] = len(response.body)
        with Path("kept.txt").open("a") as file:
            file.write(f"{response.url}\\n")

    async def judged(self, visit, verdict):
        if "/books/" in visit.page.url:
            return visit.completed(skipped="it is a book")

    async def handled(self, visit, output):
        output.items = [{**item, "size": visit.notes["keep"]} for item in output.items]

    def tell(self, visit):
        return f"kept {visit.notes['keep']} bytes"
'''


def test_a_package_brings_a_stage_of_its_own(open_shop, make_machine):
    shop = open_shop(books=50)
    machine = make_machine(shop)
    (machine.folder / "staged.py").write_text(SPIDER.replace("%URL%", shop.url))
    install(machine, "tiny_stage", STAGE, "[skitter.stages]\nkeep = tiny_stage:Keep\n")

    done = machine.call("run", "staged.py", "--workers", "1", "-o", "staged.jsonl")

    assert done.returncode == 0, done.stderr
    kept = (machine.folder / "kept.txt").read_text().split()
    items = [
        json.loads(line) for line in (machine.folder / "staged.jsonl").read_text().splitlines()
    ]
    assert len(kept) == 10
    assert 0 < len(items) < 10
    assert {item["url"] for item in items} == {url for url in kept if "/books/" not in url}
    assert all(item["size"] > 100 for item in items)

    book = next(url for url in kept if "/books/" in url)
    shown = machine.call("fetch", book, "--stages")
    lines = dict(line.split(None, 1) for line in shown.stdout.splitlines())
    assert lines["Keep"].startswith("kept ")
    assert lines["Keep"].endswith("bytes. The visit ended here.")
    assert lines["Handler"] == "not reached"

    (machine.folder / "packages" / "tiny_stage.py").write_text("Keep = 1")
    refused = machine.call("fetch", shop.url, "--stages")
    assert refused.returncode == 2
    assert "the stage 'keep' of the package tiny-stage is not a class" in refused.stderr
