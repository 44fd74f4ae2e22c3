"""A Whisper of Hugging Face becomes the file that OpenAI would have published."""

from pathlib import Path

import pytest
import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration

from mm_api.families import FAMILIES
from mm_runtime.engine_build.commands.openai_layout import TIED, openai_name
from mm_runtime.errors import PermanentError
from support.model_configs import WITH_ENGINES
from support.trtllm_sites import assert_family_is_built, trtllm_site, use_site
from support.trtllm_tools.install import install


def test_names_are_openais() -> None:
    config = WhisperConfig(
        d_model=8,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=1,
        decoder_attention_heads=1,
        encoder_ffn_dim=8,
        decoder_ffn_dim=8,
        vocab_size=16,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    with torch.device("meta"):  # names are wanted, not weights
        model = WhisperForConditionalGeneration(config)
    names = {openai_name(name) for name in model.state_dict()}
    attention = {f"{part}.{kind}" for part in ("query", "value", "out") for kind in WEIGHT_AND_BIAS}
    attention.add("key.weight")
    feed = {f"{part}.{kind}" for part in ("mlp.0", "mlp.2") for kind in WEIGHT_AND_BIAS}
    norms = {f"{part}.{kind}" for part in ("attn_ln", "mlp_ln") for kind in WEIGHT_AND_BIAS}
    block = feed | norms | {f"attn.{name}" for name in attention}
    cross = {f"cross_attn.{name}" for name in attention}
    cross |= {f"cross_attn_ln.{kind}" for kind in WEIGHT_AND_BIAS}
    expected = {f"encoder.blocks.0.{name}" for name in block}
    expected |= {f"decoder.blocks.0.{name}" for name in block | cross}
    expected |= {f"encoder.{part}.{kind}" for part in ENDS for kind in WEIGHT_AND_BIAS}
    expected |= {f"decoder.ln.{kind}" for kind in WEIGHT_AND_BIAS}
    expected |= {f"{part}.positional_embedding" for part in ("encoder", "decoder")}
    expected |= {"decoder.token_embedding.weight", TIED}
    assert expected == names


WEIGHT_AND_BIAS = ("weight", "bias")
ENDS = ("conv1", "conv2", "ln_post")


@pytest.mark.parametrize(
    "family", [name for name in WITH_ENGINES if FAMILIES[name].trtllm.model_name]
)
def test_its_engines_are_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    """The converter reads the renamed weights, in processes of their own as in a Job."""
    tools = install(tmp_path / "tools", "0.20.0")
    assert_family_is_built(use_site(monkeypatch, trtllm_site(tmp_path, tools, family)), family)


def test_strangers_are_refused() -> None:
    with pytest.raises(PermanentError, match=r"tensor lm_head\.weight, which is not Whisper's"):
        openai_name("lm_head.weight")
