"""PURE: the page `/docs`, written from the OpenAPI document.

No scripts and nothing from elsewhere: it is read in closed networks, and the policy that goes with
it lets a browser load nothing at all.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined

_STYLE = """\
:root { color-scheme: light dark; }
body { font: 16px/1.5 sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  overflow-wrap: anywhere; }
table { width: 100%; margin-bottom: 2rem; }
tr:nth-child(even) { background: #8882; }
th, td { padding: .3rem .6rem; text-align: left; vertical-align: top; }
th { white-space: nowrap; }
th:first-child { width: 19rem; }
code { font-family: monospace; }
@media (max-width: 40rem) {
  th { display: none; }
  tr, td { display: block; }
  tr { padding: .3rem 0; }
  td { padding: 0 .3rem; }
  .default:not(:empty)::before { content: "default "; }
}
"""
"""Colours are the browser's own, light or dark; every second row is half transparent grey on both.
On narrow screens a row is a paragraph."""

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<style>{{ style | safe }}</style>
</head>
<body>
<h1>{{ title }}</h1>
<p>The same for programs: <a href="openapi.json">openapi.json</a></p>
<h2>Requests</h2>
<table>
<tr><th>request</th><th>what it does</th><th>body</th></tr>
{% for one in requests -%}
<tr><td><code>{{ one.method }} {{ one.path }}</code></td><td>{{ one.summary }}</td>
<td>{% for media, kind in one.bodies %}{{ media }}: {{ kind | type }} {% endfor %}</td></tr>
{% endfor -%}
</table>
<h2>Bodies</h2>
{% for schema in schemas -%}
<h3 id="{{ schema.name }}">{{ schema.name }}</h3>
{% if schema.description %}<p>{{ schema.description | code }}</p>{% endif %}
{% if schema.fields -%}
<table>
{% set described = schema.fields | selectattr("description") | list -%}
<tr><th>field</th><th>value</th><th>default</th>{% if described %}<th>meaning</th>{% endif %}</tr>
{% for field in schema.fields -%}
<tr><td><code>{{ field.name }}</code>{% if field.required %} (required){% endif %}</td>
<td>{{ field.kind | type }}</td>
<td class="default">{% if field.default %}<code>{{ field.default }}</code>{% endif %}</td>
{% if described %}<td>{{ field.description | code }}</td>{% endif %}</tr>
{% endfor -%}
</table>
{% else %}<p>{{ schema.kind | type }}</p>
{% endif -%}
{% endfor -%}
</body>
</html>
"""

_CODE = re.compile("`([^`]+)`")
_BOUNDS = ("format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_LENGTHS = ("minLength", "maxLength", "minItems", "maxItems", "pattern")

_DIGEST = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
HEADERS = {
    "content-security-policy": f"default-src 'none'; style-src 'sha256-{_DIGEST}'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}
"""Headers of the answer: the page's own style is all that a browser applies."""

Schema = Mapping[str, Any]


@dataclass(frozen=True)
class _Request:
    method: str
    path: str
    summary: str
    bodies: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class _Field:
    name: str
    required: bool
    kind: tuple[str, ...]
    default: str
    description: str


@dataclass(frozen=True)
class _Body:
    name: str
    description: str
    kind: tuple[str, ...]
    fields: tuple[_Field, ...]


def docs_page(document: Mapping[str, Any]) -> str:
    """Return the page of an OpenAPI document."""
    environment = Environment(
        loader=DictLoader({"page": _PAGE, "type": _TYPE}),
        autoescape=True,
        undefined=StrictUndefined,
    )
    macros: Any = environment.get_template("type").module  # its attributes are the template's
    environment.filters["type"] = macros.write
    environment.filters["code"] = lambda text: macros.code(_CODE.split(text))
    schemas: Mapping[str, Schema] = document["components"]["schemas"]
    return environment.get_template("page").render(
        title=document["info"]["title"],
        style=_STYLE,
        requests=list(_requests(document["paths"])),
        schemas=[_body(name, schema) for name, schema in sorted(schemas.items())],
    )


_TYPE = """\
{% macro write(parts) -%}
{% for part in parts %}{% if not loop.first %} {% endif -%}
{% if part.startswith('#') %}<a href="{{ part }}">{{ part[1:] }}</a>{% else %}{{ part }}{% endif -%}
{% endfor %}{% endmacro %}
{% macro code(parts) -%}
{% for part in parts -%}
{% if loop.index is even %}<code>{{ part }}</code>{% else %}{{ part }}{% endif -%}
{% endfor %}{% endmacro %}"""


def _requests(paths: Mapping[str, Any]) -> Iterator[_Request]:
    for path, methods in paths.items():
        for method, one in methods.items():
            content = one.get("requestBody", {}).get("content", {})
            bodies = tuple((media, tuple(_kind(of["schema"]))) for media, of in content.items())
            yield _Request(method.upper(), path, one.get("summary", ""), bodies)


def _body(name: str, schema: Schema) -> _Body:
    required = schema.get("required", ())
    fields = tuple(
        _Field(
            name=field,
            required=field in required,
            kind=tuple(_kind(one)),
            default=json.dumps(one["default"], ensure_ascii=False) if "default" in one else "",
            description=one.get("description", ""),
        )
        for field, one in schema.get("properties", {}).items()
        # What may only be null is read, and there is nothing to write into it.
        if one.get("type") != "null"
    )
    return _Body(name, schema.get("description", ""), tuple(_kind(schema)), fields)


def _kind(schema: Schema) -> Iterator[str]:
    """Yield what values there may be, in parts; one that begins with `#` is another schema."""
    branches = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
    if "$ref" in schema:
        yield "#" + str(schema["$ref"]).rpartition("/")[2]
    elif branches:
        for number, branch in enumerate(branches):
            yield from ("or",) if number else ()
            yield from _kind(branch)
    elif "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        yield " | ".join(json.dumps(one, ensure_ascii=False) for one in values)
    else:
        types = schema.get("type", "any")
        yield types if isinstance(types, str) else " | ".join(types)
        if "items" in schema:
            yield "of"
            yield from _kind(schema["items"])
        elif isinstance(schema.get("additionalProperties"), Mapping):
            yield "of"
            yield from _kind(schema["additionalProperties"])
    bounds = [f"{one} {schema[one]}" for one in (*_BOUNDS, *_LENGTHS) if one in schema]
    if bounds:
        yield f"({', '.join(bounds)})"
