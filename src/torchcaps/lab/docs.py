"""The API documentation as a plain HTML page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any


def docs_page(document: Mapping[str, Any]) -> str:
    """Render an OpenAPI document; FastAPI's own page would load scripts from another host.

    >>> page = docs_page({"info": {"title": "The lab", "version": "1"}, "paths": {}})
    >>> "<h1>The lab 1</h1>" in page
    True
    """
    info = document["info"]
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(info['title'])}: API</title>",
        '<link rel="stylesheet" href="/docs.css"></head><body><main>',
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1>",
        f"<p>{escape(info.get('description', ''))}</p>",
        '<p><a href="/">The lab</a> · <a href="/openapi.json">OpenAPI document</a></p>',
    ]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            parts += _operation(document, path, method, operation)
    parts.append("<section><h2>Types</h2>")
    for name, schema in document.get("components", {}).get("schemas", {}).items():
        parts.append(
            f'<details id="{escape(name)}"><summary>{escape(name)}</summary>'
            f"<pre>{escape(json.dumps(schema, indent=1))}</pre></details>"
        )
    return "\n".join([*parts, "</section></main></body></html>"])


def _operation(
    document: Mapping[str, Any], path: str, method: str, operation: Mapping[str, Any]
) -> list[str]:
    request = operation.get("requestBody", {}).get("content", {})
    response = operation.get("responses", {}).get("200", {}).get("content", {})
    errors = [
        f"<li>{status}: {escape(error['description'])}</li>"
        for status, error in operation.get("responses", {}).items()
        if status != "200"
    ]
    return [
        f"<section><h2><code>{escape(method.upper())} {escape(path)}</code></h2>",
        f"<p>{escape(operation.get('description', ''))}</p>",
        *(
            f"<p><code>{escape(parameter['name'])}</code> ({escape(parameter['in'])}): "
            f"{escape(parameter.get('description', ''))}</p>"
            for parameter in operation.get("parameters", ())
        ),
        *_schema(document, "request:", request),
        *_schema(document, "response:", response),
        f"<details><summary>errors</summary><ul>{''.join(errors)}</ul></details></section>",
    ]


def _schema(document: Mapping[str, Any], title: str, content: Mapping[str, Any]) -> list[str]:
    schema = content.get("application/json", {}).get("schema")
    if not schema:
        return []
    name = schema.get("$ref", "").rpartition("/")[2]
    text = json.dumps(document.get("components", {}).get("schemas", {}).get(name, schema), indent=1)
    return [f"<details><summary>{title} {escape(name)}</summary><pre>{escape(text)}</pre></details>"]
