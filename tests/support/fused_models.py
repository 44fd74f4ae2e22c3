"""The tiny model as a decoder with fused weights, whose kernels are plain torch."""

from mm_runtime.reference_engine.language_model import LanguageModel
from support.engines import tiny_checkpoint
from support.plain_kernels import PlainKernels


def fused_model(slots: int, length: int) -> LanguageModel:
    return LanguageModel(tiny_checkpoint(slots=slots, max_length=length, kernels=PlainKernels()))
