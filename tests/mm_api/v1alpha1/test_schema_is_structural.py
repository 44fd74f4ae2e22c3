"""The generated schema is structural, documented and bounded, and the committed files are fresh."""

from collections.abc import Iterator
from typing import Any

import pytest

from mm_api.base import ApiModel
from mm_api.structural import UnknownSchemaError, structural
from mm_api.v1alpha1.definition import COLUMNS, definition

VERSION: dict[str, Any] = definition()["spec"]["versions"][0]
SCHEMA: dict[str, Any] = VERSION["schema"]["openAPIV3Schema"]


def _values(path: str, schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, value in schema.get("properties", {}).items():
        yield from _values(f"{path}.{name}", value)
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from _values(f"{path}.{key}", schema[key])


SPEC = dict(_values("spec", SCHEMA["properties"]["spec"]))
STATUS = dict(_values("status", SCHEMA["properties"]["status"]))


def test_every_field_is_described() -> None:
    fields = {
        f"{path}.{name}": field
        for path, schema in (SPEC | STATUS).items()
        for name, field in schema.get("properties", {}).items()
    }

    assert [p for p, f in fields.items() if not f.get("description", "").endswith(".")] == []


def test_every_value_of_the_spec_is_bounded() -> None:
    """Texts, lists, maps and numbers have an upper bound: CEL's cost is estimated from it."""
    bounds = {"string": "maxLength", "array": "maxItems", "integer": "maximum"}
    unbounded = [
        path
        for path, value in SPEC.items()
        if value.get("type") in bounds
        and bounds[value["type"]] not in value
        and "enum" not in value
    ]
    maps = [
        path
        for path, value in SPEC.items()
        if "additionalProperties" in value and "maxProperties" not in value
    ]

    assert unbounded + maps == []


def test_what_others_define_keeps_unknown_fields() -> None:
    """Affinity, which the API server checks in the pod, and options, which the plan checks."""
    loose = [p for p, v in SPEC.items() if v.get("x-kubernetes-preserve-unknown-fields")]

    assert sorted(loose) == [
        "spec.build.affinity",
        "spec.engine.extraLlmApiOptions",
        "spec.runtime.affinity",
    ]


def test_nothing_that_the_api_server_refuses_is_left() -> None:
    keys = {key for schema in (SPEC | STATUS).values() for key in schema}

    assert keys & {"$ref", "title", "anyOf", "allOf", "oneOf", "const", "propertyNames"} == set()


def test_columns_are_the_promised_ones() -> None:
    assert [(column["name"], column.get("priority", 0)) for column in COLUMNS] == [
        ("Ready", 0),
        ("Reason", 0),
        ("Backend", 0),
        ("Replicas", 0),
        ("Url", 0),
        ("Age", 0),
        ("Family", 1),
        ("Engine", 1),
        ("Plan", 1),
    ]


def test_scale_reads_and_writes_replicas() -> None:
    found = []
    for path in VERSION["subresources"]["scale"].values():
        node = SCHEMA
        for name in path.lstrip(".").split("."):
            node = node["properties"][name]
        found.append(node["type"])

    assert found == ["integer", "integer", "string"]


def test_type_without_structural_form_is_an_error() -> None:
    class Loose(ApiModel):
        """A type with a field of two kinds."""

        value: bool | list[str]

    with pytest.raises(UnknownSchemaError, match=r"^value: .* has no structural form"):
        structural(Loose, lambda _kind, _path: [])
