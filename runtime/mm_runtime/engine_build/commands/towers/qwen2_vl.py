"""Qwen2-VL's vision half: images keep their size, so patches are a size of their own.

One entry of the batch is one image, or one pair of frames of a video: attention never crosses
them, so entries of one size share a run and no mask is needed. Positions of the patches come in;
their rotation is computed in the graph.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from mm_api.documents.model_facts import ModelFacts
from mm_runtime.engine_build.commands import vision_samples
from mm_runtime.engine_build.commands.towers.attention import Attention
from mm_runtime.engine_build.commands.towers.tower import Sample, Tower, TowerInput, TowerSource
from mm_runtime.serving.geometry.rotation import patch_positions

SAMPLE_GRIDS = ((2, 4, 6), (1, 4, 4), (3, 8, 2))
"""Batch, then patches down and across: three shapes that no exporter example has."""


class Qwen2VlVision(torch.nn.Module):
    """Vision transformer with rotated positions, and the merger of patches.

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
        self.train(mode=False)

    def forward(self, pixel_values: torch.Tensor, patch_positions: torch.Tensor) -> torch.Tensor:
        """Return the rows of the prompt table for each image."""
        batch, patches, _ = pixel_values.shape
        states = self.patch_embed(pixel_values.flatten(0, 1)).unflatten(0, (batch, patches))
        angles = (patch_positions[..., None].float() * self.inverse_frequencies).flatten(2)
        angles = torch.cat((angles, angles), dim=-1)[:, None]  # one rotation for all heads
        cosines, sines = angles.cos(), angles.sin()
        hidden = self.hidden(patch_positions, states.dtype)
        for number, block in enumerate(self.blocks):
            attention = block.attn
            heads = (
                attention.qkv(block.norm1(states))
                .unflatten(-1, (3, attention.num_heads, attention.head_dim))
                .permute(2, 0, 3, 1, 4)
            )
            queries, keys = (rotated(heads[at], cosines, sines) for at in (0, 1))
            states = states + attention.proj(
                self.attend(queries, keys, heads[2], hidden.get(number))
            )
            states = states + block.mlp(block.norm2(states))
        merged: torch.Tensor = self.merger(states.flatten(0, 1))
        return merged.reshape(batch, patches // self.merged, -1)

    def hidden(self, _: torch.Tensor, __: torch.dtype) -> Mapping[int, torch.Tensor]:
        """Return layer -> what its attention adds to scores, where patches see part of an image."""
        return {}


def rotated(values: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
    """Return queries or keys turned by their positions."""
    first, second = values.chunk(2, dim=-1)
    turned = values * cosines + torch.cat((-second, first), dim=-1) * sines
    return turned.to(values.dtype)  # angles stay in float32


def load(source: TowerSource) -> Tower:
    model = source.model()
    visual = model.model.visual
    return grid_tower(visual, Qwen2VlVision(visual), source.facts)


def grid_tower(
    visual: Any,
    module: torch.nn.Module,
    facts: ModelFacts,
    grids: Sequence[tuple[int, int, int]] = SAMPLE_GRIDS,
) -> Tower:
    """Return the vision half of a family whose images keep their shape.

    `grids`: of the samples: batch, then patches down and across.
    """
    assert facts.vision is not None  # noqa: S101 (the family has one)
    assert facts.vision.max_pixels is not None  # noqa: S101 (read with the rest)
    merge = visual.spatial_merge_size
    embed = visual.patch_embed
    values = embed.in_channels * embed.temporal_patch_size * embed.patch_size**2
    random = np.random.default_rng(vision_samples.SEED)

    def sample(batch: int, rows: int, columns: int) -> Sample:
        shape = (batch, rows * columns, values)
        pixels = random.uniform(vision_samples.DARKEST, vision_samples.BRIGHTEST, shape)
        positions = patch_positions(rows, columns, merge)
        return {
            "pixel_values": pixels.astype(np.float32),
            "patch_positions": np.broadcast_to(positions, (batch, *positions.shape)).copy(),
        }

    def reference(given: Sample) -> torch.Tensor:
        batch, _, _ = given["pixel_values"].shape
        rows, columns = given["patch_positions"][0].max(axis=0) + 1
        grids = torch.tensor([[1, int(rows), int(columns)]] * batch)
        pixels = torch.from_numpy(given["pixel_values"]).flatten(0, 1)
        features: torch.Tensor = visual(pixels, grid_thw=grids).pooler_output
        return features.reshape(batch, -1, features.shape[-1])

    # Of a small model the samples may be larger than its images, and the exporter takes them all.
    largest_sample = max(rows * columns for _, rows, columns in grids)
    most = max(facts.vision.max_pixels // facts.vision.patch_size**2, largest_sample)
    return Tower(
        module=module,
        inputs=(
            TowerInput("pixel_values", ("batch", "patches", values), largest=most),
            TowerInput("patch_positions", ("batch", "patches", 2), largest=most),
        ),
        samples=tuple(sample(*grid) for grid in grids),
        reference=reference,
    )
