"""Small models compute with one thread, large ones with all cores."""

from mm_runtime.serving.threads import SMALL_MODEL_BYTES, threads_for
from support.cases import cases


@cases(
    "weight_bytes cores expected",
    {
        "tiny model": (5_700_000, 16, 1),
        "just small": (SMALL_MODEL_BYTES - 1, 4, 1),
        "just large": (SMALL_MODEL_BYTES, 4, 4),
        "large model, one core": (14 << 30, 1, 1),
    },
)
def test_threads(weight_bytes: int, cores: int, expected: int) -> None:
    assert expected == threads_for(weight_bytes, cores)
