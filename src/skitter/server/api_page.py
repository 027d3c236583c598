"""A readable page about the API, generated from the table of routes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from skitter.server.openapi import openapi
from skitter.server.route import Route

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
