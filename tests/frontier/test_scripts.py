import re
from functools import cache
from pathlib import Path

import pytest

from skitter.errors import ServerFull
from skitter.frontier.transport import scripts
from skitter.frontier.transport.keys import SHARD_KEYS
from skitter.frontier.transport.scripts import Code, read_header, script, verbs
from skitter.model import Completion, Failure, Request

LUA = Path(scripts.__file__).parents[1] / "lua"
FILES = sorted(path.relative_to(LUA).as_posix() for path in LUA.rglob("*.lua"))
LIBS = [path.stem for path in sorted((LUA / "lib").glob("*.lua"))]

HEADER = """--[[
example: what it does in a line,
which may be two.

FLAGS  allow-oom
KEYS   due      zset   hosts that may be asked now,
                       best first
       task     hash   fingerprint -> record
ARGV   limit    int    how many
       token    text   proof of the lease
EACH   fp       text
       n        int    a short name
                       and a note
REPLY  a code per request,
       in order
COST   O(1)
]]
return 1
"""


@cache
def read(name: str) -> str:
    return (LUA / name).read_text(encoding="utf-8")


def includes(text: str, how: str = "include") -> list[str]:
    return " ".join(re.findall(rf"^--@(?:{how}) (.+)$", text, re.MULTILINE)).split()


def declared_keys(text: str) -> dict[str, str]:
    """Name and type of each row below KEYS, read by eye, as it were: from column 7 on."""
    comment = text[: text.index("]]")]
    section = re.search(r"^KEYS .*\n(?:^ {7}.*\n)*", comment, re.MULTILINE)
    rows = section.group().splitlines() if section else []
    return dict(row[7:].split()[:2] for row in rows if row[7:8].strip())


# --- headers --------------------------------------------------------------------------------------


def test_a_header_is_read_section_by_section():
    header = read_header(HEADER)

    assert header.summary == "example: what it does in a line, which may be two."
    assert header.flags == "allow-oom"
    assert header.keys == ("due", "task")
    assert header.argv == (("limit", "int"), ("token", "text"))
    assert [name for name, _ in header.each] == ["fp", "n"]


def test_a_line_further_to_the_right_continues_the_row_above():
    header = read_header(HEADER)

    assert "best" not in header.keys
    assert "and" not in dict(header.each)
    assert header.reply == "a code per request, in order"
    assert header.cost == "O(1)"


def test_a_section_that_is_missing_is_empty():
    header = read_header("--[[\nexample: nothing else\n]]\n")

    assert header.summary == "example: nothing else"
    assert [*header.keys, *header.argv, *header.each] == []
    assert header.flags == header.reply == header.cost == ""


def test_there_are_verbs_and_libs():
    assert {"add", "lease", "complete", "stats"} <= set(verbs())
    assert {"once", "limits", "settle"} <= set(LIBS)


def test_every_verb_names_a_key_by_which_a_cluster_finds_its_node():
    assert [name for name in verbs() if not script(name).header.keys] == []


def test_every_verb_says_what_it_answers_and_what_it_costs():
    for name in verbs():
        header = read_header(read(f"{name}.lua"))
        assert header.summary.startswith(f"{name}: ")
        assert header.reply, name
        assert "O(" in header.cost, name


def test_every_lib_says_what_it_is():
    for name in LIBS:
        assert read_header(read(f"lib/{name}.lua")).summary.startswith(f"{name}: ")


def test_keys_are_declared_with_the_type_that_keys_py_says():
    for name in FILES:
        text = read(name)
        declared = declared_keys(text)
        assert tuple(declared) == read_header(text).keys, name
        assert declared == {key: SHARD_KEYS[key].type for key in declared}, name


def test_no_lua_file_is_longer_than_150_lines():
    assert [name for name in FILES if len(read(name).splitlines()) > 150] == []


# --- what Lua may do ------------------------------------------------------------------------------


