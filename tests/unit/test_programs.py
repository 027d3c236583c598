"""Programs that are not Python's are in one table, and found through it alone."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts import programs
from scripts.programs import PROGRAMS, find_program, missing_packages

ROOT = Path(__file__).parents[2]
STARTERS = {"run", "Popen", "call", "check_call", "check_output", "create_subprocess_exec"}
#: These look for a program, or let a shell do so, past the table.
PAST_THE_TABLE = {"which", "system", "popen", "getoutput", "create_subprocess_shell"}
FINDERS = {"find_program", "need"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Values = dict[str, list[ast.expr]]  # what a name may hold
WHERE_PROGRAMS_ARE = ("/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/", "/usr/lib/", "/opt/")
#: A file without any of them has no problem, and need not be parsed.
HINTS = (*WHERE_PROGRAMS_ARE, *PAST_THE_TABLE, "find_program", "need(", "subprocess", "shell")


#: Whatever browser its user has.
FINDS_BROWSERS = ROOT / "src/skitter/fetch/browser/chromium.py"
#: Whatever Pythons there are, beside the one that runs the tests.
FINDS_PYTHONS = ROOT / "tests/package/test_versions.py"


def problems_in(source: str) -> set[str]:
    """What a file starts without asking the table."""
    if not any(hint in source for hint in HINTS):
        return set()
    tree = ast.parse(source)
    texts = {str(node.value) for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    paths = {text for text in texts if text.startswith(WHERE_PROGRAMS_ARE)}
    calls = _calls(tree, _bound(tree))
    return paths | {each for call, values in calls for each in _problems_of(call, values)}


def _calls(scope: ast.AST, values: Values) -> Iterator[tuple[ast.Call, Values]]:
    """Every call, with what the names around it are bound to."""
    for node in ast.iter_child_nodes(scope):
        inner = values
        if isinstance(node, ast.Call):
            yield node, values
        elif isinstance(node, FUNCTIONS):
            parameters = ast.walk(node.args)
            unknown: Values = {each.arg: [] for each in parameters if isinstance(each, ast.arg)}
            inner = values | unknown | _bound(node)
        yield from _calls(node, inner)


def _bound(scope: ast.AST) -> Values:
    """The names that a scope assigns to; attributes too, of which classes make variables."""
    found: Values = {}
    todo = list(ast.iter_child_nodes(scope))
    while todo:
        node = todo.pop()
        if not isinstance(node, FUNCTIONS):
            todo += ast.iter_child_nodes(node)
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                found.setdefault(_name(target), []).append(node.value)
    return found


def _problems_of(call: ast.Call, values: Values) -> Iterator[str]:
    name = _name(call.func)
    if name in PAST_THE_TABLE or _has_a_shell(call):
        yield name
    elif _starts(call.func) and call.args:
        yield from _first_word(call.args[0], values)
    elif name == "to_thread" and len(call.args) > 1 and _starts(call.args[0]):
        yield from _first_word(call.args[1], values)
    elif name in FINDERS and isinstance(word := call.args[0], ast.Constant):
        yield from {str(word.value)} - set(PROGRAMS)


def _first_word(node: ast.expr, values: Values) -> Iterator[str]:
    """Literal text where a program's path should be; of a parameter its callers know."""
    match node:
        case ast.Constant(value=str(text)):
            yield text.split()[0]
        case ast.List(elts=[first, *_]) | ast.Tuple(elts=[first, *_]):
            yield from _first_word(first, values)
        case ast.Starred(value=inner) | ast.BinOp(left=inner):
            yield from _first_word(inner, values)
        case ast.IfExp(body=one, orelse=other):
            for choice in (one, other):
                yield from _first_word(choice, values)
        case ast.Call(func=ast.Attribute(value=ast.Constant() as text, attr="split")):
            yield from _first_word(text, values)
        case ast.Name() | ast.Attribute():
            for value in values.get(_name(node), []):
                yield from _first_word(value, values | {_name(node): []})


