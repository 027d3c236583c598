"""Types of nested values: what Arrow calls lists and structs, found in the values of a column.

Where values do not agree, such as a number here and a list there, their place holds text: strings
as they are, all else as JSON.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]

from skitter.sinks.columns import json_text

#: A dict with more keys than this has data for keys: it becomes text.
MOST_FIELDS: Final = 100
NULL, TEXT = pa.null(), pa.string()
_PLAIN: Final = {bool: pa.bool_(), float: pa.float64(), str: TEXT, type(None): NULL}


def type_of(value: Any) -> pa.DataType:
    """The narrowest type that holds the value."""
    if type(value) is int:
        return pa.int64() if -(2**63) <= value < 2**63 else TEXT
    if isinstance(value, list | tuple):
        found = NULL
        for one in value:
            found = both(found, type_of(one))
        return pa.list_(found)
    if isinstance(value, dict):
        if len(value) > MOST_FIELDS:
            return TEXT
        return pa.struct([(str(name), type_of(one)) for name, one in value.items()])
    return _PLAIN.get(type(value), TEXT)


def both(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """The narrowest type that holds the values of both."""
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if pa.types.is_list(one) and pa.types.is_list(other):
        return pa.list_(both(one.value_type, other.value_type))
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        return _joined({f.name: f.type for f in one}, {f.name: f.type for f in other})
    if {one, other} == {pa.int64(), pa.float64()}:
        return pa.float64()
    return TEXT


def _joined(one: dict[str, Any], other: dict[str, Any]) -> pa.DataType:
    names = one | other
    if len(names) > MOST_FIELDS:
        return TEXT
    return pa.struct([(name, both(one.get(name, NULL), other.get(name, NULL))) for name in names])


def settled(found: pa.DataType) -> pa.DataType:
    """Without nulls and empty structs, which many readers of Parquet refuse: they become text."""
    if pa.types.is_list(found):
        return pa.list_(settled(found.value_type))
    if pa.types.is_struct(found) and found.num_fields:
        return pa.struct([(field.name, settled(field.type)) for field in found])
    return TEXT if pa.types.is_null(found) or pa.types.is_struct(found) else found


def fitted(value: Any, kind: pa.DataType) -> Any:
    """The value, as a column of that type takes it."""
    if value is None:
        return None
    if pa.types.is_string(kind):
        return value if isinstance(value, str) else json_text(value)
    if pa.types.is_list(kind):
        return [fitted(one, kind.value_type) for one in value]
    if pa.types.is_struct(kind):
        return {field.name: fitted(value.get(field.name), field.type) for field in kind}
    return float(value) if pa.types.is_floating(kind) else value
