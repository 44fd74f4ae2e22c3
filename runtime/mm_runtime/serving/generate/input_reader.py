"""Tensors of a request on their way into the language model, where it computes on a GPU.

Image features arrive as GPU tensors, in memory that is Triton's again once `execute` returns: part
of its CUDA pool, computed for features on their way only. So they are copied on arrival.

When that pool is full, Triton hands features over in host memory. With a pinned pool it has then
copied nothing, and says so in no response (Triton 2.51: the request is answered from whatever that
memory held; 64 of 64 such tables had other bits). Servers run without a pinned pool for that
reason; and what was handed over on the GPU and arrives elsewhere is refused here.
"""

from collections.abc import Mapping
from typing import Any

from torch.utils.dlpack import from_dlpack

from mm_runtime.serving.device import Copier
from mm_runtime.serving.errors import PoolFullError
from mm_runtime.serving.tensor_names import HANDED_OVER_ON_GPU

FEATURES = frozenset({"prompt_embedding_table", "encoder_input_features"})
"""Inputs that may be GPU tensors, and may be bfloat16, which arrays cannot hold."""


class InputReader:
    """Reads tensors of requests; called from the thread that runs `execute`."""

    def __init__(self, copier: Copier) -> None:
        self._copier = copier

    def read(self, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """Return arrays, and tensors of the device for features.

        Raises:
            PoolFullError: features were handed over on the GPU and are in host memory.
        """
        handed = HANDED_OVER_ON_GPU in tensors
        read = {}
        for name, tensor in tensors.items():
            if name in FEATURES:
                if handed and tensor.is_cpu():
                    raise PoolFullError(
                        "the image features of this request did not fit into Triton's CUDA memory "
                        "pool; send it again, and if it fails often raise "
                        "spec.runtime.memoryPools.cuda or lower spec.runtime.maxConcurrency"
                    )
                read[name] = self._copier.copy(from_dlpack(tensor.to_dlpack()))
            elif name != HANDED_OVER_ON_GPU:
                read[name] = tensor.as_numpy()
        return read
