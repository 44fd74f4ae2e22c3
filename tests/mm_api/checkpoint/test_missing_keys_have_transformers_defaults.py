"""A config.json leaves out what its class has by default: a size that is missing is that one."""

import pkgutil
from typing import Any

import pytest
from transformers import BartConfig, LlavaConfig, MBartConfig, T5Config, WhisperConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from mm_api.checkpoint.text import TEXT_DEFAULTS, text_facts
from mm_api.families import FAMILIES
from support.families.images import WRITTEN

LLAMA = {"model_type": "llama"}
ENGLISH = {"forced_bos_token_id": 250_004}
IMAGE_TOKEN = {"image_token_index": 7, "image_token_id": 7}
POOLED = {"mm_tokens_per_image": 49, "scale_factor": 7}
"""Of SigLIP's 14 x 14 and Idefics3's 7 x 7 patches: their own defaults are of other towers."""


def beside(vision: dict[str, Any], kind: str) -> dict[str, Any]:
    text = {"model_type": kind, "sliding_window": None}
    return {"text_config": text, "vision_config": vision, **IMAGE_TOKEN, **POOLED}


def stated(config: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if value is not None}


def defaults(name: str) -> dict[str, Any]:
    return stated(pkgutil.resolve_name(name)().to_dict())


@pytest.mark.parametrize(
    ("family", "sparse", "full"),
    [
        pytest.param("t5", {}, T5Config().to_dict(), id="t5"),
        pytest.param("bart", {}, BartConfig().to_dict(), id="bart"),
        pytest.param("mbart", ENGLISH, {**MBartConfig().to_dict(), **ENGLISH}, id="mbart"),
        pytest.param("whisper", {}, WhisperConfig().to_dict(), id="whisper"),
        *(
            pytest.param(
                family,
                beside({}, case.text_kind),
                beside(defaults(case.vision_config), case.text_kind),
                id=family,
            )
            for family, case in WRITTEN.items()
            if case.vision_config
        ),
    ],
)
def test_dimensions_are_those_of_the_class(
    family: str, sparse: dict[str, Any], full: dict[str, Any]
) -> None:
    read = FAMILIES[family].read

    assert read(sparse, {}) == read(full, {})


def test_the_image_token_is_that_of_the_class() -> None:
    sparse = {"text_config": LLAMA, "vision_config": {}}

    assert FAMILIES["llava"].read(sparse, {}).image_token_id == LlavaConfig().image_token_id


@pytest.mark.parametrize("kind", sorted(TEXT_DEFAULTS))
def test_language_models_are_those_of_their_class(kind: str) -> None:
    full = stated(CONFIG_MAPPING[kind]().to_dict())

    assert text_facts({"model_type": kind}) == text_facts({**full, "model_type": kind})
