"""TensorRT-LLM's converter takes a Whisper checkpoint by OpenAI's name, which its shape reports."""

import pytest

from mm_api.families.whisper import converter_name
from support.model_configs import facts_of

MULTILINGUAL, LARGE_V3, ENGLISH = 51_865, 51_866, 51_864
"""Tokens of the published vocabularies: `large-v3` added one language."""


@pytest.mark.parametrize(
    ("name", "encoder", "decoder", "width", "mels", "vocabulary"),
    [
        # Layers and width are those of openai/whisper's README and of the checkpoints on the Hub.
        ("tiny", 4, 4, 384, 80, MULTILINGUAL),
        ("tiny.en", 4, 4, 384, 80, ENGLISH),
        ("base", 6, 6, 512, 80, MULTILINGUAL),
        ("base.en", 6, 6, 512, 80, ENGLISH),
        ("small", 12, 12, 768, 80, MULTILINGUAL),
        ("small.en", 12, 12, 768, 80, ENGLISH),
        ("medium", 24, 24, 1024, 80, MULTILINGUAL),
        ("medium.en", 24, 24, 1024, 80, ENGLISH),
        ("large-v2", 32, 32, 1280, 80, MULTILINGUAL),
        ("large-v3", 32, 32, 1280, 128, LARGE_V3),
        ("large-v3-turbo", 32, 4, 1280, 128, LARGE_V3),
        ("distil-large-v2", 32, 2, 1280, 80, MULTILINGUAL),
        ("distil-large-v3", 32, 2, 1280, 128, LARGE_V3),
        (None, 3, 3, 64, 80, MULTILINGUAL),
    ],
)
def test_a_shape_has_a_name(  # noqa: PLR0917
    name: str | None, encoder: int, decoder: int, width: int, mels: int, vocabulary: int
) -> None:
    facts = facts_of("whisper")
    assert facts.encoder is not None
    received = facts.encoder.model_copy(
        update={"layers": encoder, "hidden_size": width, "mel_bins": mels}
    )
    spoken = facts.text.model_copy(update={"layers": decoder, "vocabulary_size": vocabulary})

    assert name == converter_name(facts.model_copy(update={"encoder": received, "text": spoken}))
