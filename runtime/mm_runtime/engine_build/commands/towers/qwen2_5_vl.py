"""Qwen2.5-VL's vision half: as Qwen2-VL's, but most layers see a window of each image only.

A patch's window follows from its position. So patches stay in the processor's order, and layers of
windows hide what is elsewhere; upstream's class sorts patches by window and cuts them there.
"""

from typing import Any

import torch

from mm_runtime.engine_build.commands.towers.qwen2_vl import SAMPLE_GRIDS, Qwen2VlVision, grid_tower
from mm_runtime.engine_build.commands.towers.tower import Tower, TowerSource


class Qwen25VlVision(Qwen2VlVision):
    """Qwen2-VL's vision transformer, of windows."""

    def __init__(self, visual: Any) -> None:
        super().__init__(visual)
        merged_side = visual.window_size // visual.spatial_merge_size // visual.patch_size
        self.window = merged_side * visual.spatial_merge_size
        self.windowed = set(range(len(visual.blocks))) - set(visual.fullatt_block_indexes)

    def hidden(self, patch_positions: torch.Tensor, dtype: torch.dtype) -> dict[int, torch.Tensor]:
        windows = patch_positions // self.window
        together = (windows[:, :, None] == windows[:, None]).all(dim=-1)[:, None]
        elsewhere = torch.where(together, 0.0, torch.finfo(dtype).min).to(dtype)
        return dict.fromkeys(self.windowed, elsewhere)


def load(source: TowerSource) -> Tower:
    model = source.model()
    visual = model.model.visual
    module = Qwen25VlVision(visual)
    side = visual.spatial_merge_size
    crossing = (2, module.window + side, module.window + 2 * side)
    return grid_tower(visual, module, source.facts, (*SAMPLE_GRIDS, crossing))
