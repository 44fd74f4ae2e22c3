"""Which names the inputs of a version of TensorRT-LLM have."""

from mm_api.trtllm_layout import release_of

NAMES_SINCE = (0, 20)
"""TensorRT-LLM that calls `random_seed` `seed` and `min_length` `min_tokens`."""


def has_newer_names(version: str) -> bool:
    """Say whether a version of TensorRT-LLM calls its inputs `seed` and `min_tokens`."""
    return release_of(version) >= NAMES_SINCE
