"""Small models compute with one thread, large ones with all cores."""

import pytest

from mm_runtime.serving.threads import SMALL_MODEL_BYTES, threads_for


@pytest.mark.parametrize(
    ("weight_bytes", "cores", "expected"),
    [
        pytest.param(5_700_000, 16, 1, id="tiny model"),
        pytest.param(SMALL_MODEL_BYTES - 1, 4, 1, id="just small"),
        pytest.param(SMALL_MODEL_BYTES, 4, 4, id="just large"),
        pytest.param(14 << 30, 1, 1, id="large model, one core"),
    ],
)
def test_threads(weight_bytes: int, cores: int, expected: int) -> None:
    """The weights decide."""
    assert expected == threads_for(weight_bytes, cores)
