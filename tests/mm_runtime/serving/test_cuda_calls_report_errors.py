"""Calls of CUDA's library that keep the interpreter's lock raise what torch would."""

import pytest
import torch

from mm_runtime.serving.cuda_calls import open_cuda_calls

pytestmark = pytest.mark.skipif(torch.version.cuda is None, reason="this torch has no CUDA")


class NoEvent:
    """An event that was never recorded."""

    cuda_event = 0


def test_an_error_has_the_words_of_the_library() -> None:
    """Without a GPU there is none to query, and with one the event is no event."""
    calls = open_cuda_calls()

    assert calls is not None
    with pytest.raises(RuntimeError, match=r"^CUDA error: \w+"):
        calls.is_done(NoEvent())
