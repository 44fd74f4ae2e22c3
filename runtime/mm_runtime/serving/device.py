"""The device that torch computes on: the processor, or one GPU through CUDA.

`cuda_calls`, `captures`, `staging` and the runner of TensorRT's engines name CUDA, too. All import
torch, so models that compute without torch import them only where their plan says CUDA.
"""

import shutil
import subprocess
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mm_api.documents.serving_plan import Device, ServingPlan
from mm_runtime.serving.errors import is_out_of_memory
from mm_runtime.serving.tensors import BFLOAT16_BITS

# Messages are read only, as are Triton's inputs; no tensor that shares their memory is written to.
warnings.filterwarnings("ignore", "The given NumPy array is not writable", UserWarning)

CPU = torch.device("cpu")

QUERY_SECONDS = 10.0
"""For `nvidia-smi`, which takes a second where its driver is not kept loaded."""


def open_device(name: Device) -> torch.device:
    """Return the device that a serving plan names, ready to compute.

    Raises:
        GpuUnusableError: the plan says CUDA and torch finds no GPU here.
    """
    if name == "CPU":
        return CPU
    why = why_unusable()
    if why:
        raise GpuUnusableError(
            f"the serving plan says device {name}, and this process cannot use a GPU: {why}. "
            "To serve on the processor, set spec.runtime.gpu.count to 0"
        )
    # Decoding has another key length at each step, and cuDNN plans each length again: a step took
    # 67 to 115 ms with it, 19.8 ms without (H100, torch 2.11, 1.3 billion parameters).
    torch.backends.cuda.enable_cudnn_sdp(enabled=False)
    # Convolutions of float32 would be rounded to 10 bits of mantissa (TF32).
    torch.backends.cudnn.allow_tf32 = False
    return torch.device("cuda", 0)


class GpuUnusableError(ValueError):
    """No GPU can be used by this process; the message says why, and what to change."""


def why_unusable() -> str:
    """Return why torch cannot use a GPU in this process; empty: it can.

    Raises:
        RuntimeError: it has no memory left for this process.
    """
    built = f"torch {torch.__version__}"
    if torch.version.cuda is None:
        return f"{built} is built without CUDA; use an image with a build for CUDA"
    initialize: Any = torch.cuda.init
    try:
        initialize()
        if torch.cuda.device_count() == 0:
            return "CUDA finds none; the pod has no GPU, or the node's driver has lost it"
        torch.cuda.synchronize(0)
    except (RuntimeError, AssertionError) as error:
        if is_out_of_memory(error):
            raise  # the GPU is there, and full
        said = " ".join(str(error).split())
        return (
            f"{said} ({built} is built for CUDA {torch.version.cuda}; the node's driver must "
            "support that, else use an image with an older CUDA)"
        )
    return ""


def compute_capability() -> str:
    """Return that of the GPU, for example 9.0; empty: torch cannot use one."""
    return "" if why_unusable() else ".".join(map(str, torch.cuda.get_device_capability(0)))


def still_computes() -> bool:
    """Return whether the GPU still computes for this process; one without CUDA has none to lose.

    After an illegal access, an error of its memory or its loss, CUDA fails every call of the
    process from then on; where it only has no memory left, it does not.
    """
    try:
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.synchronize(0)
    except RuntimeError:
        return False
    return True


def memory_left() -> str:
    """Return how much memory the GPU has left, as part of a sentence."""
    try:
        free, total = torch.cuda.mem_get_info(0)
    except RuntimeError:
        return f"{_free_by_driver()} bytes are free, too little for a process to begin with"
    held = torch.cuda.memory_reserved(0)
    return f"{free:,} of {total:,} bytes are free, and this process holds {held:,}"


def _free_by_driver() -> str:
    """Return the free bytes of the first GPU, for a process that has no memory to query them."""
    program = shutil.which("nvidia-smi")
    query = ["--query-gpu=memory.free", "--format=csv,noheader,nounits", "--id=0"]
    try:
        said = subprocess.run(
            [program or "nvidia-smi", *query],
            capture_output=True,
            text=True,
            timeout=QUERY_SECONDS,
            check=True,
        ).stdout
        return f"{int(said) << 20:,}"
    except (OSError, ValueError, subprocess.SubprocessError):
        return "an unknown number of"


def release_unused(device: torch.device) -> None:
    """Give memory back to the driver that torch holds and does not use."""
    if is_gpu(device):
        torch.cuda.empty_cache()


def device_of(plan: ServingPlan) -> torch.device:
    return open_device(plan.device)


def is_gpu(device: torch.device) -> bool:
    return device.type != CPU.type


def new_stream(device: torch.device) -> Any:
    """Return a stream of a GPU; None: the processor has none."""
    stream: Any = torch.cuda.Stream
    return stream(device) if is_gpu(device) else None


def wait_for(device: torch.device) -> None:
    """Return when everything that was started on the device is done; at once for the processor."""
    if is_gpu(device):
        torch.cuda.synchronize(device)


def as_tensor(
    values: NDArray[Any] | torch.Tensor,
    device: torch.device,
    dtype: torch.dtype | None = None,
    *,
    copy: bool = False,
) -> torch.Tensor:
    """Return an array or a tensor as a tensor of a device; an array may hold `BFLOAT16_BITS`.

    `dtype`: None keeps it. `copy`: share no memory with an array, even where device and dtype are
    its own.
    """
    if not isinstance(values, torch.Tensor):
        values = _of_array(values.copy() if copy else np.ascontiguousarray(values))
    return values.to(device=device, dtype=dtype)


def _of_array(array: NDArray[Any]) -> torch.Tensor:
    if array.dtype != BFLOAT16_BITS:
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)


def sent(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return a tensor of the processor on a device; what the device computes is not waited for.

    From memory that is not pinned a copy waits for everything that was started before.
    """
    if not is_gpu(device):
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True)


def to_host(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor in memory of the processor.

    From a GPU in pinned memory, which torch keeps for the next one: into other memory the driver
    copies twice, and large pieces are new pages each time.
    """
    if not is_gpu(tensor.device):
        return tensor
    return torch.empty_like(tensor, device=CPU, pin_memory=True).copy_(tensor)


def fetching(tensor: torch.Tensor) -> Callable[[], list[Any]]:
    """Begin to copy a tensor to the processor; return what waits for that and returns its values.

    What the device is given after this call is not waited for.
    """
    if not is_gpu(tensor.device):
        return tensor.tolist
    values = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    values.copy_(tensor, non_blocking=True)
    new_event: Any = torch.cuda.Event
    copied = new_event()
    copied.record()

    def fetched() -> list[Any]:
        copied.synchronize()
        return values.tolist()

    return fetched


def copier_of(device: torch.device) -> "Copier | None":
    """Return what copies tensors to a GPU; None: those of the processor are read where they are."""
    return Copier(device) if is_gpu(device) else None


class Copier:
    """Copies tensors of others to a device, on a stream of its own, and waits for the copy alone.

    Waiting for the device instead would wait for the step that the engine computes meanwhile.
    Called from one thread.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = new_stream(device)

    def copy(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a copy of which nothing is shared; complete on return."""
        if self._stream is None:
            return tensor.to(self._device, copy=True)
        with torch.cuda.stream(self._stream):
            copied = tensor.to(self._device, copy=True)
        self._stream.synchronize()
        # Memory of this stream that another one reads: its end frees it only after that reading.
        copied.record_stream(torch.cuda.default_stream(self._device))
        return copied
