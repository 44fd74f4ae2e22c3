"""Qwen2.5-VL's vision half: as Qwen2-VL's, but most layers see a window of each image only.

A patch's window follows from its position. So patches stay in the processor's order, and layers of
windows hide what is elsewhere; upstream's class sorts patches by window and cuts them there.
"""

from pathlib import Path
from typing import Any

import torch
import transformers

from mm_api.documents.model_facts import ModelFacts
from mm_runtime.engine_build.commands.towers.attention import Attention
from mm_runtime.engine_build.commands.towers.qwen2_vl import SAMPLE_GRIDS, grid_tower, rotated
from mm_runtime.engine_build.commands.towers.tower import Tower, load_without_layers


class Qwen25VlVision(torch.nn.Module):
    """Vision transformer of windows, with rotated positions, and the merger of patches.

    Inputs `pixel_values`: float32[batch, patches, 3 x 2 x patch x patch], `patch_positions`:
    int64[batch, patches, 2]; output: float32[batch, patches / 4, hidden].
    """

    def __init__(self, visual: Any) -> None:
        super().__init__()
        self.patch_embed = visual.patch_embed
        self.blocks = visual.blocks
        self.merger = visual.merger
        self.merged = visual.spatial_merge_size**2
        self.inverse_frequencies = visual.rotary_pos_emb.inv_freq
        self.attend = Attention(visual.blocks[0].attn.scaling)
        self.everywhere = frozenset(visual.fullatt_block_indexes)
        merged_side = visual.window_size // visual.spatial_merge_size // visual.patch_size
        self.window = merged_side * visual.spatial_merge_size
        self.train(mode=False)

    def forward(self, pixel_values: torch.Tensor, patch_positions: torch.Tensor) -> torch.Tensor:
        """Return the rows of the prompt table for each image."""
        batch, patches, _ = pixel_values.shape
        states = self.patch_embed(pixel_values.flatten(0, 1)).unflatten(0, (batch, patches))
        angles = (patch_positions[..., None].float() * self.inverse_frequencies).flatten(2)
        angles = torch.cat((angles, angles), dim=-1)[:, None]  # one rotation for all heads
        cosines, sines = angles.cos(), angles.sin()
        windows = patch_positions // self.window
        together = (windows[:, :, None] == windows[:, None]).all(dim=-1)[:, None]
        elsewhere = torch.where(together, 0.0, torch.finfo(states.dtype).min)
        for number, block in enumerate(self.blocks):
            attention = block.attn
            heads = (
                attention.qkv(block.norm1(states))
                .unflatten(-1, (3, attention.num_heads, attention.head_dim))
                .permute(2, 0, 3, 1, 4)
            )
            queries, keys = (rotated(heads[at], cosines, sines) for at in (0, 1))
            hidden = None if number in self.everywhere else elsewhere
            states = states + attention.proj(self.attend(queries, keys, heads[2], hidden))
            states = states + block.mlp(block.norm2(states))
        features: torch.Tensor = self.merger(states.flatten(0, 1))
        return features.reshape(batch, patches // self.merged, -1)


def load(llm: Path, facts: ModelFacts, trust_remote_code: bool) -> Tower:  # noqa: FBT001 (one signature for all)
    """Return the vision half of a Qwen2.5-VL checkpoint."""
    model = load_without_layers(
        transformers.Qwen2_5_VLForConditionalGeneration, llm, trust_remote_code=trust_remote_code
    )
    visual = model.model.visual
    module = Qwen25VlVision(visual)
    side = visual.spatial_merge_size
    crossing = (2, module.window + side, module.window + 2 * side)
    return grid_tower(visual, module, facts, (*SAMPLE_GRIDS, crossing))