UNBOUNDED = {"KEYS", "SCAN", "SSCAN", "HSCAN", "ZSCAN", "SMEMBERS", "HKEYS", "HVALS", "SORT"}
#: Which scripts may all the same, as what they walk is bounded.
MAY_WALK = {
    "lib/seen_exact.lua": {"SMEMBERS"},  # a bucket
    "keep_failed.lua": {"HKEYS", "HVALS"},  # `most` pages of each kind, in `max_bytes`
}
#: The hashes that a script may read as a whole.
WHOLE = {
    "audit_sums.lua": {"hosts"},  # counted before
    "figures.lua": {"family"},  # a histogram has 450 fields at the most, a table is folded before
    "lib/rows.lua": {"key"},  # as it is here, at twice its size
    "keep_failed.lua": {"failed_of"},  # `most` pages of each kind
    "feed.lua": {"feeding"},  # a batch for each node that reads just now
    "share_out.lua": {"at"},  # the jobs of a machine that have asked within a minute
    "spare.lua": {"workers"},  # a handful, counted before
}
WHOLE_ANYWHERE = {"stats", "routes"}  # a few dozen counters; as many for each route of skitter.toml


def test_no_script_walks_a_structure_of_any_size():
    for name in FILES:
        text = read(name)
        commands = set(re.findall(r"'([A-Z_]+)'", text))  # also those that are passed on
        assert not commands & (UNBOUNDED - MAY_WALK.get(name, set())), name
        ranges = re.findall("'ZRANGE'.*", text)
        assert all("'LIMIT'" in call or "0, 0" in call for call in ranges), name
        whole = set(re.findall(r"'HGETALL', (\w+)", text))
        assert whole <= WHOLE_ANYWHERE | WHOLE.get(name, set()), name


async def test_the_server_compiles_every_verb_and_knows_it_by_our_sha(server):
    for name in verbs():
        for strict in (False, True):
            code = script(name, strict=strict)
            assert code.source.startswith("#!lua\n" if strict else "#!lua")
            assert (await server.command("SCRIPT", "LOAD", code.source)) in (
                code.sha,
                code.sha.encode(),
            )


# --- includes -------------------------------------------------------------------------------------


def head(lib):
    """Its comment. The rest differs from verb to verb, in what of it is seen by others."""
    return read(f"lib/{lib}.lua").partition("]]")[0]


def reached(name: str, how: str) -> set[str]:
    """The libs that a verb includes, and those that these include."""
    found, todo = set(), includes(read(f"{name}.lua"), how)
    while todo:
        lib = todo.pop()
        found.add(lib)
        todo += [more for more in includes(read(f"lib/{lib}.lua"), how) if more not in found]
    return found


def test_each_lib_is_included_once_and_after_those_it_needs():
    for name in verbs():
        source = script(name).source
        wanted, every = reached(name, "include"), reached(name, "include|late")

        at = {lib: source.find(head(lib)) for lib in LIBS}
        there = {lib for lib, position in at.items() if position >= 0}
        assert there in (wanted, every), name
        assert all(source.count(head(lib)) == 1 for lib in there), name
        for lib in there:
            needs = includes(read(f"lib/{lib}.lua"))
            assert all(at[needed] < at[lib] for needed in needs), (name, lib)
        assert source.endswith(read(f"{name}.lua") + "\nend)()"), name


def test_a_verb_has_the_arguments_of_its_libs_and_those_of_their_keys_that_its_code_names():
    for name in verbs():
        source, header = script(name).source, script(name).header
        code = re.sub(r"--(?:\[\[[\s\S]*?\]\]|.*)", "", source).partition("\n")[2]
        named = set(re.findall(r"\w+", re.sub(r"local \w+ = KEYS\[\d+\];", "", code)))
        own = read(f"{name}.lua")
        texts = [own, *(read(f"lib/{lib}.lua") for lib in LIBS if head(lib) in source)]

        declared = {key for text in texts for key in declared_keys(text)}
        assert set(header.keys) == (declared & named) | declared_keys(own).keys(), name
        assert set(header.argv) == {arg for text in texts for arg in read_header(text).argv}, name
        assert len(header.keys) == len(set(header.keys)), name


