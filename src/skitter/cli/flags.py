"""Command flags, made from the declared options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from skitter.cli.parameters import Option as Flag
from skitter.cli.show.output import pairs
from skitter.settings import JOB_OPTIONS, JobOptions, Option
from skitter.settings.sources import FLAGGED, parse_setting

#: The options given on the command line: key -> value.
Given = dict[str, Any]
Command = Callable[..., None]
#: Options that every command has come last in its help.
LAST = ("where", "redis", "directory", "as_json")
#: The options with a flag in commands that crawl, fetch or work.
CRAWLING = FLAGGED
FETCHING = tuple(one for one in CRAWLING if one.table == "fetch")
LOGGING = tuple(one for one in CRAWLING if one.table == "log")
WORKING = tuple(one for one in CRAWLING if one.table not in ("output", "quality"))
#: How values of a flag that is given more than once are joined; lists: `Option.between`.
_BETWEEN = {dict: "\n", str: " "}
#: The sections of a command's help, by table; others have the name of their table.
SECTIONS = {
    "fetch": "Fetching",
    "sessions": "Fetching",
    "routes": "Fetching",
    "politeness": "Politeness and retries",
    "retries": "Politeness and retries",
    "limits": "Limits and scope",
    "visits": "Visiting again",
    "safety": "Workers",
    "archive": "Kept pages",
    "files": "Output",
}
_METAVARS = {int: "NUMBER", float: "NUMBER", Path: "FILE", dict: "'NAME: VALUE'"}


def with_flags(
    options: Iterable[Option], *, settable: bool = False
) -> Callable[[Command], Command]:
    """Give the command a flag for each option, and pass it those used as `given`. With `settable`
    it also takes -s for any option, and `given` includes --redis and --dir."""
    flags = {option.key.replace(".", "_"): option for option in options}

    def decorate(command: Command) -> Command:
        @wraps(command)
        def call(**words: Any) -> None:
            said = {name: word for name in flags if (word := words.pop(name)) not in (None, [])}
            given = dict(map(parse_setting, words.pop("sets", None) or []))
            given |= _server(words) if settable else {}
            given |= {flags[name].key: _value(flags[name], word) for name, word in said.items()}
            command(**words, given=given)

        own = inspect.signature(command, eval_str=True).parameters.values()
        parameters = [
            *(parameter for parameter in own if parameter.name not in (*LAST, "given")),
            *(_parameter(name, option) for name, option in flags.items()),
            *([_SETS] if settable else []),
            *(parameter for parameter in own if parameter.name in LAST),
        ]
        named = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
        call.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
        call.__annotations__ = {parameter.name: parameter.annotation for parameter in named}
        return call

    return decorate


_SETS = inspect.Parameter(
    "sets",
    inspect.Parameter.KEYWORD_ONLY,
    default=None,
    annotation=Annotated[
        list[str] | None,
        Flag("-s", metavar="KEY=VALUE", help="Any setting: -s fetch.http2=false."),
    ],
)


def _server(words: dict[str, Any]) -> Given:
    said = {"server.redis_url": words.get("redis"), "server.directory": words.get("directory")}
    return {key: value for key, value in said.items() if value is not None}


def _parameter(name: str, option: Option) -> inspect.Parameter:
    """A parameter that is text: we check it ourselves, so that messages are uniform."""
    words = option.declared.flag.split(" ") if option.declared.flag else [option.flag]
    kind = get_origin(option.type) or option.type
    flag: Any = Flag(*words, help=_help(option), metavar=_metavar(option), show_default=False)
    flag.bare, flag.section = (
        option.declared.bare,
        SECTIONS.get(option.table, option.table.capitalize()),
    )
    if kind is bool:
        flag.metavar = None
    is_list = kind in (tuple, dict) or option.declared.repeats
    of: Any = bool if kind is bool else list[str] if is_list else str
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[of | None, flag]
    )


def _metavar(option: Option) -> str:
    if get_origin(option.type) is Literal:
        return "|".join(get_args(option.type))
    return _METAVARS.get(get_origin(option.type) or option.type, "TEXT")


def _help(option: Option) -> str:
    has_no_limit = option.optional and option.type in (int, float)
    text = option.declared.help + " none: no limit." * has_no_limit
    if isinstance(option.default, bool) or not isinstance(option.default, int | float | str):
        return text
    default = f"{option.default:.15g}" if isinstance(option.default, float) else str(option.default)
    return text if len(default) > 10 else f"{text} Default: {default}."


def _value(option: Option, said: Any) -> Any:
    if isinstance(said, list):
        kind = get_origin(option.type) or option.type
        said = (option.between if kind is tuple else _BETWEEN[kind]).join(said)
    return option.parse(said, option.flag) if isinstance(said, str) else said


def show_options(options: JobOptions) -> None:
    """Show the options of a job."""
    values = {
        option: getattr(getattr(options, option.table), option.name) for option in JOB_OPTIONS
    }
    pairs((option.name, _shown(option, value)) for option, value in values.items())


def _shown(option: Option, value: object) -> object:
    if value is None:
        return "none" if option.type is str else "no limit"
    return str(value).lower() if isinstance(value, bool) else value  # as in TOML


def changes_of(given: Given) -> dict[str, float | None]:
    """The given options by name, without their table; None: no limit."""
    return {key.partition(".")[2]: value for key, value in given.items()}
