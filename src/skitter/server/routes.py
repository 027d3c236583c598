"""The table of routes: handlers, OpenAPI, the reference and the tests come from it.

A module of endpoints is a file of this package; its rows stand here.
"""

from __future__ import annotations

from skitter.server import actions, events, jobs, login, meta, urls
from skitter.server.route import JSON, Route

JOB = "/api/jobs/{job}"

ROUTES: tuple[Route, ...] = (
    # --- URLs; the first row is found first
    Route(
        "POST",
        f"{JOB}/urls",
        urls.push,
        "push",
        status=202,
        reads=urls.Urls,
        takes=(JSON, urls.NDJSON),
    ),
    # --- jobs
    Route("GET", "/api/jobs", jobs.all_jobs),
    Route("GET", JOB, jobs.job),
    Route("POST", f"{JOB}/pause", jobs.pause, "operate"),
    Route("POST", f"{JOB}/resume", jobs.resume, "operate"),
    Route("POST", f"{JOB}/drain", jobs.drain, "operate"),
    Route("POST", f"{JOB}/cancel", jobs.cancel, "operate"),
    Route("PUT", f"{JOB}/workers", jobs.scale, "operate"),
    Route("GET", f"{JOB}/actions", actions.actions),
    # --- browsers
    Route("POST", "/api/login", login.log_in, scope=None),
    Route("POST", "/api/logout", login.log_out, scope=None),
    Route("GET", "/api/me", login.me, scope=None),
    # --- live
    Route("GET", "/api/events", events.events, media=events.MEDIA),
    # --- the server itself
    Route("GET", "/healthz", meta.healthz, scope=None, errors=(503,)),
)
