"""Text from the web, made safe for a terminal."""

from __future__ import annotations

import re
from typing import Final

# Control and bidi characters: text from the web must not control the terminal, and Rich lets ESC
# through. Lone surrogates: no stream can encode them.
UNSAFE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def clean(text: str) -> str:
    """One line that is safe for a terminal. It may still contain Rich markup."""
    return UNSAFE.sub("\ufffd", re.sub(r"[\t\r\n]+", " ", text))
