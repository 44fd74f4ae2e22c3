"""PURE: batches of our vision towers as the tensors of TensorRT-LLM's vision engines, and back.

Names, shapes and masks are those that `tensorrt_llm/tools/multimodal_builder.py` exports and that
upstream's model `multimodal_encoders` gives to its engines.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mm_runtime.serving.encode.vision.runner import Inputs

Array: TypeAlias = NDArray[Any]

INPUT = "input"
OUTPUT = "encoder_output"
ROTARY_BASE = 10_000.0
"""Base of the rotary positions of Qwen2-VL's tower (`VisionRotaryEmbedding`)."""


class Pixels:
    """Squares and views: one input, [batch, 3, side, side] -> [batch, rows, hidden]."""

    def inputs(self, batch: Inputs) -> dict[str, Array]:
        return {INPUT: batch["pixel_values"]}

    def features(self, batch: Inputs, output: NDArray[np.float32]) -> NDArray[np.float32]:
        del batch
        return output


class Tiles:
    """Llama 3.2 Vision: each input has an axis of images after the batch, of length one."""

    def inputs(self, batch: Inputs) -> dict[str, Array]:
        return {name: array[:, np.newaxis] for name, array in batch.items()}

    def features(self, batch: Inputs, output: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return [batch, tiles x positions, hidden] of [batch, 1, tiles, positions, hidden]."""
        del batch
        return output.reshape(len(output), -1, output.shape[-1])


@dataclass(frozen=True)
class Patches:
    """Qwen2-VL: the patches of all images in one row, and a mask of who attends to whom."""

    head_size: int

    least: int
    """Patches of the smallest run that the engine was built for; what is missing is padding."""

    merged: int
    """Patches that become one feature."""

    def inputs(self, batch: Inputs) -> dict[str, Array]:
        """Return patches, their rotary angles and the mask [1, patches, patches]."""
        pixels = batch["pixel_values"]
        count, patches, width = pixels.shape
        rows = count * patches
        padding = max(0, self.least - rows)
        total = rows + padding + -padding % self.merged
        flat = np.zeros((total, width), dtype=pixels.dtype)
        flat[:rows] = pixels.reshape(rows, width)
        angles = np.zeros((total, self.head_size // 2), dtype=np.float32)
        angles[:rows] = self._angles(batch["patch_positions"]).reshape(rows, -1)
        mask = np.full((total, total), np.finfo(np.float16).min, dtype=np.float16)
        for start in range(0, rows, patches):
            mask[start : start + patches, start : start + patches] = 0
        mask[rows:, rows:] = 0
        return {INPUT: flat, "rotary_pos_emb": angles, "attention_mask": mask[np.newaxis]}

    def features(self, batch: Inputs, output: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return [batch, rows, hidden] without the padding's."""
        count, patches = batch["pixel_values"].shape[:2]
        kept = output[: count * patches // self.merged]
        return kept.reshape(count, patches // self.merged, output.shape[-1])

    def _angles(self, positions: Array) -> NDArray[np.float32]:
        quarter = self.head_size // 4
        frequencies = ROTARY_BASE ** (-np.arange(quarter, dtype=np.float32) / quarter)
        return (positions[..., np.newaxis].astype(np.float32) * frequencies).astype(np.float32)


EngineTensors: TypeAlias = Pixels | Tiles | Patches
"""How one kind of vision engine takes a batch; element types are the engine's business."""
