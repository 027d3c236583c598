"""Where the server is, and Redis clients for pipelines and scripts, as in scrapy-redis.

The scheduler has its own connection, on its own thread.
"""

from __future__ import annotations

import os
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from scrapy.utils.misc import load_object

from skitter.embedded import address_of, running
from skitter.errors import UsageError
from skitter.frontier.transport.blocking import blocking_client
from skitter.frontier.transport.endpoints import SCHEMES, bad_address, is_cluster_url, is_sentinel
from skitter.scrapy.defaults import REDIS_PARAMS
from skitter.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy.settings import BaseSettings


#: Names in REDIS_PARAMS that are part of the server's address or our login.
_PLACE = frozenset({"host", "port", "db", "username", "password", "ssl", "unix_socket_path"})
#: Options of TLS that a URL can carry.
_TLS = frozenset(
    {
        *("ssl_keyfile", "ssl_certfile", "ssl_password", "ssl_ca_certs", "ssl_ca_path"),
        *("ssl_ca_data", "ssl_cert_reqs", "ssl_check_hostname", "ssl_ciphers", "ssl_min_version"),
    }
)
#: For clients of user code only: the scheduler has its own time-outs, retries and decoding.
NEEDLESS = frozenset(
    {
        *("encoding", "socket_timeout", "socket_connect_timeout", "socket_keepalive"),
        *("retry_on_timeout", "retry_on_error", "health_check_interval", "max_connections"),
        *("decode_responses", "protocol", "client_name"),
    }
)


def server_settings(settings: BaseSettings) -> Settings:
    """REDIS_URL, or REDIS_HOST etc.; else SKITTER_REDIS_URL; else the embedded server in
    SKITTER_DIR; else localhost:6379, like scrapy-redis."""
    params = _params(settings)
    if url := settings.get("REDIS_URL"):
        return _at("REDIS_URL", _merged(str(url), params))
    if params:
        return _at("REDIS_HOST with REDIS_PORT", _url(params))
    if url := os.environ.get("SKITTER_REDIS_URL"):
        return _at("SKITTER_REDIS_URL", url)
    if directory := settings.get("SKITTER_DIR") or os.environ.get("SKITTER_DIR"):
        return Settings(directory=Path(directory))
    return Settings(redis_url="redis://localhost:6379/0")


def _at(setting: str, url: str) -> Settings:
    """Raises BadOption, naming the setting that the address came from."""
    scheme = url.partition("://")[0]
    if scheme not in SCHEMES:
        raise bad_address(setting, url)
    try:
        if scheme in ("redis", "rediss"):
            _ = urlsplit(url).port
    except ValueError as error:
        raise bad_address(setting, url, error) from None
    return Settings(redis_url=url)


def _params(settings: BaseSettings) -> dict[str, Any]:
    """REDIS_HOST etc. win over REDIS_PARAMS unless they are empty."""
    params = {
        name: value
        for name, value in settings.getdict("REDIS_PARAMS").items()
        if name not in NEEDLESS and (value is not None or name == "ssl_cert_reqs")
    }
    for name in params:
        if name not in _PLACE and name not in _TLS:
            raise UsageError(
                f"REDIS_PARAMS[{name!r}] cannot be honoured: name the server with REDIS_URL, which "
                f"takes {', '.join(f'{scheme}://' for scheme in SCHEMES)}."
            )
    for name in ("host", "port", "db", "password"):
        value = settings.get(f"REDIS_{name.upper()}")
        if value is not None and value != "":
            params[name] = value
    return params


def _url(params: Mapping[str, Any]) -> str:
    if path := params.get("unix_socket_path"):
        return f"unix://{_login(params)}{path}?{urlencode({'db': params.get('db', 0)})}"
    place = f"{params.get('host', 'localhost')}:{params.get('port', 6379)}"
    return _merged(f"redis://{_login(params)}{place}", {"db": 0, **params})


