"""Mistral Small 3.1's vision half: Pixtral's tower, norm, four patches merged into one, projector.

One entry of the batch is one image: attention never crosses images, so entries of one size share
a run and no mask is needed. Positions of the patches come in; the graph computes their rotation.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from mm_api.documents.model_facts import ModelFacts
from mm_runtime.engine_build.commands import vision_samples
from mm_runtime.engine_build.commands.towers.attention import Attention
from mm_runtime.engine_build.commands.towers.qwen2_vl import rotated
from mm_runtime.engine_build.commands.towers.tower import Sample, Tower, TowerInput, TowerSource
from mm_runtime.serving.geometry.patches import patch_positions

SAMPLE_GRIDS = ((2, 2, 3), (1, 2, 2), (3, 4, 1))
"""Batch, then features down and across: three shapes that no exporter example has."""

CHANNELS = 3


class PixtralTower(torch.nn.Module):
    """Pixtral's vision transformer.

    Inputs `pixel_values`: float32[batch, patches, 3 x patch x patch], `patch_positions`:
    int64[batch, patches, 2]; output: float32[batch, patches, width].
    """

    def __init__(self, tower: Any) -> None:
        super().__init__()
        self.convolution = tower.patch_conv
        self.norm = tower.ln_pre
        self.layers = tower.transformer.layers
        self.frequencies = tower.patch_positional_embedding.inv_freq
        self.attend = Attention(tower.transformer.layers[0].attention.scaling)
        self.train(mode=False)

    def forward(self, pixel_values: torch.Tensor, patch_positions: torch.Tensor) -> torch.Tensor:
        """Return what the last layer makes of each patch."""
        # A convolution whose kernel is a patch is a product.
        states: torch.Tensor = self.norm(pixel_values @ self.convolution.weight.flatten(1).T)
        down, across = self.frequencies.chunk(2)
        places = patch_positions.float()
        angles = torch.cat((places[..., :1] * down, places[..., 1:] * across), dim=-1)
        angles = torch.cat((angles, angles), dim=-1)[:, None]  # one rotation for all heads
        cosines, sines = angles.cos(), angles.sin()
        for layer in self.layers:
            attention, normed = layer.attention, layer.attention_norm(states)
            queries, keys, values = (
                project(normed).unflatten(-1, (attention.num_heads, -1)).transpose(1, 2)
                for project in (attention.q_proj, attention.k_proj, attention.v_proj)
            )
            turned = (rotated(one, cosines, sines) for one in (queries, keys))
            states = states + attention.o_proj(self.attend(*turned, values))
            states = states + layer.feed_forward(layer.ffn_norm(states))
        return states


class Mistral3Vision(torch.nn.Module):
    """Tower, norm, merger and projector.

    Inputs as the tower's, patches that are merged next to each other; output:
    float32[batch, features, hidden].
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        projector = model.multi_modal_projector
        self.tower = PixtralTower(model.vision_tower)
        self.norm = projector.norm
        self.merging = projector.patch_merger.merging_layer
        self.merged = projector.patch_merger.spatial_merge_size**2
        self.first, self.act, self.second = projector.linear_1, projector.act, projector.linear_2
        self.train(mode=False)

    def forward(self, pixel_values: torch.Tensor, patch_positions: torch.Tensor) -> torch.Tensor:
        """Return the rows of the prompt table for each image."""
        states = self.norm(self.tower(pixel_values, patch_positions))
        batch, patches, width = states.shape
        blocks = states.reshape(batch, patches // self.merged, self.merged, width)
        # As unfold leaves them: patches of a block vary fastest.
        merged = self.merging(blocks.transpose(2, 3).flatten(2))
        features: torch.Tensor = self.second(self.act(self.first(merged)))
        return features


def load(source: TowerSource) -> Tower:
    """Return the vision half of a Mistral Small 3.1 checkpoint."""
    model = source.model().model
    return lines_tower(Mistral3Vision(model), model.get_image_features, source.facts)


def lines_tower(
    module: torch.nn.Module, features_of: Callable[..., Any], facts: ModelFacts
) -> Tower:
    """Return the vision half of a family whose images are lines of features.

    `features_of`: the checkpoint's own way from images and their sizes to features.
    """
    assert facts.vision is not None  # noqa: S101 (the family has one)
    patch, merge = facts.vision.patch_size, facts.vision.merge_size or 1
    values = CHANNELS * patch**2
    random = np.random.default_rng(vision_samples.SEED)

    def sample(batch: int, lines: int, columns: int) -> Sample:
        high, wide = lines * merge, columns * merge
        shape = (batch, high * wide, values)
        pixels = random.uniform(vision_samples.DARKEST, vision_samples.BRIGHTEST, shape)
        positions = patch_positions(high, wide, merge)
        return {
            "pixel_values": pixels.astype(np.float32),
            "patch_positions": np.broadcast_to(positions, (batch, *positions.shape)).copy(),
        }

    def reference(given: Sample) -> torch.Tensor:
        places = given["patch_positions"][0]
        high, wide = places.max(axis=0) + 1
        # Patches of images in the order of reading, then images of patches.
        ordered = given["pixel_values"][:, np.lexsort((places[:, 1], places[:, 0]))]
        grid = torch.from_numpy(ordered).reshape(-1, high, wide, CHANNELS, patch, patch)
        images = grid.permute(0, 3, 1, 4, 2, 5).flatten(4).flatten(2, 3)
        sizes = torch.tensor([[high * patch, wide * patch]] * len(images))
        found = features_of(pixel_values=images, image_sizes=sizes).pooler_output
        return torch.stack(list(found))

    most = (facts.vision.image_size // patch) ** 2
    return Tower(
        module=module,
        inputs=(
            TowerInput("pixel_values", ("batch", "patches", values), largest=most),
            TowerInput("patch_positions", ("batch", "patches", 2), largest=most),
        ),
        samples=tuple(sample(*grid) for grid in SAMPLE_GRIDS),
        reference=reference,
    )
