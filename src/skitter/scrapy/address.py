"""Where the server is: REDIS_URL, or REDIS_HOST etc., as in scrapy-redis."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from skitter.errors import UsageError
from skitter.frontier.addresses import SCHEMES, bad_address
from skitter.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy.settings import BaseSettings

#: Names in REDIS_PARAMS that are part of the server's address or our login.
_PLACE = frozenset({"host", "port", "db", "username", "password", "ssl", "unix_socket_path"})
#: For clients of user code only: the scheduler has its own time-outs, retries and decoding.
NEEDLESS = frozenset(
    {
        *("encoding", "socket_timeout", "socket_connect_timeout", "socket_keepalive"),
        *("retry_on_timeout", "retry_on_error", "health_check_interval", "max_connections"),
        *("decode_responses", "protocol", "client_name"),
    }
)


def server_settings(settings: BaseSettings) -> Settings:
    """From the settings; else SKITTER_REDIS_URL; else the embedded server in SKITTER_DIR; else
    localhost:6379, like scrapy-redis."""
    params = _params(settings)
    if url := settings.get("REDIS_URL"):
        return _at("REDIS_URL", _with_login(str(url), params))
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
        if name not in NEEDLESS and value is not None
    }
    for name in params:
        if name not in _PLACE and not name.startswith("ssl_"):
            raise UsageError(
                f"REDIS_PARAMS[{name!r}] cannot be honoured: name the server with REDIS_URL, which "
                "takes redis://, rediss://, unix://, redis+sentinel:// and redis+cluster://."
            )
    for name in ("host", "port", "db", "password"):
        value = settings.get(f"REDIS_{name.upper()}")
        if value is not None and value != "":
            params[name] = value
    return params


def _url(params: Mapping[str, Any]) -> str:
    query = {name: value for name, value in params.items() if name.startswith("ssl_")}
    db = params.get("db", 0)
    if path := params.get("unix_socket_path"):
        return f"unix://{_login(params)}{path}?{urlencode({'db': db})}"
    scheme = "rediss" if params.get("ssl") else "redis"
    place = f"{params.get('host', 'localhost')}:{params.get('port', 6379)}"
    return f"{scheme}://{_login(params)}{place}/{db}" + (f"?{urlencode(query)}" if query else "")


def _with_login(url: str, params: Mapping[str, Any]) -> str:
    """Add the login from REDIS_PARAMS unless the URL has one."""
    parts = urlsplit(url)
    if "@" in parts.netloc or not _login(params):
        return url
    return url.replace("://", f"://{_login(params)}", 1)


def _login(params: Mapping[str, Any]) -> str:
    name, password = params.get("username") or "", params.get("password") or ""
    if not name and not password:
        return ""
    return f"{quote(str(name), safe='')}:{quote(str(password), safe='')}@"
