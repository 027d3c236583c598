"""Where settings come from: flags, the environment, a file, the spider, the defaults."""

from __future__ import annotations

import os
import re
import shlex
import stat
import tomllib
from collections import ChainMap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from skitter.errors import BadOption, UsageError, did_you_mean
from skitter.settings.fetch import FetchOptions, check_ca_file, outbound_of
from skitter.settings.job import JOB_OPTIONS
from skitter.settings.option import Option, Table, options_of
from skitter.settings.proxy import Route, make_route
from skitter.settings.server import NAMED, PROJECT, Settings, files, named
from skitter.settings.tables import DEFAULT, TABLES, Config

PROXY = "proxy"
OPTIONS: dict[str, Option] = {
    option.key: option for name, table in TABLES.items() for option in options_of(table, name)
}
#: Those with a flag in commands that crawl: every option of a job, and of the others some.
FLAGGED = tuple(
    option for option in OPTIONS.values() if option.declared.flag or option in JOB_OPTIONS
)
T = TypeVar("T", bound=Table)
#: A value, and where it came from.
Found = dict[str, tuple[Any, str]]


def resolve(
    given: Mapping[str, Any] | None = None,
    *,
    job: str = "",
    spider: Mapping[str, Table] | None = None,
) -> Config:
    """flag > environment > file (the job's tables first) > spider > default. Raises UsageError.

    `given`: values of flags, by key. `spider`: the spider's own tables, by name.
    """
    file = find_file()
    found = ChainMap(*_layers(given or {}, file, job), _of(spider or {}))
    tables = {name: _table(table, name, found) for name, table in TABLES.items()}
    outbound_of(getattr(tables["fetch"], "proxy", None), os.environ)  # before a crawl begins
    origins = {key: found[key][1] if key in found else DEFAULT for key in OPTIONS}
    return Config(
        **tables,  # type: ignore[arg-type]
        # What is named by hand takes the place of what is configured.
        proxies=file.proxies(job) if file and "fetch.proxy" not in (given or {}) else (),
        origins=origins,
        explicit=frozenset(given or {}),
    )


def _layers(given: Mapping[str, Any], file: File | None, job: str = "") -> list[Found]:
    explicit = {key: (value, _flag(OPTIONS[key])) for key, value in given.items()}
    return [explicit, _environment(), *(file.layers(job) if file else ())]


def _flag(option: Option) -> str:
    return f"flag {option.flag if option in FLAGGED else f'-s {option.key}'}"


def _table(table: type[T], name: str, found: Mapping[str, tuple[Any, str]]) -> T:
    options = [option for option in options_of(table, name) if option.key in found]
    try:
        made = table(**{option.name: found[option.key][0] for option in options})
        if isinstance(made, FetchOptions):
            check_ca_file(made)
        return made
    except BadOption as error:
        origin = found.get(f"{name}.{error.option}", (None, ""))[1]
        said = f"{name}.{error.option} (from {origin})" if origin else f"{name}.{error.option}"
        said = origin.removeprefix("flag ") if origin.startswith("flag ") else said
        raise BadOption(said, error.value, error.expected) from None


def resolve_server(given: Mapping[str, Any]) -> Settings:
    """As `resolve`, for one table: of the others only what is set is checked."""
    return _table(Settings, "server", ChainMap(*_layers(given, find_file())))


def parse_setting(text: str) -> tuple[str, Any]:
    """Parse `fetch.user_agent=...`, as given with -s. Raises UsageError."""
    key, equals, value = text.partition("=")
    if not equals:
        raise BadOption("-s", text, "key=value, such as fetch.total_timeout_s=20")
    if key not in OPTIONS:
        raise UsageError(f"there is no setting {key!r}{_guess(key, OPTIONS)}")
    return key, OPTIONS[key].parse(value)


