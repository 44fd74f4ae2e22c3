"""Fields whose behaviour this version does not have yet, in ONE table.

The generator turns it into CEL rules of the CRD, so that the API server refuses them. A change
that gives a field its behaviour deletes its row here.
"""

from dataclasses import dataclass
from typing import Final

from mm_api.backends import BACKENDS
from mm_api.families import FAMILIES

Scalar = str | int | bool


@dataclass(frozen=True, slots=True)
class Unsupported:
    """One field that must keep one of a few values.

    Attributes:
        path: the field below `spec`, by its names on the wire.
        allowed: values that work; empty means that the field must be absent or empty.
        what: what a user would have wanted from another value.
        instead: what to do now.
        backends: backends without the behaviour; empty means all of them.
        without_gpu: only where `runtime.gpu.count` is 0.
    """

    path: str
    allowed: tuple[Scalar, ...]
    what: str
    instead: str
    backends: tuple[str, ...] = ()
    without_gpu: bool = False

    @property
    def message(self) -> str:
        """Return the sentence a user reads."""
        where = f" with backend {' or '.join(self.backends)}" if self.backends else ""
        where += " without GPUs" if self.without_gpu else ""
        return f"{self.what} not supported{where} in this version: {self.instead}"


_REMOVE: Final = "remove the field"
_REFERENCE: Final = ("Reference",)
_PYTORCH: Final = ("PyTorch",)
_VLLM: Final = ("VLLM",)
_SERVERS: Final = (*_PYTORCH, *_VLLM)
"""Run encoder and language model in one process."""

_OTHERS: Final = tuple(name for name in BACKENDS if name not in _VLLM)

