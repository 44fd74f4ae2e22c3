"""`validate` refuses what breaks a rule between fields or requests behaviour that is missing."""

import pytest

from mm_api.v1alpha1 import MultimodalModelSpec
from mm_api.v1alpha1.definition import UNSUPPORTED, Unsupported
from mm_api.v1alpha1.rules import RULES
from mm_api.v1alpha1.validation import validate
from support.model_documents import (
    RULE_EXAMPLES,
    UNSUPPORTED_VALUES,
    RuleExample,
    at,
    document,
    refused_by,
)

EXAMPLES = pytest.mark.parametrize("example", RULE_EXAMPLES, ids=lambda example: example.name)


@EXAMPLES
def test_spec_that_keeps_a_rule_has_no_problem(example: RuleExample) -> None:
    assert validate(document(example.good)) == []


@EXAMPLES
def test_broken_rule_is_a_problem_at_its_field(example: RuleExample) -> None:
    problems = validate(document(example.bad, example.model_name))

    assert [example.path] == [
        problem.path for problem in problems if problem.message.startswith(example.message)
    ]


def test_every_rule_has_an_example() -> None:
    """No rule that a new document can break goes without a pair of examples.

    The form of an objective's target is the type's: `validate` says it in the type's words.
    """
    messages = {
        rule.message
        for rules in RULES.values()
        for rule in rules
        if "oldSelf" not in rule.cel and not rule.message.startswith("target is not a duration")
    }

    assert messages == {
        message
        for message in messages
        if any(message.startswith(example.message) for example in RULE_EXAMPLES)
    }


@pytest.mark.parametrize("row", UNSUPPORTED, ids=lambda row: row.path)
def test_value_without_behaviour_is_refused(row: Unsupported) -> None:
    path = row.path
    problems = validate(document(refused_by(row)))

    assert [f"spec.{path}"] == [one.path for one in problems if one.message == row.message]


def test_unsupported_values_are_values_of_the_api() -> None:
    """The refused values pass the structure, so that only the table can be what refuses them."""
    for path, value in UNSUPPORTED_VALUES.items():
        MultimodalModelSpec.model_validate(document(at(path, value))["spec"])


def test_smallest_document_is_valid() -> None:
    assert validate(document()) == []