BUILTIN = ["error", "ipairs", "next", "pairs", "pcall", "tonumber", "tostring", "type", "unpack"]
WORDS = ["and", "elseif", "function", "if", "in", "not", "or", "return", "until", "while"]


def unknown_calls(code: str) -> set[str]:
    """Functions that are called in code, but are neither defined in it nor the server's."""
    code = re.sub(r"--(?:\[\[[\s\S]*?\]\]|.*)|'[^'\n]*'", "", code)
    called = re.findall(r"(?<![\w.:])(?<!function )(\w+)\(", code)
    parameters = re.findall(r"function\s?\w*\((.*?)\)", code)
    local = re.findall(r"local (?:function )?([\w, ]+)", code)
    known = re.findall(r"\w+", " ".join([*parameters, *local]))
    return set(called) - {*known, *BUILTIN, *WORDS}


def test_a_script_has_every_function_that_it_calls():
    """Lua tells only when it gets there, which for a rare case may be after a release."""
    for name in verbs():
        source = script(name).source
        without_late = re.sub(
            r"\nlocal function define_late\(\)[\s\S]*?\nend\n(?=function )", "", source
        )
        assert unknown_calls(source) == set(), name
        assert unknown_calls(without_late) - {"define_late"} == set(), name


@pytest.fixture
def lua_folder(tmp_path, monkeypatch):
    """A folder of our own in place of lua/."""
    monkeypatch.setattr(scripts, "_LUA", tmp_path)
    (tmp_path / "lib").mkdir()

    def write(name, *needs, keys=""):
        include = f"--@include {' '.join(needs)}\n" if needs else ""
        text = f"--[[\n{name}: made up\n\n{keys}]]\n{include}-- {name}\n"
        (tmp_path / f"{name}.lua").write_text(text)

    return write


def test_a_function_that_nobody_calls_is_left_out_with_the_key_that_only_it_names(
    tmp_path, lua_folder
):
    keys = "KEYS   due      zset\n       wait     zset\n"
    (tmp_path / "lib" / "parts.lua").write_text(
        f"--[[\nparts: made up\n\n{keys}]]\n"
        "local function count_due() return redis.call('ZCARD', due) end\n"
        "local function count_waiting()\n  return redis.call('ZCARD', wait)\nend\n"
        "local function count_both() return count_due() + count_waiting() end\n"
    )
    (tmp_path / "made_up_caller.lua").write_text(
        "--[[\nmade_up_caller: made up\n]]\n--@include parts\n"
        "return count_due() -- not count_both\n"
    )

    code = script("made_up_caller")

    assert re.findall(r"function (\w+)", code.source) == ["count_due"]
    assert code.header.keys == ("due",)


@pytest.fixture
def made_up_late(tmp_path, lua_folder):
    """A verb that does without a lib if it is called with 0, and another that never calls it."""
    (tmp_path / "lib" / "rare.lua").write_text(
        "--[[\nrare: made up\n]]\n--@include often rarer\n"
        "local calls = 0\n"
        "local function add() calls = calls + 1 return twice(calls) + thrice(calls) end\n"
    )
    (tmp_path / "lib" / "rarer.lua").write_text(
        "--[[\nrarer: made up\n]]\nlocal function thrice(n) return 3 * n end\n"
    )
    (tmp_path / "lib" / "often.lua").write_text(
        "--[[\noften: made up\n]]\nlocal function twice(n) return 2 * n end\n"
    )
    header = "ARGV   times    int    how often\n"
    for name, body in {
        "made_up_often": "local sum = twice(100)\nfor _ = 1, times do sum = sum + add() end\n",
        "made_up_never": "local sum = twice(times)\n",
    }.items():
        (tmp_path / f"{name}.lua").write_text(
            f"--[[\n{name}: made up\n\n{header}]]\n--@include often\n--@late rare\n"
            f"{body}return sum\n"
        )