def _merged(url: str, params: Mapping[str, Any]) -> str:
    """The URL with what it does not say itself: login, database and TLS. Raises UsageError."""
    try:
        has_login = "@" in urlsplit(url).netloc
    except ValueError as error:
        raise bad_address("REDIS_URL", url, error) from None
    if not has_login:
        url = url.replace("://", f"://{_login(params)}", 1)
    url = _with_tls(url, params)
    return _with_database(url, params["db"]) if "db" in params else url


def _with_database(url: str, db: Any) -> str:
    parts = urlsplit(url)
    named = [one for one in parts.path.split("/") if one]
    if is_cluster_url(url):
        if str(db) != "0":
            raise UsageError(f"a cluster has no database {db}: leave out REDIS_DB and `db`.")
        return url
    if "db" in dict(parse_qsl(parts.query)) or len(named) > is_sentinel(url):
        return url if parts.scheme != "unix" else _with_query(url, {"db": db})
    return parts._replace(path="/".join(["", *named, str(db)])).geturl()


def _with_tls(url: str, params: Mapping[str, Any]) -> str:
    """Its own options win, as with redis-py."""
    scheme, _, rest = url.partition("://")
    if params.get("ssl") and scheme.startswith("redis") and not scheme.startswith("rediss"):
        scheme = scheme.replace("redis", "rediss", 1)
        url = f"{scheme}://{rest}"
    options = {name: _tls_value(value) for name, value in params.items() if name in _TLS}
    if options and not scheme.startswith("rediss"):
        raise UsageError(
            f"REDIS_PARAMS[{next(iter(options))!r}] needs TLS: set REDIS_PARAMS['ssl'] = True, or "
            "write rediss:// in REDIS_URL."
        )
    return _with_query(url, options)


def _with_query(url: str, options: Mapping[str, Any]) -> str:
    """Those that it does not have."""
    query = urlsplit(url).query
    more = urlencode({k: v for k, v in options.items() if k not in dict(parse_qsl(query))})
    return url + ("&" if query else "?") + more if more else url


def _tls_value(value: Any) -> Any:
    """None and ssl.CERT_NONE are `none` in a URL."""
    if value is None or isinstance(value, ssl.VerifyMode):
        return "none" if value is None else value.name.removeprefix("CERT_").lower()
    return int(value) if isinstance(value, ssl.TLSVersion) else value


def _login(params: Mapping[str, Any]) -> str:
    name, password = params.get("username") or "", params.get("password") or ""
    if not name and not password:
        return ""
    return f"{quote(str(name), safe='')}:{quote(str(password), safe='')}@"


#: Removed from redis-py, which now always retries after a time-out.
_GONE = frozenset({"retry_on_timeout"})


def get_redis(**kwargs: Any) -> Any:
    """A blocking client from `url` or redis-py's arguments, of class `redis_cls` if given.
    Also accepts redis+sentinel:// and redis+cluster:// URLs."""
    named = kwargs.pop("redis_cls", None)
    url = kwargs.pop("url", None)
    if named is None:
        kwargs = {name: value for name, value in kwargs.items() if name not in _GONE}
        return blocking_client(url, **kwargs)
    kind: Any = load_object(named)
    return kind.from_url(url, **kwargs) if url else kind(**kwargs)


def get_redis_from_settings(settings: BaseSettings) -> Any:
    """A blocking client to the crawl's server: REDIS_URL, REDIS_HOST etc., or SKITTER_DIR.

    Time-outs and decoding in REDIS_PARAMS apply to this client. With a `redis_cls` there, which
    only clients of your own can have, all of it does, as in scrapy-redis. Raises UsageError if the
    embedded server is not running.
    """
    named = settings.getdict("REDIS_PARAMS")
    if named.get("redis_cls"):
        said = {name: settings.get(one) for one, name in SETTINGS_PARAMS_MAP.items()}
        said = {name: value for name, value in said.items() if value}
        return get_redis(**{**REDIS_PARAMS, **named, **said})
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
