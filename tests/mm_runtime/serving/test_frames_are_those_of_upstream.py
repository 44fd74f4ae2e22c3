"""Tokens around an image that are the same for every one: those of upstream's own processor."""

from types import SimpleNamespace

import pytest
from transformers import ProcessorMixin
from transformers.models.gemma3.processing_gemma3 import Gemma3Processor

from mm_api.families import FAMILIES


def test_gemma3(monkeypatch: pytest.MonkeyPatch) -> None:
    """A placeholder stands for all features; line breaks are part of the frame."""
    monkeypatch.setattr(ProcessorMixin, "__init__", lambda *_, **__: None)
    tokenizer = SimpleNamespace(
        boi_token_id=4,
        boi_token="<start_of_image>",
        image_token="<image_soft_token>",
        eoi_token="<end_of_image>",
    )
    upstream = Gemma3Processor(None, tokenizer, image_seq_length=1)
    style = FAMILIES["gemma3"].prompt
    assert style is not None

    assert style.framed == upstream.replace_image_token({"num_crops": [0]}, 0)
    assert style.placeholder == upstream.image_token
