"""Fields whose behaviour this version does not have yet, in ONE table.

The generator turns it into CEL rules of the CRD, so that the API server refuses them. A change
that gives a field its behaviour deletes its row here.
"""

import json
from dataclasses import dataclass
from typing import Final

from mm_api.backends import BACKENDS
from mm_api.families import FAMILIES

Scalar = str | int | bool


@dataclass(frozen=True, slots=True)
class Unsupported:
    """One field, by its path below `spec`, that must keep one of a few values.

    `allowed`: empty: the field must be absent or empty. `what`: what a user would have wanted from
    another value; `instead`: what to do now. `backends`: those without the behaviour; empty: all.
    `without_gpu`: only where `runtime.gpu.count` is 0.
    """

    path: str
    allowed: tuple[Scalar, ...]
    what: str
    instead: str
    backends: tuple[str, ...] = ()
    without_gpu: bool = False

    @property
    def message(self) -> str:
        where = f" with backend {' or '.join(self.backends)}" if self.backends else ""
        where += " without GPUs" if self.without_gpu else ""
        return f"{self.what} not supported{where} in this version: {self.instead}"


_QUOTE: Final = '"'
_REMOVE: Final = "remove the field"
_REFERENCE: Final = ("Reference",)
_TENSORRT: Final = ("TensorRT",)
_PYTORCH: Final = ("PyTorch",)
_VLLM: Final = ("VLLM",)
_SERVERS: Final = (*_PYTORCH, *_VLLM)
"""Run encoder and language model in one process."""

_OTHERS: Final = tuple(name for name in BACKENDS if name not in _VLLM)


def _row(
    backends: tuple[str, ...],
    path: str,
    what: str,
    *allowed: Scalar,
    instead: str = "",
    more: str = "",
    without_gpu: bool = False,
) -> Unsupported:
    # Usual is the one allowed value, or no field; `more` follows.
    usual = f"set {path} to {json.dumps(allowed[0]).strip(_QUOTE)}" if allowed else _REMOVE
    return Unsupported(path, allowed, what, (instead or usual) + more, backends, without_gpu)


