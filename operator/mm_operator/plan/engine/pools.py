"""Triton's memory pools and the shared memory of its Python backends, in bytes.

One encoder output stays resident from encoding to the end of generation. Measured on an H200: a
pool below about (requests in flight + 1) outputs fails requests, an empty one kills the server, and
the server warns once only. So the pool is computed for the requests that the gateway lets in.
"""

from dataclasses import dataclass

from mm_api.documents.model_plan import PoolPlan, ServingLimits

MIB = 1 << 20
CUDA_ROUNDING_BYTES = 512
"""Triton's allocator rounds the pool and every allocation up to this."""

CUDA_MINIMUM_BYTES = 64 * MIB
"""Triton's own default: never plan below it."""

PINNED_DEFAULT_BYTES = 256 * MIB
"""Triton's own default; outputs that miss the CUDA pool land here."""

_ENSEMBLE_COPIES = 1
"""An ensemble keeps one copy of an output; `tensorrt_llm_bls` asks for outputs in host memory, so
it keeps none in the pool."""

_SHM_STUBS = 4
"""Python models of the repository, each with regions of its own."""

_SHM_STUB_BYTES = 16 * MIB
"""A stub starts with 1 MiB and grows with texts and tokens; it never shrinks."""

BLS_INSTANCES = 1
"""Processes of `tensorrt_llm_bls` unless the spec says how many: each starts in 0.3 s of a core and
holds 28 MB, while most clients use the gateway, which needs none."""

_SHM_MINIMUM_BYTES = 256 * MIB
"""Lets a client of Triton itself send a raw picture of about 40 million pixels."""

_PIXEL_COPIES = 2
"""Pixels lie in the region of the model that made them and of the model that reads them."""

_FLOAT32_BYTES = 4
_CHANNELS = 3


@dataclass(frozen=True, slots=True)
class Traffic:
    """How many requests may be past the encoder at one time."""

    gateway_cap: int
    max_batch_size: int
    max_queue_size: int
    """Requests that wait inside the language model; 0 means without bound."""
    triton_max_batch_size: int
    chains: int = 0
    """Requests that models in one process each serve at one time; each has a region of its own."""

    @property
    def live_requests(self) -> int:
        """Return N: requests whose encoder output is resident, the batch in the making included."""
        bound = self.gateway_cap
        if self.max_queue_size:
            bound = min(bound, self.max_batch_size + self.max_queue_size)
        return bound + self.triton_max_batch_size


def bls_instances(asked: int | None) -> int:
    """Return the processes of `tensorrt_llm_bls`: as asked, or one."""
    return BLS_INSTANCES if asked is None else asked


def chains(asked: int | None, *, streaming: bool) -> int:
    """Return the processes that each run one request's steps, of all models.

    Where nobody streams, `ensemble` has as many as `tensorrt_llm_bls`.
    """
    return bls_instances(asked) * (1 if streaming else 2)


def ceil_to(value: int, unit: int) -> int:
    """Return `value` rounded up to a multiple of `unit`."""
    return -(-value // unit) * unit


def cuda_pool_bytes(*, output_bytes: int, traffic: Traffic, factor: float) -> int:
    """Return the CUDA pool: ceil512(k * N * S * f) + 1 MiB, never below 64 MiB."""
    resident = int(_ENSEMBLE_COPIES * traffic.live_requests * output_bytes * factor)
    return max(ceil_to(resident, CUDA_ROUNDING_BYTES) + MIB, CUDA_MINIMUM_BYTES)


def larger_pool_bytes(present: int, pool: PoolPlan, serving: ServingLimits) -> int:
    """Return a CUDA pool that would do where one of `present` bytes was full.

    Clients that pass the gateway by are kept by Triton's own queue alone: where room for those is
    more than there is, it is that; else twice what there is, because no limit says more.
    """
    if not serving.triton_queue_size:
        return 2 * present
    inside = serving.triton_queue_size + 2 * serving.triton_max_batch_size
    resident = int(pool.copies * inside * pool.table_bytes_per_request * pool.factor)
    needed = ceil_to(resident, CUDA_ROUNDING_BYTES) + MIB
    return needed if needed > present else 2 * present


def shm_bytes(*, images: int, image_size: int, output_bytes: int, traffic: Traffic) -> int:
    """Return the size limit of /dev/shm.

    Regions grow to their peak and stay there: per live request the pixels, raw (uint8) and
    normalised (counted as float32), in two regions each, and the encoder output.
    """
    pixels = images * image_size * image_size * _CHANNELS
    request = _PIXEL_COPIES * pixels * (1 + _FLOAT32_BYTES) + output_bytes
    stubs = _SHM_STUBS + traffic.chains
    needed = stubs * _SHM_STUB_BYTES + (traffic.live_requests + traffic.chains) * request
    return max(ceil_to(needed, MIB), _SHM_MINIMUM_BYTES)
