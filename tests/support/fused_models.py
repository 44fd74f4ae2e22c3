"""The tiny model as a decoder with fused weights, whose kernels are plain torch."""

from mm_runtime.reference_engine.checkpoint import Checkpoint
from mm_runtime.reference_engine.language_model import LanguageModel
from support.plain_kernels import PlainKernels
from support.tiny_llava import CHECKPOINT


def fused_model(slots: int, length: int) -> LanguageModel:
    return LanguageModel(
        Checkpoint(
            folder=CHECKPOINT,
            family="llava",
            dtype="float32",
            slots=slots,
            max_length=length,
            kernels=PlainKernels(),
        )
    )
