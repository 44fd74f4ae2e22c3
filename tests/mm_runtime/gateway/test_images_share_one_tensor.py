"""Images of one request travel to Triton in one tensor, whose size has a bound."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mm_edge.errors import InvalidRequestError
from mm_runtime.backends.triton_server.inputs import build_inputs
from mm_runtime.gateway.backends.engine import EngineRequest, Sampling

GREEDY = Sampling(temperature=0, top_p=1, presence_penalty=None, frequency_penalty=None, seed=0)


def shapes(*sizes: tuple[int, int]) -> dict[str, list[int]]:
    request = EngineRequest(
        request_id="one",
        prompt="?",
        images=tuple(np.ones((height, width, 3), np.uint8) for height, width in sizes),
        max_tokens=4,
        sampling=GREEDY,
    )
    inputs = build_inputs(request, newer_names=True)
    return {one.name: list(one.values.shape) for one in inputs if "image" in one.name}


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        pytest.param([], {}, id="none"),
        pytest.param([(4, 6)] * 2, {"image_bytes_input": [1, 2, 4, 6, 3]}, id="one-size"),
        pytest.param(
            [(4, 6), (5, 2)],
            {"image_bytes_input": [1, 2, 5, 6, 3], "image_sizes_input": [1, 2, 2]},
            id="padded",
        ),
    ],
)
def test_sizes_may_differ(sizes: list[tuple[int, int]], expected: dict[str, list[int]]) -> None:
    """The tensor is as high as the highest and as wide as the widest; the sizes go with it."""
    assert expected == shapes(*sizes)


def test_a_tall_and_a_wide_strip_are_refused() -> None:
    """150 kB each would be padded to 15 GB."""
    with pytest.raises(InvalidRequestError, match="50000 pixels wide and 50000 high") as refused:
        shapes((1, 50_000), (50_000, 1))
    assert refused.value.code == "invalid_image"


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
