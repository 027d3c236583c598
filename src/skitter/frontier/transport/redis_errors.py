"""redis-py's errors, imported when the first one is needed: where all goes well, none is, and
redis-py takes longer to import than a short command takes to run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from redis.exceptions import AskError as AskError
    from redis.exceptions import AuthenticationError as AuthenticationError
    from redis.exceptions import BusyLoadingError as BusyLoadingError
    from redis.exceptions import ClusterError as ClusterError
    from redis.exceptions import ConnectionError as ConnectionError
    from redis.exceptions import InvalidResponse as InvalidResponse
    from redis.exceptions import MasterDownError as MasterDownError
    from redis.exceptions import NoPermissionError as NoPermissionError
    from redis.exceptions import NoScriptError as NoScriptError
    from redis.exceptions import OutOfMemoryError as OutOfMemoryError
    from redis.exceptions import ReadOnlyError as ReadOnlyError
    from redis.exceptions import RedisClusterException as RedisClusterException
    from redis.exceptions import RedisError as RedisError
    from redis.exceptions import ResponseError as ResponseError
    from redis.exceptions import SlotNotCoveredError as SlotNotCoveredError
    from redis.exceptions import TimeoutError as TimeoutError
    from redis.exceptions import TryAgainError as TryAgainError
else:

    def __getattr__(name):
        import redis.exceptions

        value = globals()[name] = getattr(redis.exceptions, name)
        return value


def answered_with(text: str) -> Exception:
    """The error of the server's answer, as redis-py would raise it."""
    from redis._parsers.base import BaseParser

    error: Exception = BaseParser.parse_error(text)  # type: ignore[no-untyped-call]
    return error
