"""NaN and infinite values of a tensor are found, in each type that features and pixels have."""

import numpy as np
import pytest

from mm_runtime.serving.tensors import all_finite

LARGEST = np.finfo(np.float16).max


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("value", [np.nan, -np.nan, np.inf, -np.inf])
def test_one_value_that_is_not_finite_is_found(dtype: type, value: float) -> None:
    """Whatever its sign, and in an array that is a part of another."""
    values = np.zeros((2, 3, 4), dtype)[:, :, ::2]
    values[1, 2, 1] = value

    assert not all_finite(values)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.uint8])
def test_largest_and_smallest_values_are_finite(dtype: type) -> None:
    """Of the type with the least range, the negative ones and the denormal ones too."""
    finite = np.array([0.0, 1.0, 200.0]).astype(dtype)
    assert all_finite(finite)
    assert all_finite(finite[:0])
    if np.issubdtype(dtype, np.floating):
        assert all_finite(np.array([LARGEST, -LARGEST, 6e-8, -0.0], dtype))


def test_each_pattern_of_half_a_word_is_judged_as_numpy_does() -> None:
    patterns = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    assert [all_finite(one) for one in patterns[:, None]] == np.isfinite(patterns).tolist()
