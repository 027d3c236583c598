"""The HTTP API and the dashboard: `skitter serve`. The only package that imports Starlette.

answers      Answers to callers who asked for a page: they come as items of a job
api/         The calls of the HTTP API, by subject, and the table of their routes
application  The ASGI application: the routes, the dashboard, and the checks on every call
call         One call: who makes it, its query, and its line in the action log
channels     Live messages and charts, read once for all who look
endpoint     Turns a row of the table of routes into an ASGI application
keyring      Tokens and browser sessions, failed log-ins, and the operator's own token
openapi      The API, described by the table of routes: OpenAPI 3.1, and a readable page
presence     Whether Redis answers, and pushes that are sent to it in batches
problems     Every error as problem+json (RFC 9457)
protocol     HTTP with timeouts against slow clients: uvicorn would wait forever for headers
route        One row of the table of routes, and the headers of all answers
serving      Runs the application under uvicorn
site         State shared by all calls while the server runs
stored       Where a job's rows are stored, as far as this server reads them; and their changes
webhooks     Webhooks: signed messages when a crawl is over or in trouble, delivered at least once
"""
