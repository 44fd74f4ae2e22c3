"""The rules of a schema are evaluated on what the API server sees when a resource is created."""

from datetime import date
from typing import Any

from mm_api.v1alpha1.schema_rules import broken_rules, with_defaults
from mm_api.v1alpha1.validation import validate
from support.cases import cases
from support.model_documents import at, document, merged

PYTORCH = at("engine.backend", "PyTorch")


def _schema(*rules: str) -> dict[str, Any]:
    part = {
        "default": {},
        "properties": {"size": {"default": 1}, "name": {}},
        "x-kubernetes-validations": [{"rule": rule, "message": rule} for rule in rules],
    }
    return {"properties": {"part": part, "parts": {"items": part}, "named": {}}}


@cases(
    "given seen",
    {
        "absent": ({}, {"part": {"size": 1}}),
        "given": ({"part": {"size": 2}}, {"part": {"size": 2}}),
        "in-a-list": (
            {"parts": [{"name": "a"}]},
            {"part": {"size": 1}, "parts": [{"size": 1, "name": "a"}]},
        ),
    },
)
def test_defaults_come_before_rules(given: dict[str, Any], seen: dict[str, Any]) -> None:
    assert with_defaults(_schema(), given) == seen


@cases(
    "rule broken",
    {
        "kept": ("self.size == 1", []),
        "broken": ("self.size > 1", ["part"]),
        "cannot-be-evaluated": ("self.name == 'a'", ["part"]),
        "compares-with-a-former-state": ("self.size < oldSelf.size", []),
        "quantities": ("quantity('9Ei').isGreaterThan(quantity('9000Pi'))", []),
        "equal": ("quantity('1500m').compareTo(quantity('1.5')) == 0", []),
        "durations": ("duration('1m') > duration('59s500ms')", []),
    },
)
def test_rule_is_evaluated_with_kubernetes_functions(rule: str, broken: list[str]) -> None:
    assert [path for path, _ in broken_rules(_schema(rule), {})] == broken


def test_item_of_a_list_is_named_by_its_index() -> None:
    given = {"parts": [{"size": 1}, {"size": 2}, {"size": 3}]}

    found = [path for path, _ in broken_rules(_schema("self.size == 1"), given)]

    assert found == ["parts[1]", "parts[2]"]


def test_rules_see_the_name_alone_of_metadata() -> None:
    """Dates and other values that YAML reads in metadata are no matter of a rule."""
    metadata = {"name": "llava", "creationTimestamp": date(2026, 1, 1)}

    assert validate({**document(), "metadata": metadata}) == []


@cases(
    "spec paths",
    {
        "backend-with-options": (PYTORCH, []),
        "backend-without": ({}, ["spec.engine.extraLlmApiOptions"]),
    },
)
def test_rules_see_the_names_alone_of_what_has_no_schema(
    spec: dict[str, Any], paths: list[str]
) -> None:
    """Options of trtllm-serve may hold whatever YAML reads, dates too."""
    options = at("engine.extraLlmApiOptions", {"stream_interval": date(2026, 1, 1)})

    assert [one.path for one in validate(document(merged(spec, options)))] == paths
