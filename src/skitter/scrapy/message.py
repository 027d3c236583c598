"""A feed message as the fields of a Scrapy request. Pure, and strict about types."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from skitter.errors import UsageError

_TYPES: dict[str, tuple[type, ...]] = {
    "url": (str,),
    "method": (str,),
    "headers": (dict,),
    "cookies": (dict, list),
    "body": (str,),
    "meta": (dict,),
    "priority": (int,),
    "callback": (str,),
    "errback": (str,),
    "cb_kwargs": (dict,),
    "dont_filter": (bool,),
    "encoding": (str,),
    "flags": (list,),
}


def request_fields(message: dict[str, Any]) -> dict[str, Any]:
    """Raises UsageError, naming the field. Unknown keys are form data, as in scrapy-redis: the body
    of a POST, unless it has one; with other methods the query, replacing that of the URL."""
    if not message.get("url"):
        raise UsageError("the message has no url, which is required.")
    fields: dict[str, Any] = {"dont_filter": True, "method": "GET"}
    form: dict[str, str | list[str]] = {}
    for name, value in message.items():
        if name in _TYPES:
            fields[name] = checked(name, value)
        else:
            form[name] = [str(one) for one in value] if isinstance(value, list) else str(value)
    fields["method"] = fields["method"].upper()
    return _with_form(fields, urlencode(form, doseq=True)) if form else fields


def checked(name: str, value: Any) -> Any:
    """Raises UsageError if the field has the wrong type."""
    wanted = _TYPES[name]
    if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
        kinds = " or ".join(kind.__name__ for kind in wanted)
        raise UsageError(f"its {name} must be {kinds}, got {value!r}.")
    return value


def _with_form(fields: dict[str, Any], form: str) -> dict[str, Any]:
    if fields["method"] != "POST":
        page, mark, fragment = fields["url"].partition("#")
        fields["url"] = page.partition("?")[0] + "?" + form + mark + fragment
    elif "body" not in fields:
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        fields["body"], fields["headers"] = form, kind | fields.get("headers", {})
    return fields
