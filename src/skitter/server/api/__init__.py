"""The calls of the HTTP API, by subject, and the table of their routes.

dead     Dead letters: list, group, retry, drop
events   Live events, and webhooks
hosts    Hosts, and what the fleet has: sessions, routes, Celery tasks
items    What a job has: items, metrics, log, quality; and the health of the server
jobs     Jobs: list, inspect, control; their options and schedules
login    Log browsers in and out
push     URLs: push them, check them, explain one
routes   The table of routes: the source of handlers, OpenAPI, the reference page and tests
runs     Runs over HTTP: what agents offer; start, list, stop, repeat; the log of one
scrape   A page on request: it goes through the frontier, as all pages do
scrapyd  Scrapyd's endpoints, for cron lines, operators and dashboards that know those
"""
