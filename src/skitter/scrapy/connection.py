"""Redis clients for pipelines and scripts, under the names that scrapy-redis uses.

The scheduler has its own connection, on its own thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.utils.misc import load_object

from skitter.errors import UsageError
from skitter.frontier.blocking import blocking_client
from skitter.scrapy.address import NEEDLESS, server_settings
from skitter.valkey import address_of, running

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

#: Removed from redis-py, which now always retries after a time-out.
_GONE = frozenset({"retry_on_timeout"})


def get_redis(**kwargs: Any) -> Any:
    """A blocking client from `url` or redis-py's arguments, of class `redis_cls` if given.
    Also accepts redis+sentinel:// and redis+cluster:// URLs."""
    named = kwargs.pop("redis_cls", None)
    url = kwargs.pop("url", None)
    kwargs = {name: value for name, value in kwargs.items() if name not in _GONE}
    if named is None:
        return blocking_client(url, **kwargs)
    kind: Any = load_object(named)
    return kind.from_url(url, **kwargs) if url else kind(**kwargs)


def get_redis_from_settings(settings: BaseSettings) -> Any:
    """A blocking client to the crawl's server: REDIS_URL, REDIS_HOST etc., or SKITTER_DIR.

    Time-outs and decoding in REDIS_PARAMS apply to this client. Raises UsageError if the embedded
    server is not running.
    """
    named = settings.getdict("REDIS_PARAMS")
    options = {name: value for name, value in named.items() if name in NEEDLESS - _GONE}
    options["encoding"] = settings.get("REDIS_ENCODING") or options.get("encoding", "utf-8")
    if settings.getbool("REDIS_DECODE_RESPONSES"):
        options["decode_responses"] = True
    server = server_settings(settings)
    if server.redis_url is not None:
        return get_redis(url=server.redis_url, **options)
    if running(server.directory) is None:
        raise UsageError(
            f"no server is running in {server.directory}: start one with "
            f"`skitter up --dir {server.directory}`, or start the crawl first."
        )
    embedded = address_of(server.directory)
    return get_redis(url=embedded.url, password=embedded.password, **options)


from_settings = get_redis_from_settings
#: Settings and the arguments of redis-py that they stand for, as in scrapy-redis.
SETTINGS_PARAMS_MAP = {
    f"REDIS_{name.upper()}": name
    for name in ("url", "host", "port", "db", "encoding", "decode_responses")
}