UNSUPPORTED: Final[tuple[Unsupported, ...]] = (
    *(
        _row(
            _REFERENCE,
            "model.family",
            f"a model of this family ({family.name}) is",
            *(name for name in FAMILIES if name != family.name),
            instead=f"set engine.backend to {' or '.join(reversed(family.backends))}",
        )
        for family in FAMILIES.values()
        if not family.on_reference
    ),
    _row(_REFERENCE, "engine.parallelism.tensor", "tensor parallelism is", 1),
    _row(_REFERENCE, "engine.parallelism.pipeline", "pipeline parallelism is", 1),
    _row(
        (*_REFERENCE, *_TENSORRT, *_VLLM),
        "engine.parallelism.expert",
        "expert parallelism is",
        1,
        more=", or use backend PyTorch",
    ),
    _row(
        _OTHERS,
        "engine.parallelism.nodes",
        "a replica on several nodes is",
        1,
        more=", or use backend VLLM",
    ),
    _row(_REFERENCE, "engine.quantization", "quantization is"),
    _row(
        (*_VLLM, *_PYTORCH),
        "engine.quantization",
        "quantizing a checkpoint is",
        more=": checkpoints that are quantized already are served as they are",
    ),
    _row(_REFERENCE, "engine.kvCache.freeGpuMemoryFraction", "a KV cache in GPU memory is", "Auto"),
    _row(
        (*_REFERENCE, *_VLLM),
        "engine.kvCache.crossFraction",
        "a share of the KV cache for the encoder is",
    ),
    *(
        _row((*_REFERENCE, *_VLLM), path, what)
        for path, what in (
            ("engine.plugins", "settings of TensorRT-LLM plugins are"),
            ("engine.extraBuildArgs", "arguments of trtllm-build are"),
            ("build.trtllmVersion", "a version of TensorRT-LLM is"),
        )
    ),
    *(
        _row(_OTHERS, path, what, more=", or use backend VLLM")
        for path, what in (
            ("engine.extraArgs", "arguments of `vllm serve` are"),
            ("runtime.vllmVersion", "a version of vLLM is"),
        )
    ),
    _row((*_REFERENCE, *_VLLM), "engine.maxBeamWidth", "beam search is", 1),
    _row(
        _VLLM,
        "engine.guidedDecoding",
        "switching answers of a form on or off is",
        "Auto",
        more=": vLLM keeps answers to a form by itself",
    ),
    _row(
        _VLLM,
        "vision.maxBatchSize",
        "a batch of images is",
        more=": vLLM encodes as many images as fill a step (engine.maxNumTokens)",
    ),
    *(
        _row(_VLLM, path, "Triton is", *allowed, instead=_REMOVE, more=": vLLM answers")
        for path, *allowed in (
            ("runtime.memoryPools.cuda", "Auto"),
            ("runtime.memoryPools.pinned", "Auto"),
            ("runtime.streaming", True),
            ("runtime.accumulateTokens", False),
            ("runtime.blsInstances",),
        )
    ),
    _row(
        (*_REFERENCE, *_TENSORRT, *_VLLM),
        "engine.extraLlmApiOptions",
        "options of trtllm-serve are",
        more=", or use backend PyTorch",
    ),
    _row(
        _REFERENCE,
        "vision.engine",
        "a vision engine of TensorRT is",
        *("ONNXRuntime", "Torch"),
        instead="set runtime.gpu.count to 1, or vision.engine to ONNXRuntime",
        without_gpu=True,
    ),
    _row(
        (*_TENSORRT, *_PYTORCH),
        "vision.engine",
        "another vision engine than TensorRT-LLM's own is",
        "ONNXRuntime",
        instead=_REMOVE,
    ),
    _row(
        _VLLM,
        "vision.engine",
        "a vision engine of TensorRT is",
        *("ONNXRuntime", "Torch"),
        instead="remove the field, or set it to Torch with vision.placement Disaggregated",
    ),
    _row(
        _REFERENCE,
        "runtime.gpu.count",
        "serving on several GPUs is",
        *(0, 1),
        instead="set runtime.gpu.count to 1, or to 0 for the processor",
    ),
    *(
        _row(
            _REFERENCE,
            f"runtime.gpu.{name}",
            "planning for a GPU is",
            instead="set runtime.gpu.count to 1, or remove the field",
            without_gpu=True,
        )
        for name in (
            *("memory", "computeCapability", "resourceName"),
            *("deviceClassName", "deviceSelectors"),
        )
    ),
    *(
        _row(_REFERENCE, f"build.gpu.{name}", "building on a GPU is")
        for name in ("memory", "computeCapability", "resourceName")
    ),
    _row(
        _REFERENCE,
        "engine.guidedDecoding",
        "TensorRT-LLM's guided decoding is",
        "Auto",
        more=": the Reference engine keeps answers to a form itself",
    ),
    *(
        _row(
            backends,
            path,
            "an encoder in a process of its own on a GPU is",
            *allowed,
            without_gpu=backends == _REFERENCE,
        )
        for backends in (_REFERENCE, _SERVERS)
        for path, *allowed in (("vision.sharing", "Auto"), ("vision.threadPercentage",))
    ),
    _row(
        _PYTORCH,
        "vision.placement",
        "a vision encoder in pods of its own is",
        "Colocated",
        more=": the server encodes images itself",
    ),
    _row(
        _TENSORRT,
        "vision.gpu",
        "hardware of the encoders' own is",
        more=": TensorRT's engines run on the GPU product that built them",
    ),
    _row(
        _REFERENCE,
        "vision.gpu",
        "hardware of the encoders' own is",
        instead="set runtime.gpu.count to 1, or remove the field",
        without_gpu=True,
    ),
    _row(
        _VLLM,
        "runtime.triton.expose",
        "Triton's own ports are",
        False,  # noqa: FBT003  # the value of a field
        more=": another server answers, and no Triton runs",
    ),
    _row(
        (*_REFERENCE, *_SERVERS),
        "runtime.triton.enableChunkedContext",
        "TensorRT-LLM's chunked context is",
    ),
    *(
        _row(_SERVERS, f"runtime.triton.{name}", "Triton is")
        for name in (
            "maxQueueDelayMicroseconds",
            "preprocessingInstanceCount",
            "postprocessingInstanceCount",
        )
    ),
)
