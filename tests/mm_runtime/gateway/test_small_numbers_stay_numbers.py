"""A number that 32 bits do not hold is not 0 to the engine, where 0 means that none is set."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mm_runtime.backends.triton_server.inputs import build_inputs
from mm_runtime.gateway.backends.engine import EngineRequest, Sampling

DRAWN = Sampling(1.0, 1.0, presence_penalty=None, frequency_penalty=None, seed=0, top_k=5)


def _inputs(sampling: Sampling) -> dict[str, NDArray[Any]]:
    request = EngineRequest(
        request_id="one",
        prompt="?",
        max_tokens=4,
        sampling=sampling,
    )
    return {one.name: one.values for one in build_inputs(request, newer_names=True)}


@pytest.mark.parametrize("name", ["temperature", "top_p", "min_p", "repetition_penalty"])
@pytest.mark.parametrize("value", [5e-324, 1e-46, 0.5])
def test_positive_numbers(name: str, value: float) -> None:
    """They stay positive, and those that fit stay what they are."""
    changes: dict[str, Any] = {name: value}
    found = _inputs(replace(DRAWN, **changes))[name]
    assert found.dtype == np.float32
    assert 0 < found.item() == pytest.approx(value, abs=1e-37)


def test_other_numbers() -> None:
    """Negative ones and 0 are passed on: a penalty of 0 is none."""
    inputs = _inputs(replace(DRAWN, presence_penalty=-1.5, frequency_penalty=0.0))
    assert inputs["presence_penalty"].tolist() == [[-1.5]]
    assert inputs["frequency_penalty"].tolist() == [[0]]