async def test_a_late_lib_is_defined_once_at_its_first_call(made_up_late, server):
    for times, sum_ in ((0, 200), (1, 205), (3, 230)):
        assert await server.call(script("made_up_often"), [], [times]) == sum_


def test_what_only_late_libs_need_is_late_as_well(made_up_late):
    often, _, late = script("made_up_often").source.partition("local function define_late()")

    assert re.findall(r"function (\w+)\(n\)", often) == ["twice"]
    assert re.findall(r"function (\w+)\(n\)", late) == ["thrice"]


def test_a_late_lib_that_the_verb_never_calls_is_left_out(made_up_late):
    assert "rare" not in script("made_up_never").source.replace("--@late rare", "")


def test_a_lib_with_a_condition_is_enclosed_in_it(tmp_path, lua_folder):
    lua_folder("made_up_choice", "rare")
    (tmp_path / "lib" / "rare.lua").write_text(
        "--[[\nrare: made up\n]]\n--@if verb == 'x'\nfail()\n"
    )

    assert "if verb == 'x' then\n--[[\nrare: made up" in script("made_up_choice").source


def test_a_script_reads_only_the_limits_that_it_names():
    assert "'max_depth'" in script("add").source
    assert "'max_losses'" not in script("add").source
    assert "'max_losses'" in script("lease").source


def test_what_is_asked_of_the_limits_is_one():
    known = {"state", "shards", "open", "running", "name", *scripts.NUMBERS, *scripts.FACTS}
    for name in FILES:
        asked = set(re.findall(r"\blimits\.(\w+)", re.sub(r"--.*", "", read(name))))
        assert asked <= known | {"lua"}, name


def test_a_lib_that_two_others_need_comes_once_before_both(lua_folder):
    lua_folder("made_up_diamond", "left", "right")
    lua_folder("lib/left", "base")
    lua_folder("lib/right", "base")
    lua_folder("lib/base")

    source = script("made_up_diamond").source

    order = re.findall(r"^-- (\S+)$", source, re.MULTILINE)
    assert order == ["lib/base", "lib/left", "lib/right", "made_up_diamond"]


@pytest.mark.parametrize("circle", [["one"], ["one", "two"], ["one", "two", "three"]])
def test_a_circle_is_refused_and_named(lua_folder, circle):
    lua_folder("made_up_circle", "one")
    for name, needs in zip(circle, [*circle[1:], circle[0]], strict=True):
        lua_folder(f"lib/{name}", needs)

    with pytest.raises(ValueError, match=" -> ".join([*circle, "one"])):
        script("made_up_circle")


def test_a_key_that_nobody_declared_is_refused(lua_folder):
    lua_folder("made_up_key", keys="KEYS   novel    zset   something new\n")

    with pytest.raises(ValueError, match="novel"):
        script("made_up_key")


# --- arguments ------------------------------------------------------------------------------------


def test_arguments_come_in_the_order_of_the_header():
    code = script("lease")
    names = [name for name, _ in code.header.argv]

    arguments = code.arguments({name: f"<{name}>" for name in sorted(names)}, ["a", "b"])

    assert arguments == [*(f"<{name}>" for name in names), "a", "b"]


@pytest.mark.parametrize("given", [{"limit": 1}, {"limit": 1, "ttl": 1}, {}])
async def test_a_wrong_argument_name_is_a_type_error_that_names_the_right_ones(frontier, given):
    with pytest.raises(TypeError, match="ttl_ms"):
        await frontier.shards[0].call("lease", **given)


async def test_an_argument_too_many_is_a_type_error(frontier):
    with pytest.raises(TypeError, match="surplus"):
        await frontier.shards[0].call("lease", limit=1, ttl_ms=1, surplus=1)


