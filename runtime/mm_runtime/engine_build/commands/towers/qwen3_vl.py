"""Qwen3-VL's vision half: Qwen2-VL's with learned positions, and features of inner layers.

Positions of a square grid are stretched over the image's; a patch has a share of four of them.
"""

from collections.abc import Mapping
from typing import Any

import torch

from mm_runtime.engine_build.commands.towers.qwen2_vl import Qwen2VlVision, grid_tower
from mm_runtime.engine_build.commands.towers.tower import Tower, TowerSource


class Qwen3VlVision(Qwen2VlVision):
    """Qwen2-VL's vision transformer with learned positions, and mergers of inner layers.

    Output: float32[batch, patches / 4, (1 + inner layers) x hidden].
    """

    def __init__(self, visual: Any) -> None:
        super().__init__(visual)
        self.positions = visual.pos_embed.weight
        self.side = visual.num_grid_per_side
        self.inner = visual.deepstack_merger_list
        self.levels = tuple(visual.deepstack_visual_indexes)
        self.train(mode=False)

    def features(self, states: torch.Tensor, inner: Mapping[int, torch.Tensor]) -> torch.Tensor:
        merged = [self.merger(states.flatten(0, 1))]
        merged += [
            merger(inner[number].flatten(0, 1))
            for number, merger in zip(self.levels, self.inner, strict=True)
        ]
        return torch.cat(merged, dim=-1)

    def placed(self, states: torch.Tensor, patch_positions: torch.Tensor) -> torch.Tensor:
        """Add the positions [batch, patches, width] between those of the learned grid."""
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
        return states + mixed.to(states.dtype)

    def _row(
        self, rows: torch.Tensor, left: torch.Tensor, right: torch.Tensor, across: torch.Tensor
    ) -> torch.Tensor:
        first, second = (self.positions[rows * self.side + columns] for columns in (left, right))
        mixed: torch.Tensor = first * (1 - across) + second * across
        return mixed


def load(source: TowerSource) -> Tower:
    """Return the vision half of a Qwen3-VL checkpoint."""
    model = source.model()
    visual = model.model.visual

    def features_of(pixels: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        found = visual(pixels, grid_thw=grid)
        return torch.cat((found.pooler_output, *found.deepstack_features), dim=-1)

    return grid_tower(visual, Qwen3VlVision(visual), source.facts, features_of=features_of)
