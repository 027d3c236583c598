"""The HTTP API and the dashboard: `skitter serve`. The only package that imports Starlette.

routes       the table: what can be asked, by whom, and which function answers
route        one row of it: input, output and summary come from the function's signature
endpoint     a row becomes an ASGI application: who asks, what, and the answer as JSON
problems     every error as problem+json
site         what all calls share: the server, tokens, pushes under way
application  the ASGI application: routes, static files, Host header, security headers
running      uvicorn around it
"""
