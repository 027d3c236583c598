"""The API, described by the table of routes: OpenAPI 3.1, and a readable page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

import msgspec
from starlette.responses import Response

from skitter.extras import RELEASE
from skitter.server.problems import MEDIA, Problem
from skitter.server.route import JSON, Route

REFERENCE = "#/components/schemas/{name}"
#: Errors that any call may return.
ALWAYS = (400, 401, 403, 404, 408, 409, 413, 415, 421, 422, 429, 503)


def openapi(routes: Sequence[Route]) -> dict[str, Any]:
    """Build the document."""
    schemas, components = _schemas(routes)
    paths: dict[str, Any] = {}
    for route in routes:
        path = re.sub(r":\w+}", "}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, schemas, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Skitter", "version": RELEASE},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _schemas(routes: Sequence[Route]) -> tuple[dict[Any, Any], dict[str, Any]]:
    kinds: list[Any] = [Problem]
    for route in routes:
        kinds += [kind for kind in (route.body or route.reads, route.query) if kind]
        kinds += [] if _is_raw(route) else [route.output]
    found, components = msgspec.json.schema_components(kinds, ref_template=REFERENCE)
    by_kind = {repr(kind): schema for kind, schema in zip(kinds, found, strict=True)}
    return by_kind, components


def _is_raw(route: Route) -> bool:
    return isinstance(route.output, type) and issubclass(route.output, Response)


def _operation(route: Route, schemas: dict[Any, Any], components: dict[str, Any]) -> dict[str, Any]:
    problem = {"content": {MEDIA: {"schema": schemas[repr(Problem)]}}}
    content = {"schema": {"type": "string"} if _is_raw(route) else schemas[repr(route.output)]}
    summary, _, more = route.summary.partition("\n")
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": summary,
        **({"description": more.strip()} if more.strip() else {}),
        "parameters": [*_path(route), *_query(route, schemas, components)],
        "responses": {
            **{
                str(status): {"description": summary, "content": {route.media: content}}
                for status in (route.status, *[202] * route.may_be_later)
            },
            **{
                str(status): {"description": "A problem.", **problem}
                for status in sorted({*ALWAYS, *route.errors} - {route.status})
            },
        },
    }
    if body := route.body or route.reads:
        accepted = {media: _accepted(media, schemas[repr(body)]) for media in route.takes}
        operation["requestBody"] = {"required": True, "content": accepted}
    if route.scope:
        operation |= {"security": [{"token": [route.scope]}], "x-scope": route.scope}
    return operation


def _accepted(media: str, schema: Any) -> dict[str, Any]:
    return {"schema": schema if media == JSON else {"type": "string"}}


def _path(route: Route) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in route.parameters
    ]


def _query(
    route: Route, schemas: dict[Any, Any], components: dict[str, Any]
) -> list[dict[str, Any]]:
    if not route.query:
        return []
    schema = components[schemas[repr(route.query)]["$ref"].rpartition("/")[2]]
    needed = schema.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in needed, "schema": one}
        for name, one in schema["properties"].items()
    ]


HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Skitter: HTTP API</title>
<link rel="stylesheet" href="static/api.css">
</head>
<body>
<main>
<h1>Skitter: HTTP API</h1>
<p>Send <code>authorization: Bearer TOKEN</code>; <code>skitter token new</code> creates one.
Errors are <code>application/problem+json</code>.
The same for programs: <a href="api/openapi.json">OpenAPI 3.1</a>.</p>
"""
TAIL = "</main>\n</body>\n</html>\n"


def api_page(routes: Sequence[Route]) -> str:
    """HTML without scripts."""
    document = openapi(routes)
    parts = [_part(route, document) for route in routes]
    return HEAD + "".join(parts) + TAIL


def _part(route: Route, document: dict[str, Any]) -> str:
    operation = document["paths"][route.path][route.method.lower()]
    summary, _, more = route.summary.partition("\n")
    rows = "".join(
        f"<tr><th scope=row><code>{escape(name)}</code></th><td>{escape(kind)}</td>"
        f"<td>{escape(says)}</td></tr>\n"
        for name, kind, says in _fields(operation, document)
    )
    scope = f"<p>Scope: {route.scope}</p>" if route.scope else "<p>Scope: none</p>"
    return (
        f'<section id="{route.name}">\n<h2><b>{route.method}</b> <code>{escape(route.path)}</code>'
        f"</h2>\n<p>{escape(summary)}</p>\n"
        + (f"<p>{escape(' '.join(more.split()))}</p>\n" if more.strip() else "")
        + scope
        + (f"<table>\n{rows}</table>\n" if rows else "")
        + "</section>\n"
    )


def _fields(operation: dict[str, Any], document: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield (name, type, location) for the path, the query, the body and the answer."""
    for one in operation["parameters"]:
        must = " (required)" if one["required"] and one["in"] == "query" else ""
        yield one["name"], kind_of(one["schema"]), f"{one['in']}{must}"
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    yield from _properties(body, "body", document)
    answer = next(one for code, one in operation["responses"].items() if code < "4")
    yield from _properties(answer["content"].get("application/json"), "answer", document)


def _properties(
    content: dict[str, Any] | None, where: str, document: dict[str, Any]
) -> Iterator[tuple[str, str, str]]:
    schema = (content or {}).get("schema", {})
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    for name, one in schema.get("properties", {}).items():
        yield name, kind_of(one), where


def kind_of(schema: dict[str, Any]) -> str:
    """A short name for the type."""
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(kind_of, schema["anyOf"])))
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"list of {kind_of(schema.get('items', {}))}"
    return str(schema.get("type", "any"))
