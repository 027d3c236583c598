"""An item that a pipeline failed on, kept with the reason as far as it can be serialized."""

from __future__ import annotations

from typing import Any

from itemadapter import ItemAdapter

from skitter.frontier.admin.items import RejectedItem
from skitter.frontier.completions import MAX_ITEM_BYTES
from skitter.frontier.wire import NOT_PLAIN, cut, encode


def rejected_item(item: Any, *, url: str, error: BaseException | None) -> RejectedItem:
    """The item as `skitter rejected` shows it."""
    reason = cut(f"{type(error).__name__}: {error}".rstrip(": "))
    return RejectedItem(url=url, field="", reason=reason, item=_writable(item))


def _writable(item: Any) -> Any:
    """Unchanged if it can be stored; otherwise unstorable fields become text, truncated to fit."""
    fields = ItemAdapter(item).asdict() if ItemAdapter.is_item(item) else {"item": item}
    if _fits(fields):
        return fields
    room = MAX_ITEM_BYTES // len(fields)
    return {
        ascii(str(name))[1:-1]: value if _fits(value, room) else ascii(value)[:room]
        for name, value in fields.items()
    }


def _fits(value: Any, limit: int = MAX_ITEM_BYTES) -> bool:
    try:
        return len(encode(value)) <= limit
    except NOT_PLAIN:
        return False
