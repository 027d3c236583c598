"""One method per Lua verb. verbs.pyi, generated from the headers, gives their types."""

from __future__ import annotations

from functools import cache
from itertools import chain
from typing import Any

from skitter.frontier.transport.scripts import script, verbs


class Verbs:
    """The calls that a shard offers."""

    async def call(self, verb: str, each: Any = (), **values: Any) -> Any:
        raise NotImplementedError


def _method(verb: str) -> Any:
    def method(self: Verbs, each: Any = (), *, rest: Any = (), **values: Any) -> Any:
        flat = [*chain.from_iterable(each), *rest] if _has_rows(verb) else each
        return self.call(verb, flat, **values)

    return method


@cache
def _has_rows(verb: str) -> bool:
    return len(script(verb).header.each) > 1


for _verb in verbs():
    setattr(Verbs, _verb, _method(_verb))
