"""LLaVA's vision half in torch: tower and projector, without the language model."""

from pathlib import Path
from typing import Any

import torch
import transformers


class VisionHalf(torch.nn.Module):
    """Vision tower, selected layer, projector.

    Input `pixel_values`: float32[batch, 3, side, side]; output: float32[batch, features, hidden].
    """

    def __init__(self, model: Any, feature_layer: int, feature_select: str) -> None:
        super().__init__()
        self.tower = model.model.vision_tower
        self.train(mode=False)
        self.projector = model.model.multi_modal_projector
        self.feature_layer = feature_layer
        self.skipped = 1 if feature_select == "default" else 0
        """Rows before the patches: the class token, which "default" leaves out."""

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """Return the rows of the prompt table for each picture."""
        states = self.tower(pixel_values, output_hidden_states=True).hidden_states
        features: torch.Tensor = self.projector(states[self.feature_layer][:, self.skipped :])
        return features


def load(llm: Path, *, trust_remote_code: bool) -> Any:
    """Return the model in float32 with a language model of no layers.

    transformers then skips the weights of all the layers: a checkpoint of 14 GB loads in the memory
    of its vision tower and embeddings.
    """
    config = transformers.AutoConfig.from_pretrained(llm, trust_remote_code=trust_remote_code)
    config.text_config.num_hidden_layers = 0
    if getattr(config.text_config, "layer_types", None):
        config.text_config.layer_types = []
    # It would list every weight of the layers that are left out.
    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    model = transformers.LlavaForConditionalGeneration.from_pretrained(
        llm,
        config=config,
        dtype=torch.float32,
        trust_remote_code=trust_remote_code,
        attn_implementation="eager",  # the exporter writes plain matrix products
    )
    model.requires_grad_(requires_grad=False)  # from_pretrained has called eval() already
    return model
