"""OpenAPI 3.1 from the table of routes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import msgspec
from starlette.responses import Response

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
        "info": {"title": "Skitter", "version": version("skitter")},
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
            str(route.status): {"description": summary, "content": {route.media: content}},
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
