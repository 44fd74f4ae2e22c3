"""Weights of models with experts: as many as transformers' classes have."""

from typing import Any

import pytest
import torch
import transformers

from mm_operator.plan.engine.weights import text_parameters
from support.moe_models import CASES, GENERIC, facts_of_experts


@pytest.mark.parametrize("name", CASES)
def test_weights_are_those_of_the_class(name: str) -> None:
    """All of them but the norms of heads, which `generic` does not know: two vectors a layer."""
    (kind, architecture), config, parameters = CASES[name]
    settings: Any = transformers.AutoConfig.for_model(kind, **config)
    with torch.device("meta"):
        model: Any = getattr(transformers, architecture)(settings)
    named = {name: one.numel() for name, one in model.named_parameters()}
    counted = sum(
        count
        for name, count in named.items()
        if "language_model" in name or name.startswith("lm_head")
    )
    facts = facts_of_experts(name)
    norms = 2 * facts.text.head_size * facts.text.layers

    assert sum(named.values()) == parameters
    assert 0 <= counted - text_parameters(facts, GENERIC) <= norms
    saved = GENERIC.read(settings.to_dict() | {"tie_word_embeddings": False}, {}).text
    assert saved.experts == facts.text.experts
