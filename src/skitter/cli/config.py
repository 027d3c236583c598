"""Every setting and its source: config."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from skitter.cli.common import Arguments, Directory, Json, Redis, pairs_of
from skitter.cli.crawl import JobName
from skitter.cli.flags import CRAWLING, Given, with_flags
from skitter.cli.output import emit_json, grid
from skitter.redact import redact, redact_service
from skitter.settings import Config, resolve
from skitter.settings.option import NO_LIMIT, Option, options_of
from skitter.settings.sources import OPTIONS
from skitter.spider import load_spider

HIDDEN = "(hidden)"


@with_flags(CRAWLING, settable=True)
def config(
    target: Annotated[
        str | None, typer.Argument(metavar="[SPIDER]", help="Include the settings of this spider.")
    ] = None,
    arguments: Arguments = None,
    job: JobName = None,
    redis: Redis = None,
    directory: Directory = None,
    as_json: Json = False,
    *,
    given: Given,
) -> None:
    """Show every setting, its value, and where that came from."""
    spider = load_spider(target, pairs_of(arguments)) if target else None
    name = job or (spider.name if spider else "")
    found = resolve(given, job=name, spider=spider.tables if spider else None)
    values = {key: _shown(one, found) for key, one in OPTIONS.items()}
    origins = found.origins | dict.fromkeys(proxies := _proxies(found), "[[proxy]]")
    values |= proxies
    if as_json:
        emit_json({key: {"value": value, "from": origins[key]} for key, value in values.items()})
    else:
        rows = [(key, _text(value), origins[key]) for key, value in values.items()]
        grid(["setting", "value", "from"], rows)


def _shown(one: Option, config: Config) -> Any:
    """The value for JSON, with secrets masked."""
    value = getattr(getattr(config, one.table), one.name)
    if one.declared.secret and isinstance(value, dict):
        return dict.fromkeys(value, HIDDEN)
    if one.declared.secret and isinstance(value, str):
        return redact(value)
    return value if isinstance(value, int | float | str | tuple | dict | None) else str(value)


def _proxies(config: Config) -> dict[str, Any]:
    """The settings of each route. They only say where its secret is, or should."""
    return {
        f"proxy.{route.name}.{one.name}": _hidden(one.name, value)
        for route in config.proxies
        for one in options_of(type(route))
        if one.name != "name" and (value := getattr(route, one.name)) != one.default
    }


def _hidden(name: str, value: Any) -> Any:
    """Without a key that was written into the address, or into the template of its query."""
    if name == "template":
        return redact_service(f"?{value}")[1:]
    return redact_service(value) if name == "url" else value


def _text(value: Any) -> str:
    """As in TOML, but without quotes around a single string."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {json.dumps(text)}" for name, text in value.items()) + "}"
    if isinstance(value, str):
        return value
    return NO_LIMIT if value is None else json.dumps(value)
