"""Failures of the server or the connection: redis-py's errors become ours."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from skitter.errors import (
    DiskFull,
    InfrastructureError,
    JobMissing,
    ServerFull,
    ServerRefused,
    ServerUnfit,
    ServerUnreachable,
    SkitterError,
)
from skitter.frontier.transport import redis_errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Errors without a class in redis-py, of a server that can take the call later: it runs a long
#: script, its replicas are down, or it became a replica itself while we waited for one.
LATER = ("BUSY ", "NOREPLICAS ", "UNBLOCKED ")
NO_MASTER = "no sentinel there knows a master of that name"
#: Of Python's ssl, about files that a URL names.
BAD_FILES = ("No such file", "Permission denied", "[X509", "PEM lib", "[SSL] PEM")
NO_NODE = "none of these nodes answers"
NO_CLUSTER = "is not a cluster: use redis:// for a single server, or name a node."
#: Answers of a server of another kind than the URL says.
MISTAKEN = {
    "cluster support disabled": NO_CLUSTER,
    "Cluster mode is not": NO_CLUSTER,
    "MOVED": "is a node of a cluster: use redis+cluster://, with TLS rediss+cluster://.",
    "DB index is out of range": "has no database of that number: most servers have 0 to 15.",
    "unknown command 'SENTINEL'": "is not a sentinel: use redis:// for a server, "
    "or the port of a sentinel, which is usually 26379.",
}


def away(*more: type[Exception]) -> tuple[type[Exception], ...]:
    """The server is down or changing roles: failover, loading, a cluster that votes or moves
    slots."""
    return (
        *more,
        OSError,
        redis_errors.ConnectionError,
        redis_errors.TimeoutError,
        redis_errors.ClusterError,
        redis_errors.SlotNotCoveredError,
        redis_errors.MasterDownError,
        redis_errors.ReadOnlyError,
        redis_errors.TryAgainError,
    )


@contextmanager
def our_errors(
    where: str, directory: Path | None = None, *, accepted: bool = False
) -> Iterator[None]:
    """Turn redis-py's errors into ours, each with what to do next. `accepted`: the server took the
    same call before."""
    try:
        yield
    except redis_errors.OutOfMemoryError as error:
        raise ServerFull(where) from error
    except (redis_errors.AuthenticationError, redis_errors.NoPermissionError) as error:
        raise _refused(where, error, accepted=accepted) from error
    except redis_errors.BusyLoadingError as error:
        raise ServerUnreachable(
            f"{where} is loading its data: try again in a moment, or watch its log."
        ) from error
    except away(redis_errors.RedisClusterException) as error:
        raise _away(where, error, accepted=accepted) from error
    except redis_errors.AskError as error:  # also MovedError; redis-py cuts the word off
        raise _answer(where, f"MOVED {error}", directory) from error
    except redis_errors.ResponseError as error:
        raise _answer(where, str(error), directory) from error
    except redis_errors.RedisError as error:
        raise ServerUnreachable(
            f"{where} does not answer like a Redis server ({error}): check host and port."
        ) from error


def _away(where: str, error: Exception, *, accepted: bool) -> SkitterError:
    """It cannot be reached, or not as what the URL says."""
    if _is_refusal(error):
        return _refused(where, error, accepted=accepted)
    if _is_of_sentinels(error) and " - auth:" in str(error) and not accepted:
        return ServerRefused(
            f"{where}: a sentinel there rejected our login, so it does not say where the server "
            "is: add the sentinels' own password to the URL, as in ?sentinel_password=PASSWORD."
        )
    if mistaken := _mistaken(where, _whole(error)):
        return mistaken
    reason = _reason(error, where)
    if "ssl_" in where and any(words in _whole(error) for words in BAD_FILES):
        return ServerUnreachable(
            f"a file that the URL {where} names cannot be used ({reason}): ssl_ca_certs is the "
            "certificate of a CA, ssl_certfile and ssl_keyfile are our own, all of them PEM files."
        )
    if "CERTIFICATE_VERIFY_FAILED" in _whole(error) and "mismatch" in reason:
        return ServerUnreachable(
            f"{where} shows a certificate of another name ({reason}): write a name or address into "
            "the URL that the certificate is for."
        )
    if "CERTIFICATE_VERIFY_FAILED" in _whole(error):
        return ServerUnreachable(
            f"{where} shows a certificate that this machine does not trust ({reason}): if it is "
            "signed by a CA of your own, name that in the URL, as in "
            "rediss://host:6379?ssl_ca_certs=/etc/ssl/our-ca.pem."
        )
    advice = "check that it runs and that this machine may reach it" + _tls_hint(where, error)
    if reason == NO_MASTER:
        advice = "check the name, of which `SENTINEL MASTERS` lists all, and that it runs"
    return ServerUnreachable(f"{where} does not answer ({reason}): {advice}.")


def _answer(where: str, error: str, directory: Path | None) -> SkitterError:
    if cannot_write := re.search(r"MISCONF (.+)", error):
        if directory and "No space left" in error:
            return DiskFull(directory)
        return ServerUnreachable(
            f"{where} cannot write to its disk ({cannot_write[1].rstrip('.')}): make room there, "
            "or see its log."
        )
    if error.startswith(LATER):
        return ServerUnreachable(f"{where} accepts no calls at the moment ({error}): see its log.")
    if gone := re.match(r"GONE .*\{(.+):\d+\}", error):  # lua/lib/limits.lua
        return JobMissing(gone.group(1), known=[])
    return _mistaken(where, error) or InfrastructureError(
        f"{where} answered with an error: {error}"
    )


def _mistaken(where: str, error: str) -> ServerUnfit | None:
    found = (says for words, says in MISTAKEN.items() if words in error)
    return next((ServerUnfit(f"{where} {says}") for says in found), None)


def is_temporary(error: Exception) -> bool:
    """Whether the same call may be answered in a moment."""
    if isinstance(error, away()):
        return not _is_refusal(error)
    if isinstance(error, redis_errors.ResponseError):
        return str(error).startswith(LATER)
    # A bug of redis-py's cluster client, which fails on a connection that another task just lost,
    # and on an unknown node to which a slot is moving.
    return isinstance(error, AttributeError) and any(
        word in str(error) for word in ("writelines", "connection_kwargs")
    )


def _is_refusal(error: BaseException) -> bool:
    """While connecting, redis-py reports everything as one kind of error."""
    return isinstance(error, redis_errors.AuthenticationError) or any(
        words in _whole(error) for words in ("Authentication required", "username-password")
    )


def _reason(error: BaseException, where: str) -> str:
    """A short reason: redis-py lists every sentinel that is down, with all its settings."""
    if _is_of_sentinels(error):
        away = len(re.findall(r" - [^,]*(?:Connection|Timeout)Error", str(error)))
        if away > where.count(","):  # all that the URL names
            return "no sentinel answers"
        return NO_MASTER
    if "Cluster cannot be connected" in str(error):
        return NO_NODE
    found = re.match(r"Error -?\d+ connecting to (\S+)\. ", str(error))
    reason = str(error)[found.end() if found else 0 :].rstrip(".")
    reason = reason[:1].lower() + reason[1:]
    return f"{found[1]}: {reason}" if found and "+cluster" in where else reason  # which of them


def _is_of_sentinels(error: BaseException) -> bool:
    """Whether no sentinel led to a server. redis-py has two classes of that name."""
    return type(error).__name__ == "MasterNotFoundError"


def _tls_hint(where: str, error: BaseException) -> str:
    if not where.startswith("rediss"):
        wants_tls = "reset by peer" in _whole(error) or "closed by server" in _whole(error)
        return ". If it speaks TLS there, use rediss://" * wants_tls
    hint = ", and that it speaks TLS there: use redis:// if it does not"
    return hint + ". This machine must trust its certificate (ssl_ca_certs)" * _is_of_sentinels(
        error
    )


def _whole(error: BaseException | None) -> str:
    """The text of an error and of its causes."""
    return f"{error} {_whole(error.__cause__ or error.__context__)}" if error else ""


def _refused(where: str, error: Exception, *, accepted: bool) -> SkitterError:
    reason = str(error).rstrip(".")
    if accepted:
        return ServerUnreachable(
            f"{where} accepted us before and now refuses us ({reason}): give our user its password "
            "and its rights back (docs/security.md)."
        )
    if isinstance(error, redis_errors.NoPermissionError):
        return ServerRefused(
            f"{where} does not give our user enough rights ({reason}): see the ACL in "
            "docs/security.md. Then run it again: nothing is lost."
        )
    return ServerRefused(
        f"{where} rejected our login ({reason}): put the password in the URL, as in "
        "redis://:PASSWORD@host:6379 or redis://USER:PASSWORD@host:6379."
    )
