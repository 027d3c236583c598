"""Where a task or a crawl stands."""

from __future__ import annotations

from typing import Any

import msgspec

from skitter.celery.charges import read_charge
from skitter.celery.factory import default_app
from skitter.celery.office import office_of
from skitter.celery.tasks import QUEUED
from skitter.errors import JobMissing
from skitter.frontier.crew import FETCHING, crew
from skitter.frontier.jobs import open_job


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about an id."""

    id: str
    state: str  # of Celery, or QUEUED; of a job: run, pause, drain, cancel, finished
    url: str | None = None
    error: str | None = None
    job: str | None = None
    pending: int = 0
    delayed: int = 0  # retries that wait
    leased: int = 0
    done: int = 0
    dead: int = 0
    pumps: int = 0

    @property
    def ready(self) -> bool:
        return self.state in ("SUCCESS", "FAILURE", "REVOKED", "finished")


def status(id: str, *, app: Any = None) -> Status:
    """Of a task by its id, or of a crawl by its job's name."""
    app = app or default_app()
    office = office_of(app)
    try:
        return office.run(_of_job(office, id, id))
    except JobMissing:
        return _of_task(app, id)


def _of_task(app: Any, id: str) -> Status:
    result = app.AsyncResult(id)
    state, info = result.state, result.info
    if state != QUEUED or not isinstance(info, dict):
        error = str(info) if isinstance(info, BaseException) else None
        return Status(id=id, state=state, error=error)
    office = office_of(app)
    try:
        found = office.run(_of_job(office, id, info["job"]))
    except JobMissing:
        found = Status(id=id, state=state)
    return msgspec.structs.replace(found, state=state, url=info.get("url"))


async def _of_job(office: Any, id: str, job: str) -> Status:
    server = await office.server()
    frontier = await open_job(server, job)
    stats = await frontier.stats()
    over = stats.crawled and await read_charge(server, job) is None  # loaded and delivered too
    return Status(
        id=id,
        state="finished" if over else stats.state.value,
        job=job,
        pending=stats.pending,
        delayed=stats.delayed,
        leased=stats.leased,
        done=stats.done,
        dead=stats.dead,
        pumps=sum(one.kind in FETCHING for one in await crew(frontier)),
    )
