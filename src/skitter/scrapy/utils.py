"""Small functions under the names of `scrapy_redis.utils`, for code that uses them."""

from __future__ import annotations

import json
from typing import Any


class TextColor:
    """Escape sequences of terminals."""

    HEADER, OKBLUE, OKCYAN, OKGREEN = "\033[95m", "\033[94m", "\033[96m", "\033[92m"
    WARNING, FAIL, ENDC, BOLD, UNDERLINE = "\033[93m", "\033[91m", "\033[0m", "\033[1m", "\033[4m"


def bytes_to_str(value: Any, encoding: str = "utf-8") -> Any:
    """Bytes as text; anything else as it is."""
    return value.decode(encoding) if isinstance(value, bytes) else value


def convert_bytes_to_str(data: Any, encoding: str = "utf-8") -> Any:
    """The same for the keys and values of a dict, and the members of a tuple."""
    if isinstance(data, dict):
        pairs = ((bytes_to_str(key, encoding), value) for key, value in data.items())
        return {key: convert_bytes_to_str(value, encoding) for key, value in pairs}
    if isinstance(data, tuple):
        return tuple(convert_bytes_to_str(one, encoding) for one in data)
    return bytes_to_str(data, encoding)


def is_dict(text: str) -> bool:
    """Whether the text is JSON of any kind, as scrapy-redis means it."""
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
