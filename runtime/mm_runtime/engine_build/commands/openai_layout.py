"""Write Whisper's weights as OpenAI publishes them: upstream's converter reads nothing else.

The names of modules differ, the numbers do not (TensorRT-LLM's examples/whisper README converts
Distil-Whisper in the same way).
"""

import json
import logging
import re
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from mm_runtime.engine_build.commands.step import StepContext, run_step
from mm_runtime.engine_build.tree import weights_name
from mm_runtime.errors import PermanentError

log = logging.getLogger(__name__)

TIED = "proj_out.weight"
"""The output matrix is the embedding: OpenAI's files hold it once."""

NAMES = (
    (r"^model\.", ""),
    (r"\.layers\.", ".blocks."),
    (r"\.self_attn_layer_norm\.", ".attn_ln."),
    (r"\.encoder_attn_layer_norm\.", ".cross_attn_ln."),
    (r"\.final_layer_norm\.", ".mlp_ln."),
    (r"\.self_attn\.", ".attn."),
    (r"\.encoder_attn\.", ".cross_attn."),
    (r"\.q_proj\.", ".query."),
    (r"\.k_proj\.", ".key."),
    (r"\.v_proj\.", ".value."),
    (r"\.out_proj\.", ".out."),
    (r"\.fc1\.", ".mlp.0."),
    (r"\.fc2\.", ".mlp.2."),
    (r"\.embed_tokens\.", ".token_embedding."),
    (r"\.embed_positions\.weight$", ".positional_embedding"),
    (r"^encoder\.layer_norm\.", "encoder.ln_post."),
    (r"^decoder\.layer_norm\.", "decoder.ln."),
)
"""Hugging Face's names -> OpenAI's, applied in this order."""

DIMENSIONS = {
    "n_mels": "num_mel_bins",
    "n_vocab": "vocab_size",
    "n_audio_ctx": "max_source_positions",
    "n_audio_state": "d_model",
    "n_audio_head": "encoder_attention_heads",
    "n_audio_layer": "encoder_layers",
    "n_text_ctx": "max_target_positions",
    "n_text_state": "d_model",
    "n_text_head": "decoder_attention_heads",
    "n_text_layer": "decoder_layers",
}


def openai_layout(context: StepContext) -> None:
    """Write `NAME.pt` beside the safetensors files, unless the checkpoint came with it."""
    folder = context.paths.weights
    target = folder / weights_name(context.plan)
    if target.is_file():
        log.info("%s came with the checkpoint", target.name)
        return
    config = json.loads((folder / "config.json").read_bytes())
    weights: dict[str, torch.Tensor] = {}
    for path in sorted(folder.glob("*.safetensors")):
        weights |= {openai_name(name): tensor for name, tensor in load_file(path).items()}
    weights.pop(TIED, None)
    dimensions: dict[str, Any] = {name: config[key] for name, key in DIMENSIONS.items()}
    _save({"dims": dimensions, "model_state_dict": weights}, target)
    log.info("%s: %d tensors", target.name, len(weights))


def openai_name(name: str) -> str:
    """Return OpenAI's name of a tensor; PermanentError: it is not one of a Whisper."""
    if name == TIED:
        return name
    if not name.startswith(("model.encoder.", "model.decoder.")):
        raise PermanentError(
            f"The checkpoint has a tensor {name}, which is not Whisper's; expected names that"
            " begin with model.encoder or model.decoder."
        )
    for pattern, replacement in NAMES:
        name = re.sub(pattern, replacement, name)
    return name


def _save(checkpoint: dict[str, Any], target: Path) -> None:
    beside = target.with_name(f"{target.name}.partial")
    torch.save(checkpoint, beside)
    beside.rename(target)


if __name__ == "__main__":
    run_step(openai_layout)
