"""Where a task or a crawl stands."""

from __future__ import annotations

from typing import Any

import msgspec

from skitter.celery.backend import QUEUED, has_backend, known_of
from skitter.celery.charges import read_charge
from skitter.celery.factory import default_app
from skitter.celery.office import office_of
from skitter.errors import JobMissing
from skitter.frontier.admin.control import read_birth
from skitter.frontier.admin.workers import FETCHING, crew
from skitter.model import State

PURGED = "PURGED"
NO_BACKEND = (
    "this app has no result backend, so nobody knows what became of its tasks: give it one, or ask "
    "for a job by its name."
)


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about an id."""

    id: str
    #: Of Celery, or QUEUED, PURGED or UNKNOWN; of a job: run, pause, drain, cancel, finished.
    state: str
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
        return self.state in ("SUCCESS", "FAILURE", "REVOKED", PURGED, "cancel", "finished")


def status(id: str, *, app: Any = None) -> Status:
    """Of a task by its id, or of a crawl by its job's name."""
    app = app or default_app()
    office = office_of(app)
    try:
        return office.run(_of_job(office, id, id))
    except JobMissing:
        return _of_task(app, id)


def _of_task(app: Any, id: str) -> Status:
    if not has_backend(app):
        return Status(id=id, state="UNKNOWN", error=NO_BACKEND)
    state, info = known_of(app, id)
    if state != QUEUED:
        error = str(info) if isinstance(info, BaseException) else None
        return Status(id=id, state=state, error=error)
    office, url = office_of(app), info.get("url")
    try:
        found = office.run(_of_job(office, id, info["job"], born=info["born"]))
    except JobMissing:
        error = f"its job {info['job']} was purged, and it with that: send it again."
        return Status(id=id, state=PURGED, job=info["job"], url=url, error=error)
    return msgspec.structs.replace(found, state=state, url=url)


async def _of_job(office: Any, id: str, job: str, *, born: str = "") -> Status:
    frontier = await office.frontier(job)
    if born and born != await read_birth(frontier):
        raise JobMissing(job, [])  # another job has its name now
    stats = await frontier.stats()
    charge = await read_charge(frontier.shards[0].server, job)
    over = stats.crawled and charge is None  # loaded and delivered too
    state = "finished" if over and stats.state is not State.CANCEL else stats.state.value
    return Status(
        id=id,
        state=state,
        job=job,
        pending=stats.pending,
        delayed=stats.delayed,
        leased=stats.leased,
        done=stats.done,
        dead=stats.dead,
        pumps=sum(one.kind in FETCHING for one in await crew(frontier)),
    )
