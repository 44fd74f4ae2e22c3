"""`validate` and a real API server evaluate the same rules, and say the same about a document."""

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import yaml

from mm_api.v1alpha1.definition import UNSUPPORTED
from mm_api.v1alpha1.validation import Problem, validate
from support.field_samples import leaves, sample_of
from support.model_documents import RULE_EXAMPLES, at, document, merged, refused_by
from support.model_namespace import Api

pytestmark = pytest.mark.cluster

BACKENDS = ("Reference", "TensorRT", "PyTorch", "VLLM")


def _specs() -> Iterator[dict[str, Any]]:
    """Yield a spec for either side of each rule, each unsupported value and each field's sample."""
    for example in RULE_EXAMPLES:
        yield merged(example.good, {})
        yield merged(example.bad, {})
    yield from map(refused_by, UNSUPPORTED)
    for backend in BACKENDS:
        for path, info in leaves():
            if not path.startswith("autoscaling."):  # their parts need each other
                with suppress(LookupError):
                    sample = sample_of(path, info, backend)
                    spec = merged(at("engine.backend", backend), sample.beside)
                    yield merged(spec, at(path, sample.value))


def _documents() -> dict[str, dict[str, Any]]:
    named = [(one.bad, one.model_name) for one in RULE_EXAMPLES if one.model_name != "llava"]
    named += [(spec, f"llava-{number}") for number, spec in enumerate(_specs())]
    return {name: document(spec, name) for spec, name in named}


def _refusals(answer: str) -> dict[str, str]:
    return dict(re.findall(r'"([^"]+)" is invalid: \[?(.+?)\]?$', answer, re.MULTILINE))


def _unsaid(refusal: str, problems: list[Problem]) -> list[str]:
    alone = []
    for one in problems:
        place = re.escape(one.path or "<nil>")
        said = rf"{place}: (Invalid value|Forbidden): {re.escape(one.message)}"
        refusal, found = re.subn(said, "", refusal, count=1)
        if not found:
            alone.append(f"validate: {one}")
    rest = refusal.strip(", ")
    return [*alone, f"API server: {rest}"] if rest else alone


def test_verdicts_and_messages_are_the_same(api: Api) -> None:
    documents = _documents()
    text = yaml.safe_dump_all(documents.values())

    refused = _refusals(
        api.kubectl("apply", "-f", "-", "--dry-run=server", stdin=text, check=False)
    )
    unsaid = {
        name: _unsaid(refused.get(name, ""), validate(one)) for name, one in documents.items()
    }

    assert {name: lines for name, lines in unsaid.items() if lines} == {}
    assert {one.model_name for one in RULE_EXAMPLES} - {"llava"} <= set(refused)