def check_given(given: Mapping[str, Any]) -> dict[str, Any]:
    """Check settings that a program passes, by key, spelled as in a file. Raises UsageError."""
    for key in given:
        if key not in OPTIONS:
            raise UsageError(f"there is no setting {key!r}{_guess(key, OPTIONS)}")
    return {key: OPTIONS[key].accept(value, key) for key, value in given.items()}


# --- the environment ------------------------------------------------------------------------------


def _environment() -> Found:
    """Also raises UsageError for a variable that looks like a misspelt one of ours."""
    variables = {option.variable: option for option in OPTIONS.values()}
    for name in os.environ:
        if name not in variables and name.startswith(_PREFIXES):
            raise UsageError(
                f"there is no setting {name}{_guess(name, variables)} Unset it, or correct it."
            )
    return {
        option.key: (option.parse(text, name), name)
        for name, option in variables.items()
        if (text := os.environ.get(name))
    }


#: Not SKITTER_OUTPUT_: Celery's workers use that prefix for their outputs.
_PREFIXES = tuple(f"SKITTER_{name.upper()}_" for name in TABLES if name != "output")


def _of(tables: Mapping[str, Table]) -> Found:
    """What a spider sets to something other than the default."""
    values = {
        option.key: getattr(table, option.name)
        for name, table in tables.items()
        for option in options_of(type(table), name)
    }
    return {
        key: (value, "the spider") for key, value in values.items() if value != OPTIONS[key].default
    }


# --- the file -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class File:
    """skitter.toml, or [tool.skitter] in pyproject.toml."""

    path: Path
    text: str
    tables: dict[str, Any]

    @property
    def shown(self) -> str:
        """The path relative to the working directory."""
        return os.path.relpath(self.path)

    def layers(self, job: str) -> tuple[Found, Found]:
        """The job's tables, and the general ones; those of other jobs are checked too."""
        jobs = self.tables.get("job", {})
        if not isinstance(jobs, dict):
            raise self._refuse("job", "must hold tables, such as [job.books.fetch].")
        of_jobs = {name: self._read(tables, f"job.{name}.") for name, tables in jobs.items()}
        rest = {name: table for name, table in self.tables.items() if name != "job"}
        return of_jobs.get(job, {}), self._read(rest, "")

    def _read(self, tables: Any, before: str) -> Found:
        return {option.key: value for option, value in self._pairs(tables, before)}

    def _pairs(self, tables: Any, before: str) -> Iterator[tuple[Option, tuple[Any, str]]]:
        if not isinstance(tables, dict):
            raise self._refuse(before.rstrip("."), f"must hold tables: {_listed(TABLES)}.")
        for name, table in tables.items():
            if name == PROXY:
                continue
            if name not in TABLES:
                raise self._refuse(before + name, f"is unknown{_guess(name, TABLES)}")
            if not isinstance(table, dict):
                raise self._refuse(before + name, f"must be a table: write [{before}{name}].")
            known = {option.name: option for option in options_of(TABLES[name], name)}
            for key, value in table.items():
                if key not in known:
                    why = f"is unknown{_guess(key, known)}"
                    raise self._refuse(f"{before}{name}.{key}", why)
                yield known[key], (self._value(known[key], value, before), self._origin(before))

    def proxies(self, job: str) -> tuple[Route, ...]:
        """[[proxy]]: the job's own, if it has any, instead of the general ones."""
        own = self.tables.get("job", {}).get(job, {})
        rows = own.get(PROXY, self.tables.get(PROXY, []))
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise self._refuse(PROXY, "must be written [[proxy]], once for each.")
        routes = tuple(map(self._route, rows))
        if len({route.name for route in routes}) < len(routes):
            raise self._refuse(PROXY, "has two of the same name.")
        return routes

    def _route(self, row: dict[str, Any]) -> Route:
        known, place = {option.name: option for option in options_of(Route)}, f"{self.shown}: proxy"
        for key in row:
            if key not in known:
                raise self._refuse(f"{PROXY}.{key}", f"is unknown{_guess(key, known)}")
        try:
            route = make_route({key: known[key].accept(row[key], key) for key in row})
        except BadOption as error:
            said = f"{place}.{row.get('name', '')}.{error.option}"
            raise BadOption(said, error.value, error.expected) from None
        kind, _, path = route.secret.partition(":")
        there = f"{kind}:{self.path.parent / Path(path).expanduser()}" if kind == "file" else ""
        return replace(route, secret=there) if there else route

    def _value(self, option: Option, value: Any, before: str) -> Any:
        made = option.accept(value, f"{self._place(option.name)}: {before}{option.key}")
        return self.path.parent / made if isinstance(made, Path) else made

    def _origin(self, before: str) -> str:
        return f"{self.shown}, [{before.rstrip('.')}]" if before else self.shown

    def _refuse(self, key: str, why: str) -> UsageError:
        return UsageError(f"{self._place(key.rpartition('.')[2])}: {key} {why}")

    def _place(self, name: str) -> str:
        """The file, with the line if it is unambiguous: tomllib reports none."""
        pattern = re.compile(rf'\s*(?:\[.*\b)?"?{re.escape(name)}"?\s*[=\].]')
        lines = [i for i, line in enumerate(self.text.splitlines(), 1) if pattern.match(line)]
        return f"{self.shown}, line {lines[0]}" if len(lines) == 1 else self.shown


