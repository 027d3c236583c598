"""The code in the documents works: Python runs, settings are read, commands exist and print what
the page shows.

The pages share an embedded server and a folder. The tutorial comes first: the job that it leaves
behind is what others look at.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import shlex
import subprocess
import sys
import tomllib
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest
import typer.main
from selectolax.lexbor import LexborHTMLParser

from cli.conftest import skitter  # noqa: F401
from documents import (
    PAGES,
    ROOT,
    Block,
    agrees,
    blocks_of,
    commands_of,
    name_of,
    spoken_of,
    steps_of,
)
from shops import open_bookshop
from skitter import Metrics, settings
from skitter.cli.group import group_of
from skitter.cli.main import PANELS
from skitter.settings.sources import resolve
from skitter.valkey import hold, stop

SHOP = "localhost:8000"  # as the pages have it
TUTORIAL = ROOT / "docs" / "tutorial.md"
IN_ORDER = [TUTORIAL, *(page for page in PAGES if page != TUTORIAL)]
#: Where the picture of a terminal may differ from the next run.
VARYING = re.compile(r"\d+ s \(.*|(?<=found on ).*|(?<=fingerprint  ).*")
MENU = typer.main.get_command(group_of(PANELS))


def has(*languages):
    return [page for page in IN_ORDER if blocks_of(page, *languages)]


@pytest.fixture(scope="module")
def place(tmp_path_factory, short_dir):
    """A folder to work in, a server, and the shop."""
    folder = tmp_path_factory.mktemp("docs")
    with ExitStack() as stack:
        stack.enter_context(hold(short_dir / "docs"))
        stack.callback(stop, short_dir / "docs")  # `skitter up` keeps it
        shop = stack.enter_context(open_bookshop(folder / "log", books=60))
        yield SimpleNamespace(
            folder=folder, server=short_dir / "docs", host=shop.origin.removeprefix("http://")
        )


@pytest.fixture
def run(place, skitter, monkeypatch):  # noqa: F811
    """Runs a command in that place: what it prints, with the shop where the pages have it."""
    monkeypatch.chdir(place.folder)
    monkeypatch.delenv("SKITTER_REDIS_URL")
    monkeypatch.setenv("SKITTER_DIR", str(place.server))
    monkeypatch.setenv("COLUMNS", "160")

    def call(command: str) -> str:
        words = shlex.split(command.replace(SHOP, place.host), comments=True)
        assert words[0] == "skitter", f"mark it as not run: {command}"
        if words[1] in ("run", "crawl"):  # they start processes, and take signals
            line = [sys.executable, "-m", *words]
            out = subprocess.run(line, capture_output=True, text=True, check=False).stdout
        else:
            answer = skitter(*words[1:])
            out = answer.out + answer.err
        return out.replace(place.host, SHOP)

    return call


@pytest.mark.parametrize("page", has("python", "console"), ids=name_of)
def test_code_runs_and_commands_print_what_the_page_shows(page, run, place, capsys):
    forget_other_jobs(run)
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks_of(page, "python", "console", "text", ""):
        if block.not_run:
            check_calls(block)
        elif block.language == "python":
            execute(block, names, place)
            printed = capsys.readouterr().out
            assert not printed or printed in page.read_text().replace("\n    ", "\n")
        elif block.language == "console":
            for step in (one for one in steps_of(block) if one.output):
                printed = run(step.command)
                assert agrees(step.output, printed), f"{step.command}\n{printed}"
    for metrics in [one for one in names.values() if isinstance(one, Metrics)]:
        metrics.close()  # at the end of a script this happens by itself


def test_the_picture_of_a_terminal_shows_what_commands_print(run):
    picture = LexborHTMLParser((ROOT / "docs" / "terminal.svg").read_text())
    lines = "\n".join(line.text() for line in picture.css("svg > text"))
    for step in steps_of(Block("console", lines)):
        printed = run(f"{step.command} --fresh --yes" if " run " in step.command else step.command)
        shown = [VARYING.sub("...", line) for line in step.output]
        assert agrees(shown, printed), f"{step.command}\n{printed}"


def forget_other_jobs(run):
    """Pages use the same names; the tutorial's job stays."""
    for job in json.loads(run("skitter status --json")):
        if job["job"] != "shop":
            run(f"skitter purge {job['job']} --yes")


def execute(block: Block, names: dict[str, object], place: SimpleNamespace) -> None:
    """A block that begins with `# name.py` is that file as well, and its tests are run."""
    first = block.code.partition("\n")[0]
    file = place.folder / (first[2:] if first.startswith("# ") and first.endswith(".py") else "x")
    code = block.code.replace(SHOP, place.host)
    if file.suffix:
        file.write_text(code)
    names["__file__"] = str(file)
    exec(compile(code, str(file), "exec", dont_inherit=True), names)
    for name in [name for name in names if name.startswith("test_")]:
        names.pop(name)()  # type: ignore[operator]


def check_calls(block: Block) -> None:
    """Of Python that is not run: what it imports is there and takes what it is given."""
    if block.language != "python" or "not among our dependencies" in block.not_run:
        return
    tree, names = ast.parse(block.code), dict[str, Any]()
    imports: list[ast.stmt] = [one for one in tree.body if isinstance(one, ast.ImportFrom)]
    exec(compile(ast.Module(imports, []), block.language, "exec"), names)
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        function = call.func.value if isinstance(call.func, ast.Attribute) else call.func
        called = names.get(function.id) if isinstance(function, ast.Name) else None
        if called and not (isinstance(call.func, ast.Attribute) and call.func.attr == "s"):
            given = {word.arg: None for word in call.keywords if word.arg}
            inspect.signature(called).bind(*call.args, **given)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_are_there_and_take_what_the_page_gives_them(page):
    for words in commands_of(page):
        if words == ["--version"]:
            continue
        command, rest = find(words)
        if command is not MENU:  # which takes --help and --version
            command.make_context(command.name, rest)  # raises for what it does not take
    for sentence in spoken_of(page):
        command, rest = find(sentence.split())
        known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
        given = {word.partition("=")[0] for word in rest if word.startswith("-") and word != "-"}
        passes_on = command.context_settings.get("ignore_unknown_options")
        assert passes_on or given <= {*known, "--help", "--version"}, sentence


def find(words):
    command, rest = MENU, list(words)
    while rest and rest[0][0] != "-" and (commands := getattr(command, "commands", None)):
        command = commands[rest.pop(0)]
    return command, rest


@pytest.mark.parametrize("page", has("toml"), ids=name_of)
def test_settings_are_read(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for block in blocks_of(page, "toml"):
        if set(tomllib.loads(block.code)) & {*settings.TABLES, "proxy", "job"}:
            (tmp_path / "skitter.toml").write_text(block.code)
            resolve()  # raises for a key that is unknown, or a value that does not fit
