"""Each version's vision engine is built into the folder that its template of Triton's names."""

from mm_api.trtllm_layout import engine_folder, engine_limits
from support.cases import cases
from support.model_configs import planned


@cases(
    "version key folder",
    {
        "0.16": ("0.16.0", "visual_model_path", "vision_encoder"),
        "0.18": ("0.18.2", "visual_model_path", "vision_encoder"),
        "0.19": ("0.19.0", "multimodal_model_path", "multimodal_encoder"),
        "candidate": ("1.2.0rc3", "multimodal_model_path", "multimodal_encoder"),
    },
)
def test_vision_engines_have_the_folder_of_their_version(
    version: str, key: str, folder: str
) -> None:
    """The command, the template and who looks for the engine agree."""
    plan = planned("llava", version=version)
    argv = plan.engines[-1].argv

    assert f"build/engines/{folder}" == engine_folder("vision", version)
    assert engine_folder("vision", version) == argv[argv.index("--output_dir") + 1]
    assert engine_folder("vision", version) == plan.serving.template[key]


def test_halves_of_an_encoder_decoder_have_limits_of_their_own() -> None:
    """The encoder reads what cross attention sees, a full batch in one step, rounded up to 8."""
    plan = planned("bart", {"maxEncoderInputLen": 301, "maxBatchSize": 3})
    limits = plan.build_plan.engine.limits
    encoder, decoder = engine_limits("encoder", limits), engine_limits("decoder", limits)

    assert (encoder["max_input_len"], encoder["max_seq_len"]) == (301, 301)
    assert encoder["max_num_tokens"] == 904
    assert "max_encoder_input_len" not in encoder
    assert (decoder["max_input_len"], decoder["max_encoder_input_len"]) == (2, 301)
