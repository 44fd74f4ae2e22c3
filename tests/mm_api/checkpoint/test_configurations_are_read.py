"""Every family keeps its dimensions elsewhere; one reader knows all of them."""

from pathlib import Path
from typing import Any

import pytest

from mm_api.checkpoint import CheckpointError
from mm_api.families import FAMILIES
from mm_api.families.detection import matches, resolve
from mm_ctl.commands.checkpoint_folder import facts_of_folder
from mm_ctl.documents import UsageError
from mm_operator.plan.engine.weights import text_parameters
from mm_runtime.inspect.checkpoint import InspectOptions
from support.cases import cases
from support.families.images import WRITTEN
from support.model_configs import ENCODER_DECODERS, MODELS, facts_of


@pytest.mark.parametrize("family", MODELS)
def test_family_is_found(family: str) -> None:
    assert facts_of(family).family == family


@pytest.mark.parametrize("family", MODELS)
def test_no_other_family_is_found(family: str) -> None:
    """What families are recognised by excludes each other: their order decides nothing."""
    assert [family] == [one.name for one in FAMILIES.values() if matches(one, config_of(family))]


@pytest.mark.parametrize("family", MODELS)
def test_parameters_are_the_published_ones(family: str) -> None:
    assert facts_of(family).parameters == MODELS[family].parameters


@pytest.mark.parametrize("family", ENCODER_DECODERS)
def test_dimensions_alone_give_the_parameters(family: str) -> None:
    counted = text_parameters(facts_of(family), FAMILIES[family])

    assert counted == MODELS[family].parameters


@cases(
    "family expected",
    {
        "llama-7b-with-64-more-rows": ("llava", 6_738_415_616 + 64 * 4096 * 2),
        "qwen2-7b": ("qwen2-vl", 7_615_616_512),
        "llama-3.1-8b-and-8-crossing-layers": ("mllama", 9_775_192_080),
    },
)
def test_language_models_are_counted(family: str, expected: int) -> None:
    assert text_parameters(facts_of(family), FAMILIES[family]) == expected


def config_of(family: str, **changes: Any) -> dict[str, Any]:
    files = MODELS[family].files
    config = (files.get("config.json") or files["args.json"]) | changes
    return {key: value for key, value in config.items() if value is not None}


@pytest.mark.parametrize(
    ("config", "words"),
    [
        pytest.param(
            config_of("mbart", forced_bos_token_id=None), "many-to-many", id="many-to-many-mbart"
        ),
        pytest.param(config_of("vila", s2=True), "s2 is true", id="vila-s2"),
        pytest.param(
            config_of("vila", image_aspect_ratio="dynamic"), "as in NVILA", id="nvila-tiles"
        ),
        pytest.param(config_of("vila", dynamic_s2=True), "as in NVILA", id="nvila-scales"),
        pytest.param(
            config_of("vila", mm_projector_cfg={"mm_projector_type": "mlp_downsample_2x2_fix"}),
            "llava-onevision",
            id="nvila-projector",
        ),
        pytest.param(
            config_of("llava", mm_vision_tower="openai/clip"), "original layout", id="old-llava"
        ),
        pytest.param(
            config_of("blip2-opt", text_config={"model_type": "t5"}), "than OPT", id="blip2-t5"
        ),
        pytest.param(config_of("qwen2-vl", hidden_size="wide"), "'wide'", id="not-a-number"),
        pytest.param(config_of("t5", num_heads=0), "num_heads is 0", id="zero"),
        pytest.param(config_of("bart", decoder_attention_heads=7), "multiple", id="odd-heads"),
        pytest.param(config_of("mllama", text_config={}), "", id="no-text"),
        *(
            pytest.param(config_of(family, **changes), words, id=f"{family}-{next(iter(changes))}")
            for family, case in WRITTEN.items()
            for changes, words in case.refused_configurations
        ),
    ],
)
def test_what_cannot_be_served_is_refused(config: dict[str, Any], words: str) -> None:
    if not words:  # missing keys are defaults: Llama's, not an error
        assert FAMILIES[resolve(config, None)].read(config, {}).text.hidden_size == 4096
        return
    with pytest.raises(CheckpointError) as refused:
        FAMILIES[resolve(config, None)].read(config, {})

    assert words in str(refused.value)


def test_a_mbart_that_starts_with_a_language_is_served() -> None:
    """mBART-25 fine-tunes fix the language through the first id of the answer."""
    config = config_of("mbart", forced_bos_token_id=None, decoder_start_token_id=250_020)

    assert FAMILIES["mbart"].read(config, {}).text.layers == 12


@cases(
    "files words",
    {
        "empty": ({}, "config.json does not exist"),
        "cut": ({"config.json": "{"}, "not valid JSON"),
        "list": ({"config.json": "[]"}, "expected a JSON object"),
        "unknown": ({"config.json": '{"model_type": "x"}'}, "no known family"),
        "no-weights": (
            {"config.json": '{"model_type": "llava"}', "preprocessor_config.json": '{"a": 1}'},
            "add model",
        ),
        "damaged-weights": (
            {
                "config.json": '{"model_type": "llava"}',
                "preprocessor_config.json": '{"a": 1}',
                "model.safetensors": "short",
            },
            "a safetensors file has at least 8",
        ),
    },
)
def test_folders_that_say_nothing(tmp_path: Path, files: dict[str, str], words: str) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)

    with pytest.raises(UsageError) as refused:
        facts_of_folder(tmp_path, InspectOptions())

    assert words in str(refused.value)


def test_facts_fit_a_termination_message() -> None:
    """The longest facts, 36 grids of OneVision included, stay below 4,096 bytes."""
    assert max(len(facts_of(family).to_json()) for family in MODELS) < 4000