def test_lua_knows_each_code_that_it_uses_by_its_name():
    source = script("add").source

    for code in (Code.NEW, Code.SEEN, Code.FULL, Code.DEEP, Code.CLOSED):
        assert f"local {code.name} = {code.value}" in source
    assert "local DONE" not in source


# --- memory ---------------------------------------------------------------------------------------


DRAINS = [
    "bury",
    "complete",
    "control",
    "drop",
    "extend",
    "host",
    "lease",
    "reap",
    "release",
    "retry",
]


@pytest.mark.parametrize("name", DRAINS)
def test_what_drains_runs_on_a_full_server(name):
    assert script(name).source.startswith("#!lua flags=allow-oom\n")


@pytest.mark.parametrize("name", ["audit", "audit_host", "stats"])
def test_what_only_reads_runs_on_a_full_server_too(name):
    assert script(name).source.startswith("#!lua flags=no-writes\n")


@pytest.mark.parametrize("name", ["add", "revive"])
def test_what_fills_does_not_run_on_a_full_server(name):
    assert "allow-oom" not in script(name).source.partition("\n")[0]


@pytest.mark.parametrize("name", DRAINS)
def test_strict_drops_allow_oom_and_nothing_else(name):
    usual, strict = script(name), script(name, strict=True)

    assert strict.source == usual.source.replace("#!lua flags=allow-oom", "#!lua", 1)
    assert strict.sha != usual.sha
    assert strict.header == usual.header


@pytest.fixture
async def fill(server):
    """Makes the server full; it has room again when the test ends."""

    async def fill_up():
        await server.command("CONFIG", "SET", "maxmemory", "1mb")

    yield fill_up
    await server.command("CONFIG", "SET", "maxmemory", "0")


async def leases(frontier, how_many):
    await frontier.add([Request(url=f"https://a.test/{n}") for n in range(how_many)])
    return (await frontier.lease(how_many)).leases


async def test_a_full_server_refuses_what_grows_as_a_whole(frontier, fill):
    [lease] = await leases(frontier, 1)
    link = Request(url="https://a.test/link")
    await fill()

    with pytest.raises(ServerFull):
        await frontier.add([link])
    with pytest.raises(ServerFull):
        await frontier.complete([Completion(lease=lease, links=[link])])
    with pytest.raises(ServerFull):
        await frontier.complete([Completion(lease=lease, items=["item"])])


async def test_a_full_server_takes_everything_that_ends_a_lease(frontier, fill):
    one, two, three, four = await leases(frontier, 4)
    await fill()

    assert await frontier.complete([Completion(lease=one)]) == ["done"]
    assert await frontier.retry([Failure(lease=two, error="timeout")]) == ["retried"]
    assert await frontier.bury([Failure(lease=three, error="gone")]) == ["buried"]
    assert await frontier.extend([four]) == ["extended"]
    assert await frontier.release([four]) == ["released"]
    assert await frontier.reap() == 0


async def test_a_full_server_still_tells_how_it_is_doing(frontier, fill):
    await leases(frontier, 1)
    await fill()

    assert (await frontier.stats()).leased == 1


# --- by sha ---------------------------------------------------------------------------------------


async def test_scripts_that_the_server_forgot_are_loaded_again(frontier, server):
    await frontier.add([Request(url="https://a.test/")])
    await server.command("SCRIPT", "FLUSH")

    [lease] = (await frontier.lease(1)).leases
    await server.command("SCRIPT", "FLUSH")
    assert await frontier.complete([Completion(lease=lease)]) == ["done"]
    await server.command("SCRIPT", "FLUSH")

    stats = await frontier.stats()
    assert (stats.done, stats.seen) == (1, 1)


async def test_a_script_that_was_forgotten_runs_once_and_not_twice(frontier, server):
    requests = [Request(url=f"https://a.test/{n}") for n in range(3)]
    await server.command("SCRIPT", "FLUSH")

    assert await frontier.add(requests) == ["new"] * 3

    assert (await frontier.stats()).pending == 3
