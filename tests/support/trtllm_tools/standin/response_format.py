"""`response_format` of trtllm-serve, by version: what it refuses, what it drops, what it keeps.

Source: tensorrt_llm/serve/openai_protocol.py of 1.0 to 1.2. Answers are the shortest of their form.
"""

from typing import Any

from arguments import VERSION

PATTERNS = not VERSION.startswith(("0.", "1.0.", "1.1."))
"""Pull request 7925."""

TYPES = (
    *("text", "json", "json_object", "structural_tag"),
    *(("json_schema", "regex", "ebnf") if PATTERNS else ()),
)
FIELDS = {"type", "schema", *(("json_schema", "regex", "ebnf", "format") if PATTERNS else ())}
"""Of ResponseFormat, which forbids others; before 1.2 a structural tag has fields of its own."""

HELD = {
    "$ref",
    "$defs",
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "const",
    "anyOf",
}
SHORTEST = {"string": "", "integer": 0, "number": 0, "boolean": False, "null": None, "array": []}


class RefusedFormError(Exception):
    """A form that upstream answers with 400."""


def answer_of(form: dict[str, Any] | None, backend: str | None) -> Any:
    """Return an answer of a form: a JSON value, or a text; None: any answer will do."""
    if form is None:
        return None
    if foreign := set(form) - FIELDS:
        raise RefusedFormError(f"response_format.{min(foreign)}: Extra inputs are not permitted")
    kind = form.get("type")
    if kind not in TYPES:
        raise RefusedFormError(f"response_format.type: Input should be one of {', '.join(TYPES)}")
    if kind == "text":
        return None
    if kind == "json" and form.get("schema") is None:
        raise RefusedFormError("The 'schema' field is required when response_format.type is 'json'")
    if backend is None:
        return None  # silently: the request is answered as if it had no form
    # The wrapper of OpenAI's json_schema is taken for a schema, which then has no known keyword.
    schemas = {"json": form.get("schema"), "json_schema": {}, "json_object": {"type": "array"}}
    if kind in schemas:
        return {"json": _shortest(schemas[kind], schemas[kind].get("$defs", {}))}
    if kind == "regex":
        return form["regex"]  # of the patterns that match themselves, which is what is recorded
    if kind == "ebnf":
        return _first(form["ebnf"])
    raise RefusedFormError(f"{kind} is not recorded")


def _shortest(schema: Any, definitions: dict[str, Any]) -> Any:
    if foreign := set(schema) - HELD:
        raise RefusedFormError(f"Guided decoding error: {min(foreign)} is not supported")
    for keyword, choose in (("const", lambda one: one), ("enum", lambda several: several[0])):
        if keyword in schema:
            return choose(schema[keyword])
    if "$ref" in schema:
        return _shortest(definitions[schema["$ref"].removeprefix("#/$defs/")], definitions)
    if "anyOf" in schema:
        return _shortest(schema["anyOf"][0], definitions)
    if schema.get("type") == "object":
        named = schema.get("properties", {})
        return {name: _shortest(named[name], definitions) for name in schema.get("required", ())}
    return SHORTEST.get(schema.get("type", "null"))


def _first(grammar: str) -> str:
    head, _, rest = grammar.partition('root ::= "')
    if head or not rest:
        raise RefusedFormError("Guided decoding error: EBNF parse error: there is no rule root")
    return rest.partition('"')[0]
