"""How much may fail before a result is lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from skitter.settings.option import Table, option


@dataclass(frozen=True, slots=True, kw_only=True)
class Safety(Table):
    """How safe URLs and results must be before workers consider them stored."""

    durability: Literal["primary", "replicated"] = option(
        "primary",
        "When URLs and results count as stored: when the primary has them, or when a replica "
        "has them too.",
        flag="--durability",
        in_lua=False,
    )

    @property
    def replicated(self) -> bool:
        return self.durability == "replicated"
