"""PURE: `whisper_bls`: upstream's model of a family that reads audio, running the ensemble's steps.

Its two inputs and one output are upstream's. Where models may stream, each response repeats the
full text so far, as upstream's does.
"""

from mm_runtime.repository.configs import ensemble, tensorrt_llm_bls
from mm_runtime.repository.model_config import DataType, ModelConfig, optional, output, tensor
from mm_runtime.repository.values import RepositoryValues

NAME = "whisper_bls"

INPUTS = (
    tensor("TEXT_PREFIX", DataType.STRING, 1),
    tensor("WAV", DataType.FP32, -1),
    optional("WAV_LENS", DataType.INT32, 1),
)
OUTPUTS = (output("TRANSCRIPTS", DataType.STRING, 1),)


def config(values: RepositoryValues) -> ModelConfig:
    """Return the model's configuration: processes, queue and steps as of `tensorrt_llm_bls`."""
    return tensorrt_llm_bls.pipeline_model(
        values,
        NAME,
        ensemble.known(values, INPUTS),
        OUTPUTS,
        names={"TEXT_PREFIX": "text_input", "TRANSCRIPTS": "text_output"},
        defaults={"stream": True} if values.serving.streaming else {},
        accumulate_tokens=True,
    )