_OWN_PROCESS: Final = "an encoder in a process of its own on a GPU is"
UNSUPPORTED: Final[tuple[Unsupported, ...]] = (
    *(
        Unsupported(
            "model.family",
            tuple(name for name in FAMILIES if name != family.name),
            f"{family.unserved.what} ({family.name}) is",
            f"set engine.backend to {' or '.join(reversed(family.backends))}",
            backends=_REFERENCE,
        )
        for family in FAMILIES.values()
        if family.unserved and not family.is_served("Reference")
    ),
    Unsupported(
        "engine.parallelism.tensor",
        (1,),
        "tensor parallelism is",
        "set engine.parallelism.tensor to 1",
        backends=_REFERENCE,
    ),
    Unsupported(
        "engine.parallelism.pipeline",
        (1,),
        "pipeline parallelism is",
        "set engine.parallelism.pipeline to 1",
        backends=_REFERENCE,
    ),
    Unsupported(
        "engine.parallelism.expert",
        (1,),
        "expert parallelism is",
        "set engine.parallelism.expert to 1, or use backend PyTorch",
        backends=(*_REFERENCE, "TensorRT", "VLLM"),
    ),
    Unsupported("engine.quantization", (), "quantization is", _REMOVE, backends=_REFERENCE),
    Unsupported(
        "engine.quantization",
        (),
        "quantizing a checkpoint is",
        "remove the field: checkpoints that are quantized already are served as they are",
        backends=(*_VLLM, "PyTorch"),
    ),
    Unsupported(
        "engine.kvCache.freeGpuMemoryFraction",
        ("Auto",),
        "a KV cache in GPU memory is",
        "set engine.kvCache.freeGpuMemoryFraction to Auto",
        backends=_REFERENCE,
    ),
    Unsupported(
        "engine.kvCache.crossFraction",
        (),
        "a share of the KV cache for the encoder is",
        _REMOVE,
        backends=(*_REFERENCE, *_VLLM),
    ),
    Unsupported(
        "engine.kvCache.reuseBytes",
        (),
        "memory of its own for earlier requests (they stay in the KV cache) is",
        _REMOVE,
        backends=("TensorRT", *_SERVERS),
    ),
    *(
        Unsupported(path, (), what, _REMOVE, backends=(*_REFERENCE, *_VLLM))
        for path, what in (
            ("engine.plugins", "settings of TensorRT-LLM plugins are"),
            ("engine.extraBuildArgs", "arguments of trtllm-build are"),
            ("build.trtllmVersion", "a version of TensorRT-LLM is"),
        )
    ),
    Unsupported(
        "engine.extraArgs",
        (),
        "arguments of `vllm serve` are",
        "remove the field, or use backend VLLM",
        backends=_OTHERS,
    ),
    Unsupported(
        "runtime.vllmVersion",
        (),
        "a version of vLLM is",
        "remove the field, or use backend VLLM",
        backends=_OTHERS,
    ),
    Unsupported(
        "engine.maxBeamWidth",
        (1,),
        "beam search is",
        "set engine.maxBeamWidth to 1",
        backends=_VLLM,
    ),
    Unsupported(
        "engine.guidedDecoding",
        ("Auto",),
        "switching answers of a form on or off is",
        "set engine.guidedDecoding to Auto: vLLM keeps answers to a form by itself",
        backends=_VLLM,
    ),
    Unsupported(
        "vision.maxBatchSize",
        (),
        "a batch of images is",
        "remove the field: vLLM encodes as many images as fill a step (engine.maxNumTokens)",
        backends=_VLLM,
    ),
    *(
        Unsupported(path, allowed, "Triton is", "remove the field: vLLM answers", backends=_VLLM)
        for path, allowed in (
            ("runtime.memoryPools.cuda", ("Auto",)),
            ("runtime.memoryPools.pinned", ("Auto",)),
            ("runtime.streaming", (True,)),
            ("runtime.accumulateTokens", (False,)),
            ("runtime.blsInstances", ()),
        )
    ),
    Unsupported(
        "engine.extraLlmApiOptions",
        (),
        "options of trtllm-serve are",
        "remove the field, or use backend PyTorch",
        backends=(*_REFERENCE, "TensorRT", "VLLM"),
    ),
    Unsupported(
        "vision.engine",
        ("ONNXRuntime", "Torch"),
        "a vision engine of TensorRT is",
        "set runtime.gpu.count to 1, or vision.engine to ONNXRuntime",
        backends=_REFERENCE,
        without_gpu=True,
    ),
    Unsupported(
        "vision.engine",
        ("ONNXRuntime",),
        "another vision engine than TensorRT-LLM's own is",
        _REMOVE,
        backends=("TensorRT", *_PYTORCH),
    ),
    Unsupported(
        "vision.engine",
        ("ONNXRuntime", "Torch"),
        "a vision engine of TensorRT is",
        "remove the field, or set it to Torch with vision.placement Disaggregated",
        backends=_VLLM,
    ),
    Unsupported(
        "runtime.gpu.count",
        (0, 1),
        "serving on several GPUs is",
        "set runtime.gpu.count to 1, or to 0 for the processor",
        backends=_REFERENCE,
    ),
    *(
        Unsupported(
            f"runtime.gpu.{name}",
            (),
            "planning for a GPU is",
            "set runtime.gpu.count to 1, or remove the field",
            backends=_REFERENCE,
            without_gpu=True,
        )
        for name in (
            "memory",
            "computeCapability",
            "resourceName",
            "deviceClassName",
            "deviceSelectors",
        )
    ),
    *(
        Unsupported(f"build.gpu.{name}", (), "building on a GPU is", _REMOVE, backends=_REFERENCE)
        for name in ("memory", "computeCapability", "resourceName")
    ),
    Unsupported(
        "engine.guidedDecoding",
        ("Auto",),
        "TensorRT-LLM's guided decoding is",
        "set engine.guidedDecoding to Auto: the Reference engine keeps answers to a form itself",
        backends=_REFERENCE,
    ),
    *(
        row
        for backends, without_gpu in ((_REFERENCE, True), (_SERVERS, False))
        for row in (
            Unsupported(
                "vision.sharing",
                ("Auto",),
                _OWN_PROCESS,
                "set vision.sharing to Auto",
                backends=backends,
                without_gpu=without_gpu,
            ),
            Unsupported(
                "vision.threadPercentage",
                (),
                _OWN_PROCESS,
                _REMOVE,
                backends=backends,
                without_gpu=without_gpu,
            ),
        )
    ),
    Unsupported(
        "vision.placement",
        ("Colocated",),
        "a vision encoder in pods of its own is",
        "set vision.placement to Colocated: the server encodes images itself",
        backends=_PYTORCH,
    ),
    Unsupported(
        "runtime.triton.expose",
        (False,),
        "Triton's own ports are",
        "set runtime.triton.expose to false: another server answers, and no Triton runs",
        backends=_SERVERS,
    ),
    *(
        Unsupported(f"runtime.triton.{name}", (), "Triton is", _REMOVE, backends=_SERVERS)
        for name in (
            "maxQueueDelayMicroseconds",
            "preprocessingInstanceCount",
            "postprocessingInstanceCount",
        )
    ),
    Unsupported(
        "rollout.strategy",
        ("Rolling", "Recreate"),
        "canary rollouts are",
        "set rollout.strategy to Rolling or Recreate",
    ),
)
