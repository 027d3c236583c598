"""The table of routes: the source of handlers, OpenAPI, the reference page and tests.

Other files of this package define the handlers; every row is here.
"""

from __future__ import annotations

from skitter.server import call
from skitter.server.api import dead, events, hosts, items, jobs, login, push, runs, scrape, scrapyd
from skitter.server.api import events as hooks
from skitter.server.api import hosts as fleet
from skitter.server.api import items as meta
from skitter.server.api import items as records
from skitter.server.api import jobs as schedule
from skitter.server.api import jobs as settings
from skitter.server.route import JSON, Route

JOB = "/api/jobs/{job}"
FORM = ("application/x-www-form-urlencoded",)

ROUTES: tuple[Route, ...] = (
    # --- URLs; the first row is called most often: routes are tried in this order
    Route(
        "POST",
        f"{JOB}/urls",
        push.push,
        "push",
        status=202,
        reads=push.Urls,
        takes=(JSON, push.NDJSON),
        knows_away=True,
    ),
    # --- jobs
    Route("GET", "/api/jobs", jobs.all_jobs),
    Route("POST", "/api/jobs", jobs.create, "operate", status=201),
    Route("GET", JOB, jobs.job),
    Route("DELETE", JOB, jobs.purge, "operate"),
    Route("POST", f"{JOB}/pause", jobs.pause, "operate"),
    Route("POST", f"{JOB}/resume", jobs.resume, "operate"),
    Route("POST", f"{JOB}/drain", jobs.drain, "operate"),
    Route("POST", f"{JOB}/cancel", jobs.cancel, "operate"),
    Route("GET", f"{JOB}/workers", jobs.workers),
    Route("PUT", f"{JOB}/workers", jobs.scale, "operate"),
    Route("GET", f"{JOB}/actions", call.actions),
    Route("GET", f"{JOB}/settings", settings.settings),
    Route("PATCH", f"{JOB}/settings", settings.change_settings, "operate"),
    Route("POST", f"{JOB}/settings/preview", settings.preview_settings, "operate"),
    Route("GET", f"{JOB}/hosts", hosts.hosts),
    Route("PATCH", f"{JOB}/hosts/{{host}}", hosts.change_host, "operate"),
    Route("GET", f"{JOB}/sessions", fleet.sessions),
    Route("GET", f"{JOB}/routes", fleet.routes),
    Route("GET", "/api/tenants", jobs.tenants),
    Route("GET", f"{JOB}/schedule", schedule.schedule),
    Route("PUT", f"{JOB}/schedule", schedule.change_schedule, "operate"),
    Route("DELETE", f"{JOB}/schedule", schedule.drop_schedule, "operate"),
    Route("GET", f"{JOB}/webhooks", hooks.webhooks, "operate"),
    Route("POST", f"{JOB}/webhooks", hooks.webhook_add, "operate", status=201),
    Route("DELETE", f"{JOB}/webhooks", hooks.webhook_remove, "operate"),
    # --- pages on request
    Route("POST", "/api/scrape", scrape.scrape, "operate", may_be_later=True, notes_itself=True),
    Route("GET", "/api/scrape/{id}", scrape.scraped, may_be_later=True),
    # --- runs
    Route("GET", "/api/spiders", runs.offers),
    Route("GET", "/api/runs", runs.runs),
    Route("POST", "/api/runs", runs.run_start, "operate", status=201),
    Route("GET", "/api/runs/{id}", runs.run, errors=(404,)),
    Route("POST", "/api/runs/{id}/stop", runs.run_stop, "operate", errors=(404,)),
    Route("POST", "/api/runs/{id}/again", runs.run_again, "operate", status=201, errors=(404,)),
    Route("GET", "/api/runs/{id}/logs", runs.run_logs, errors=(404,)),
    # --- Scrapyd's names
    Route("GET", "/daemonstatus.json", scrapyd.daemonstatus),
    Route("GET", "/listprojects.json", scrapyd.listprojects),
    Route("GET", "/listversions.json", scrapyd.listversions),
    Route("GET", "/listspiders.json", scrapyd.listspiders),
    Route("GET", "/listjobs.json", scrapyd.listjobs),
    Route("GET", "/jobs", scrapyd.jobs_page, media="text/html"),
    Route("GET", "/status.json", scrapyd.jobstatus),
    Route("POST", "/schedule.json", scrapyd.schedule, "operate", takes=FORM, notes_itself=True),
    Route("POST", "/cancel.json", scrapyd.cancel, "operate", takes=FORM, notes_itself=True),
    Route(
        "POST", "/addversion.json", scrapyd.unsupported, "operate", takes=FORM, notes_itself=True
    ),
    # --- outcomes of URLs
    Route("GET", f"{JOB}/url", push.story),
    Route("GET", f"{JOB}/audit", push.audit_job),
    Route("GET", f"{JOB}/dead", dead.dead_list),
    Route("GET", f"{JOB}/dead/groups", dead.dead_groups),
    Route("POST", f"{JOB}/dead/retry", dead.dead_retry, "operate"),
    Route("POST", f"{JOB}/dead/drop", dead.dead_drop, "operate"),
    Route("GET", f"{JOB}/dead/{{fingerprint}}", dead.dead_letter),
    Route("GET", f"{JOB}/failed", dead.failed),
    Route("GET", f"{JOB}/failed/{{fingerprint}}", dead.failed_page),
    Route("GET", "/api/tasks/{id}", fleet.task, errors=(501,), all_jobs=True),
    # --- items
    Route("GET", f"{JOB}/items", items.items),
    Route("GET", f"{JOB}/items/export", items.export_items, media="application/x-ndjson"),
    Route("GET", f"{JOB}/changes", items.changes),
    Route("GET", f"{JOB}/items/live", events.live_items, media=events.MEDIA),
    # --- records
    Route("GET", f"{JOB}/history", records.history),
    Route("GET", f"{JOB}/figures", records.figures),
    Route("GET", f"{JOB}/logs", records.logs),
    Route("GET", f"{JOB}/quality", records.quality),
    Route("GET", f"{JOB}/rejected", records.rejected),
    # --- browsers
    Route("POST", "/api/login", login.log_in, scope=None, knows_away=True),
    Route("POST", "/api/logout", login.log_out, scope=None),
    Route("GET", "/api/me", login.me, scope=None, knows_away=True),
    # --- live
    Route("GET", "/api/events", events.events, media=events.MEDIA, knows_away=True),
    # --- the server itself
    Route("GET", "/metrics", meta.metrics, media="text/plain", knows_away=True, all_jobs=True),
    Route("GET", "/healthz", meta.healthz, scope=None, errors=(503,)),
)
