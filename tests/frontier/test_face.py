"""The rest of the package uses the face of the frontier, never its shards, keys or scripts."""

from __future__ import annotations

import re
from pathlib import Path

import skitter
from skitter.frontier.transport.scripts import script, verbs
from skitter.frontier.transport.shard import Shard

SOURCES = Path(skitter.__file__).parent
OUTSIDE = [one for one in SOURCES.rglob("*.py") if "frontier" not in one.parts]
INSIDE = re.compile(r"frontier\.(?:shards|home)\b|\.shards\[|\.keys\.key\(|[\"']skitter:[{\w]")


def test_nobody_outside_reaches_for_shards_or_keys():
    reached = {path: INSIDE.findall(path.read_text()) for path in OUTSIDE}
    assert {path: found for path, found in reached.items() if found} == {}


def test_a_host_is_found_in_its_shard_and_the_face_tells_who_we_are(frontier):
    assert frontier.shard_for("a.test") is frontier.shards[0]
    assert frontier.client == frontier.shards[0].client
    assert frontier.server is frontier.shards[0].server


def test_every_verb_is_a_method_whose_types_its_header_tells():
    stub = (SOURCES / "frontier" / "transport" / "verbs.pyi").read_text()
    for verb in verbs():
        [parameters] = re.findall(rf"async def {verb}\((.*?)\) -> .+?: \.\.\.", stub, re.DOTALL)

        assert callable(getattr(Shard, verb))
        assert script(verb).header.reply.split()[0] in ("int", "ints", "list", "text", "any"), verb
        for name in script(verb).names:
            ours = name not in script(verb).common
            assert (f" {name}: " in parameters) == ours, (verb, name)


async def test_rows_are_sent_as_the_header_orders_them(frontier):
    offers = [frontier.offer(skitter.Request(f"https://a.test/{n}")) for n in range(3)]

    codes = await frontier.home.add([one.arguments for one in offers], links=0)

    assert codes == [1, 1, 1]
    assert (await frontier.stats()).pending == 3
