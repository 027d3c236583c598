"""Messages that ask for a spider or an output. Who may write to the broker can send any task, so a
worker does what its configuration allows, or what a caller has signed: the message as a whole, with
the task's id.

A worker signs no messages. It sends the next task of a chain, or a callback, which came with a
message that anybody may have written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from kombu.utils.json import dumps

from skitter.celery.allowed import check_rights
from skitter.celery.office import office_of
from skitter.celery.options import Options
from skitter.celery.secret import HOW
from skitter.errors import NotAllowed
from skitter.redact import redact_headers

if TYPE_CHECKING:
    from skitter.celery.office import Office

HEADER = "skitter_signature"
Kind = TypeVar("Kind", bound=Options)


def sign_message(
    office: Office, task: str, content: list[Any], options: dict[str, Any]
) -> dict[str, Any]:
    """Options of apply_async. Content: the task's id, its arguments, its keywords."""
    if office.in_worker or not _asks_for_more(task, content[2]):
        return {}
    secret = office.secret
    if secret is None:
        return {}
    signature = secret.sign("message", task, _plain(content))
    return {"headers": {**(options.get("headers") or {}), HEADER: signature}}


def _asks_for_more(task: str, keywords: dict[str, Any]) -> bool:
    """Than a page as it is."""
    return task == "skitter.crawl" or bool(keywords.get("spider") or keywords.get("out"))


def permitted(task: Any, kind: type[Kind], given: dict[str, Any]) -> Kind:
    """The options of the task that runs. Raises NotAllowed before anything of them is loaded."""
    office, wanted = office_of(task.app), kind.read(given)
    signed = is_signed(office, task)
    check_rights(wanted.spider, wanted.place, office.settings, signed=signed)
    if not signed and office.settings.obey_robots and not getattr(wanted, "obey_robots", True):
        raise NotAllowed(f"whoever wants to ignore robots.txt has to sign: {HOW}.")
    wanted.check()
    return wanted


def is_signed(office: Office, task: Any) -> bool:
    request, secret = task.request, office.secret
    signature = (request.headers or {}).get(HEADER)
    if secret is None or not signature:
        return False
    content = [request.id, request.args, request.kwargs]
    return secret.has_signed(signature, "message", task.name, _plain(content))


def _plain(content: list[Any]) -> Any:
    """As it arrives: Celery's JSON has no tuples."""
    return msgspec.json.decode(dumps(content))


def masked(options: dict[str, Any]) -> dict[str, Any]:
    """Without the values of headers that may be cookies or tokens."""
    headers = options.get("headers")
    if not isinstance(headers, dict):
        return options
    return options | {"headers": redact_headers(headers)}
