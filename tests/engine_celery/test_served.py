"""What the HTTP API tells of tasks that Celery runs."""

from __future__ import annotations

import httpx
import pytest

from engine_celery.conftest import Station
from skitter.embedded import hold
from skitter.frontier.records.operators import new_token
from skitter.frontier.transport.connection import connect
from skitter.server.keyring import Keyring
from skitter.server.serving import Address, listen, serving
from skitter.server.site import Site

pytestmark = pytest.mark.timeout(300)


async def test_a_task_is_asked_for_by_its_id(busy: Station) -> None:
    result = busy.scrape.delay(busy.page("/about?served"))
    result.get(timeout=40)
    listener = listen(Address())
    with hold(busy.folder / ".s") as embedded:
        async with connect(embedded.url) as server:
            token = await new_token(server, name="a test", scopes=["read"])
            site = Site(server, Keyring(server, b"of the test"), where=busy.settings.where)
            headers = {"authorization": f"Bearer {token}"}
            async with (
                serving(site, listener),
                httpx.AsyncClient(headers=headers, timeout=60) as web,
            ):
                url = f"{Address().url(listener)}api/tasks/{result.id}"
                answer = (await web.get(url)).json()

    assert (answer["id"], answer["state"]) == (result.id, "SUCCESS")
