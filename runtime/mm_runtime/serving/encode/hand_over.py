"""Features on their way to a language model that computes on a GPU: GPU tensors of its own dtype.

Whatever made them, the vision engine of this process or an encoder in another pod, they leave this
process on the GPU. They are complete before they leave: Triton copies them from another process,
which knows nothing of this one's streams.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from mm_runtime.serving.device import CPU, as_tensor, sent, wait_for
from mm_runtime.serving.tensor_names import MADE_ON_GPU

FEATURES = ("OUT_PROMPT_EMBEDDING_TABLE", "ENCODER_INPUT_FEATURES")


class HandOver:
    """Moves the features of one request to a device.

    `dtype`: torch's name of the dtype of the prompt table. `announced`: the language model must
    find them there.
    """

    def __init__(self, device: torch.device, dtype: str, *, announced: bool) -> None:
        self._device, self._announced = device, announced
        found: torch.dtype = getattr(torch, dtype)
        self._dtype = found

    def place(self, outputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outputs with features on the device; without features they stay as is."""
        placed = {name: self._placed(outputs[name]) for name in FEATURES if name in outputs}
        if not placed:
            return dict(outputs)
        wait_for(self._device)
        announced = {MADE_ON_GPU: np.array([[True]])} if self._announced else {}
        return {**outputs, **placed, **announced}

    def _placed(self, rows: Any) -> torch.Tensor:
        if isinstance(rows, np.ndarray):
            rows = sent(as_tensor(rows, CPU), self._device)
        return as_tensor(rows, self._device, self._dtype).contiguous()
