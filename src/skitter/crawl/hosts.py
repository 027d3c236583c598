"""Whether the hosts of the start URLs exist, before a crawl begins."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from skitter.crawl.plan import Engine
from skitter.errors import NAMES_AWAY, NOT_FOUND, HostNotFound
from skitter.fetch.guard import authority_of, is_address
from skitter.fetch.resolver import Resolver, is_no_such_name
from skitter.settings.outbound import outbound_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from skitter.crawl.plan import Plan

LOOK_S = 2.0
AT_MOST = 20


async def check_hosts(plan: Plan, progress: Callable[[str], None]) -> None:
    """Raise HostNotFound if none of them exists; name those that do not, and a name server that
    does not answer: then the crawl waits for it."""
    names = _names(plan)
    resolver = Resolver()
    try:
        said = await asyncio.gather(*(_look_up(resolver, name) for name in names))
    finally:
        await resolver.close()
    missing = [name for name, problem in zip(names, said, strict=True) if problem == NOT_FOUND]
    if missing and len(missing) == len(names):
        raise HostNotFound(names[missing[0]], ", ".join(missing))
    for name in missing:
        progress(f"{NOT_FOUND}{name}")
    if names and set(said) == {NAMES_AWAY}:
        progress(f"{NAMES_AWAY}: the crawl waits for it.")


def _names(plan: Plan) -> dict[str, str]:
    """Each name that workers here will look up, with a URL. Empty: there may be others."""
    spider, config = plan.spider, plan.config
    is_listed = isinstance(spider.start, list | tuple | set | frozenset)
    is_local = plan.engine is Engine.PROCESSES and not config.archive.offline
    if not is_local or plan.keep_alive or config.proxies or not is_listed:
        return {}
    outbound = outbound_of(config.fetch.proxy, os.environ)
    urls = [seed.url for seed in spider.known_seeds]
    if outbound and any(outbound.proxy_for(url) for url in urls):
        return {}
    found = {authority_of(url).name: url for url in urls}
    names = {name: url for name, url in found.items() if not is_address(name)}
    # Many, or some that need no look-up: then one that is missing is a dead letter like any other.
    return names if len(names) == len(found) <= AT_MOST else {}


async def _look_up(resolver: Resolver, name: str) -> str:
    """What is wrong; empty: nothing, or it takes long."""
    with suppress(TimeoutError):
        async with asyncio.timeout(LOOK_S):
            try:
                await resolver.resolve(name)
            except (OSError, UnicodeError) as error:
                return NOT_FOUND if is_no_such_name(error) else NAMES_AWAY
    return ""