def _starts(function: ast.expr) -> bool:
    owner = _name(getattr(function, "value", function))
    return _name(function) in STARTERS and owner in {"subprocess", "asyncio"}


def _name(node: ast.expr) -> str:
    return getattr(node, "id", "") or getattr(node, "attr", "")


def _has_a_shell(call: ast.Call) -> bool:
    return any(
        word.arg == "shell" and not (isinstance(word.value, ast.Constant) and not word.value.value)
        for word in call.keywords
    )


@pytest.mark.parametrize(
    ("source", "problems"),
    [
        ("subprocess.run(['nonesuch', '-v'])", {"nonesuch"}),
        ("subprocess.run('nonesuch -v'.split())", {"nonesuch"}),
        ("words = ['nonesuch']\nasyncio.create_subprocess_exec(*words, x)", {"nonesuch"}),
        ("def f():\n  self.a = ('nonesuch', y)\n  subprocess.Popen(self.a)", {"nonesuch"}),
        ("words = ['--v']\ndef f(words):\n  subprocess.Popen(words)", set()),
        ("who = ['nonesuch'] if root else []\nsubprocess.run([*who, x])", {"nonesuch"}),
        ("asyncio.to_thread(subprocess.run, ['nonesuch'])", {"nonesuch"}),
        ("NGINX = Path('/usr/sbin/nginx')", {"/usr/sbin/nginx"}),
        ("shutil.which('nginx')", {"which"}),
        ("os.system('nginx')", {"system"}),
        ("subprocess.run(command, shell=True)", {"run"}),
        ("find_program('nonesuch')", {"nonesuch"}),
        ("subprocess.run([need('nginx'), '-v'])", set()),
        ("subprocess.run([sys.executable, '-c', 'pass'])", set()),
        ("asyncio.run(main())", set()),
        ("asyncio.to_thread(run, '--json')", set()),
    ],
)
def test_a_program_past_the_table_is_seen(source, problems):
    assert problems_in(source) == problems


@pytest.mark.timeout(300)  # it parses most files: some seconds of CPU time
def test_no_code_starts_a_program_past_the_table():
    files = [
        file
        for part in ("src", "benchmarks", "scripts", "tests")
        for file in (ROOT / part).rglob("*.py")
    ]
    exempt = {Path(__file__), Path(programs.__file__), FINDS_BROWSERS, FINDS_PYTHONS}
    files = [file for file in files if file not in exempt]

    assert len(files) > 300
    found = {str(file.relative_to(ROOT)): problems_in(file.read_text()) for file in files}
    assert {file: problems for file, problems in found.items() if problems} == {}


@pytest.mark.parametrize("path", ["nonesuch", "/nowhere/nonesuch"])
def test_a_program_that_is_not_in_the_table_is_not_started(path):
    with pytest.raises(AssertionError, match=f"{path}: add it to PROGRAMS"):
        subprocess.run([path])


def test_a_program_outside_the_table_is_not_looked_for():
    with pytest.raises(KeyError):
        find_program("nonesuch")


def test_a_program_is_found_although_only_root_looks_there(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_program("runuser") in {"/usr/sbin/runuser", "/sbin/runuser"}


def test_what_is_missing_is_told_by_its_package(monkeypatch):
    monkeypatch.setattr(programs, "find_program", lambda name: None)

    assert "rabbitmq-server" in missing_packages("chaos")
    assert "rabbitmq-server" not in missing_packages("test")
    assert {"nginx-light", "postgresql"} <= set(missing_packages("test"))
    bench = ["libjemalloc2", "nginx-light", "openssl", "postgresql", "util-linux"]
    assert missing_packages("bench") == ["apt", "dpkg", *bench]


def test_the_table_needs_nothing_but_python():
    words = [sys.executable, "-I", "-S", programs.__file__, "bench"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.split() == missing_packages("bench")
