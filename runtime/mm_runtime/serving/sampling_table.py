"""Parameters of sampling, one row each, and how requests to models and servers spell them.

Configurations of the repository, tensors and bodies of the gateway and the reader of `tensorrt_llm`
follow from the rows. CONTRIBUTING.md names the other places of a parameter.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Literal

Type = Literal["FP32", "INT32", "UINT64"]


@dataclass(frozen=True, slots=True)
class SamplingParameter:
    """One parameter."""

    name: str
    """Field of what samples, and input of the ensembles."""

    type: Type
    tensor: str = ""
    """Input of `tensorrt_llm`; empty: it has the same name."""

    older: str = ""
    """Both inputs before the newer names of TensorRT-LLM; empty: those are the same."""

    allowed: tuple[Callable[[float], bool], str] = (lambda _: True, "any number")
    """Whether a value is, and the sentence of a refusal."""

    drawn: bool = False
    """It means nothing where the likeliest token is taken."""

    unset_at_zero: bool = False
    own: bool = False
    """Only the Reference engine has it: clients of Triton's own ensembles do not send it."""

    of_beams: bool = False
    """A search of beams reads it."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Inputs of the ensembles, the newer name last."""
        return (*filter(None, (self.older,)), self.name)

    @property
    def tensors(self) -> Mapping[str, str]:
        """Input of `tensorrt_llm` -> input of the ensembles."""
        return {one: one for one in self.inputs[:-1]} | {self.tensor or self.name: self.name}


def _within(least: float, most: float, sentence: str) -> tuple[Callable[[float], bool], str]:
    return lambda value: least <= value <= most, sentence


_COUNT = _within(0, inf, "0 (not set) or more")
_SHARE = _within(0, 1, "0 (not set) to 1")
_LEAST = _within(0, inf, "at least 0")
_FACTOR = (lambda value: value > 0, "more than 0")

SAMPLING = (
    SamplingParameter(
        "top_k", "INT32", "runtime_top_k", allowed=_COUNT, drawn=True, unset_at_zero=True
    ),
    SamplingParameter("top_p", "FP32", "runtime_top_p", allowed=_SHARE, drawn=True),
    SamplingParameter("temperature", "FP32", allowed=_LEAST, drawn=True),
    SamplingParameter("length_penalty", "FP32", "len_penalty", of_beams=True),
    SamplingParameter("repetition_penalty", "FP32", allowed=_FACTOR),
    SamplingParameter(
        "min_tokens", "INT32", older="min_length", allowed=_LEAST, unset_at_zero=True
    ),
    SamplingParameter("presence_penalty", "FP32"),
    SamplingParameter("frequency_penalty", "FP32"),
    SamplingParameter("seed", "UINT64", older="random_seed", drawn=True),
    SamplingParameter("min_p", "FP32", allowed=_SHARE, drawn=True, unset_at_zero=True, own=True),
)

OF_CLIENTS = tuple(one for one in SAMPLING if not one.own)
OWN = tuple(one for one in SAMPLING if one.own)
OF_TOKENS = tuple(one for one in SAMPLING if not one.of_beams)
RENAMED = {one.older: one.name for one in SAMPLING if one.older}
"""Older name -> newer name. The Reference engine takes both."""
