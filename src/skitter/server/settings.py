"""A job's options: show, change, and preview a change."""

from __future__ import annotations

from typing import Any, Final, Literal, get_args

import msgspec

from skitter.frontier.admin.control import change_options, operator_options, replaced
from skitter.frontier.admin.preview import Effect, preview
from skitter.server.call import Call
from skitter.server.route import Rows
from skitter.settings import JOB_OPTIONS, JobOptions, Option

Value = float | int | str | bool | None
Changes = dict[str, Value]
KINDS: Final[dict[Any, Literal["number", "text", "switch"]]] = {
    bool: "switch",
    str: "text",
    int: "number",
    float: "number",
}


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One option of the job. null: no limit."""

    name: str
    table: str
    value: Value
    default: Value
    by: str  # operator (`skitter set`, or here), configuration (of the run), or default
    help: str
    takes: str
    kind: Literal["number", "text", "switch", "choice"]
    choices: tuple[str, ...] = ()


async def settings(call: Call) -> Rows[Setting]:
    """The options of the job, and who set them."""
    frontier = await call.frontier()
    return _rows(frontier.options, await operator_options(frontier))


async def change_settings(call: Call, body: Changes) -> Rows[Setting]:
    """Change some options; workers obey at once. null: no limit."""
    frontier = await call.frontier()
    options = await change_options(frontier, body)
    return _rows(options, await operator_options(frontier))


async def preview_settings(call: Call, body: Changes) -> Rows[Effect]:
    """Show what a change would do to pending URLs, without making it."""
    frontier = await call.frontier()
    return Rows(rows=await preview(frontier, replaced(frontier.options, body)))


def _rows(options: JobOptions, set_by_operator: dict[str, Any]) -> Rows[Setting]:
    return Rows(rows=[_setting(one, options, set_by_operator) for one in JOB_OPTIONS])


def _setting(one: Option, options: JobOptions, set_by_operator: dict[str, Any]) -> Setting:
    value = getattr(getattr(options, one.table), one.name)
    by = "default" if value == one.default else "configuration"
    choices = get_args(one.type)
    return Setting(
        name=one.name,
        table=one.table,
        value=value,
        default=one.default,
        by="operator" if one.name in set_by_operator else by,
        help=one.declared.help,
        takes=one.expected,
        kind="choice" if choices else KINDS[one.type],
        choices=choices,
    )
