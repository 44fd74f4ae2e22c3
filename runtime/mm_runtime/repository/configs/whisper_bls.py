"""PURE: `whisper_bls`: upstream's model of a family that reads audio, running the ensemble's steps.

Its two inputs and one output are upstream's. Where models may stream, each response repeats the
full text so far, as upstream's does.
"""

from collections.abc import Mapping
from dataclasses import replace

from mm_runtime.repository.configs import ensemble, postprocessing, preprocessing, tensorrt_llm_bls
from mm_runtime.repository.model_config import (
    DataType,
    EnsembleStep,
    ModelConfig,
    optional,
    output,
    tensor,
)
from mm_runtime.repository.values import RepositoryValues

NAME = "whisper_bls"

INPUTS = (
    tensor("TEXT_PREFIX", DataType.STRING, 1),
    tensor("WAV", DataType.FP32, -1),
    optional("WAV_LENS", DataType.INT32, 1),
)
OUTPUTS = (output("TRANSCRIPTS", DataType.STRING, 1),)
_RENAMED = {"text_input": "TEXT_PREFIX", "text_output": "TRANSCRIPTS"}


def steps(values: RepositoryValues) -> tuple[EnsembleStep, ...]:
    """Return the steps of `tensorrt_llm_bls`, with the names that clients of this model know."""
    return tuple(
        replace(step, input_map=_named(step.input_map), output_map=_named(step.output_map))
        if step.model_name in {preprocessing.NAME, postprocessing.NAME}
        else step
        for step in tensorrt_llm_bls.steps(values)
    )


def config(values: RepositoryValues) -> ModelConfig:
    """Return the model's configuration: processes and queue as of `tensorrt_llm_bls`."""
    return tensorrt_llm_bls.pipeline_model(
        values,
        NAME,
        ensemble.known(values, INPUTS),
        OUTPUTS,
        steps(values),
        accumulate_tokens=True,
        always_streams=values.serving.streaming,
    )


def _named(tensors: Mapping[str, str]) -> dict[str, str]:
    return {name: _RENAMED.get(one, one) for name, one in tensors.items()}
