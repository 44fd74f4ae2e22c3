"""Qwen3-VL's vision half: Qwen2-VL's with learned positions, and features of inner layers.

Positions of a square grid are stretched over the image's; a patch has a share of four of them.
"""

from pathlib import Path
from typing import Any

import torch
import transformers

from mm_api.documents.model_facts import ModelFacts
from mm_runtime.engine_build.commands.towers.attention import Attention
from mm_runtime.engine_build.commands.towers.qwen2_vl import grid_tower, rotated
from mm_runtime.engine_build.commands.towers.tower import Tower, load_without_layers


class Qwen3VlVision(torch.nn.Module):
    """Vision transformer with learned and rotated positions, and the mergers of patches.

    Inputs `pixel_values`: float32[batch, patches, 3 x 2 x patch x patch], `patch_positions`:
    int64[batch, patches, 2]; output: float32[batch, patches / 4, (1 + inner layers) x hidden].
    """

    def __init__(self, visual: Any) -> None:
        super().__init__()
        self.patch_embed = visual.patch_embed
        self.positions = visual.pos_embed.weight
        self.side = visual.num_grid_per_side
        self.blocks = visual.blocks
        self.merger, self.inner = visual.merger, visual.deepstack_merger_list
        self.levels = tuple(visual.deepstack_visual_indexes)
        self.merged = visual.spatial_merge_size**2
        self.inverse_frequencies = visual.rotary_pos_emb.inv_freq
        self.attend = Attention(visual.blocks[0].attn.scaling)
        self.train(mode=False)

    def forward(self, pixel_values: torch.Tensor, patch_positions: torch.Tensor) -> torch.Tensor:
        """Return the rows of the prompt table for each image."""
        batch, patches, _ = pixel_values.shape
        states = self.patch_embed(pixel_values.flatten(0, 1)).unflatten(0, (batch, patches))
        states = states + self._learned(patch_positions)
        angles = (patch_positions[..., None].float() * self.inverse_frequencies).flatten(2)
        angles = torch.cat((angles, angles), dim=-1)[:, None]  # one rotation for all heads
        cosines, sines = angles.cos(), angles.sin()
        levels = {}
        for number, block in enumerate(self.blocks):
            attention = block.attn
            heads = (
                attention.qkv(block.norm1(states))
                .unflatten(-1, (3, attention.num_heads, attention.head_dim))
                .permute(2, 0, 3, 1, 4)
            )
            queries, keys = (rotated(heads[at], cosines, sines) for at in (0, 1))
            states = states + attention.proj(self.attend(queries, keys, heads[2]))
            states = states + block.mlp(block.norm2(states))
            if number in self.levels:
                levels[number] = states
        merged = [self.merger(states.flatten(0, 1))]
        merged += [
            merger(levels[number].flatten(0, 1))
            for number, merger in zip(self.levels, self.inner, strict=True)
        ]
        return torch.cat(merged, dim=-1).reshape(batch, patches // self.merged, -1)

    def _learned(self, patch_positions: torch.Tensor) -> torch.Tensor:
        """Return the positions [batch, patches, width] between those of the learned grid."""
        last = patch_positions.amax(dim=1, keepdim=True).float()
        places = patch_positions.float() * ((self.side - 1) / last)
        low = places.floor().long().clamp(max=self.side - 1)
        high = (low + 1).clamp(max=self.side - 1)
        share = (places - low.float())[..., None]
        down, across = share[..., 0, :], share[..., 1, :]
        top, bottom = (
            self._row(rows[..., 0], low[..., 1], high[..., 1], across) for rows in (low, high)
        )
        mixed: torch.Tensor = top * (1 - down) + bottom * down
        return mixed

    def _row(
        self, rows: torch.Tensor, left: torch.Tensor, right: torch.Tensor, across: torch.Tensor
    ) -> torch.Tensor:
        first, second = (self.positions[rows * self.side + columns] for columns in (left, right))
        mixed: torch.Tensor = first * (1 - across) + second * across
        return mixed


def load(llm: Path, facts: ModelFacts, trust_remote_code: bool) -> Tower:  # noqa: FBT001 (one signature for all)
    """Return the vision half of a Qwen3-VL checkpoint."""
    model = load_without_layers(
        transformers.Qwen3VLForConditionalGeneration, llm, trust_remote_code=trust_remote_code
    )
    visual = model.model.visual

    def features_of(pixels: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        found = visual(pixels, grid_thw=grid)
        return torch.cat((found.pooler_output, *found.deepstack_features), dim=-1)

    return grid_tower(visual, Qwen3VlVision(visual), facts, features_of=features_of)