def find_file() -> File | None:
    """The nearest one."""
    return next(filter(None, map(_load, files())), None)


def _check_owner(path: Path, found: os.stat_result) -> None:
    """Only a file that nobody but us or root can write: anyone who can write to /tmp must not
    choose other people's proxies and browsers. An absolute path in SKITTER_CONFIG was chosen."""
    if Path(named()).is_absolute():
        return
    place = shlex.quote(str(path))
    owners = {found.st_uid, path.lstat().st_uid}  # also of a link
    open_to = stat.S_IWOTH if found.st_gid in (0, os.getegid()) else stat.S_IWOTH | stat.S_IWGRP
    if strangers := owners - {0, os.geteuid(), _caller()}:
        why, remedy = f"belongs to another user (uid {min(strangers)})", ""
    elif found.st_mode & open_to:
        why = f"can be written by other users (mode {stat.S_IMODE(found.st_mode):o})"
        remedy = f"run `chmod go-w {place}` or "
    else:
        return
    raise UsageError(
        f"{path} {why}, and its settings decide which programs run and where requests and items "
        f"go: if you trust it, {remedy}set {NAMED}={place}; if not, work in another folder."
    )


def _caller() -> int:
    """Who ran `sudo`: in the folder of whoever did that, their settings are meant."""
    who = os.environ.get("SUDO_UID", "")
    return int(who) if who.isdecimal() else os.geteuid()


def _load(path: Path) -> File | None:
    """None: a pyproject.toml that does not mention us."""
    try:
        with path.open("rb") as opened:
            found = os.fstat(opened.fileno())
            if path.name != PROJECT:
                _check_owner(path, found)  # before a stranger's file is read
            text = opened.read().decode()
        tables = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        if path.name == PROJECT:  # not ours to check
            return None
        raise UsageError(f"{path} is not TOML: {error}.") from None
    except (PermissionError, FileNotFoundError, IsADirectoryError) as error:
        if named():
            raise UsageError(
                f"{NAMED} names {path}, which cannot be read ({error.strerror}): unset it, or "
                "correct it."
            ) from None
        return None
    if path.name == PROJECT:
        tables = tables.get("tool", {}).get("skitter")
    if tables is None:
        return None
    _check_owner(path, found)
    return File(path, text, tables)


def _guess(name: str, known: Mapping[str, Any]) -> str:
    question = did_you_mean(name, known)
    return f": {question}" if question else f"; there are {_listed(known)}."


def _listed(known: Mapping[str, Any]) -> str:
    return ", ".join(known)
