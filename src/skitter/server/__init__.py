"""The HTTP API and the dashboard: `skitter serve`. The only package that imports Starlette.

routes       the table: each call, the scope it needs, and the function that answers
route        one row of it: input, output and summary come from the function's signature
endpoint     turns a row into an ASGI application: authenticate, parse, answer in JSON
problems     every error as problem+json
site         shared by all calls: the server, tokens, pushes in flight
application  the ASGI application: routes, static files, Host header, security headers
running      runs it under uvicorn
"""
