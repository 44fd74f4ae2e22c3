"""PURE: `token_ensemble`: the ensemble without its last step, for the gateway.

Triton requests every output of a step that the ensemble has a name for, whatever its client wants,
so the gateway's ensemble names new tokens and their number alone: two of ten tensors,
and no step after them. The gateway sees every response of a stream and makes the text itself. Of
TensorRT-LLM's own backend it must, which reports neither which tokens came before a response nor
which response is the last.

It streams whatever `ensemble` does: where models that are open to clients answer once, answers of
the gateway still come as they are made.
"""

from dataclasses import replace

from mm_runtime.repository.configs import ensemble, gateway_inputs
from mm_runtime.repository.configs.tensorrt_llm import REUSED
from mm_runtime.repository.model_config import (
    DataType,
    ModelConfig,
    Output,
    ensemble_model,
    output,
)
from mm_runtime.repository.values import RepositoryValues

NAME = "token_ensemble"
IDS, LENGTH, LOGITS = "output_ids", "sequence_length", "generation_logits"
TOKENS = (output(IDS, DataType.INT32, -1, -1), output(LENGTH, DataType.INT32, -1))
"""New tokens of a response, and how many of them count; a beam each."""

FIRST_LOGITS = output(LOGITS, DataType.FP32, -1, -1, -1)
"""By which the gateway detects the language of audio."""


def outputs(values: RepositoryValues) -> tuple[Output, ...]:
    """Return what the gateway may request; engines of TensorRT-LLM gather no logits."""
    detects = values.accepts_audio and values.own_tensors
    return (*TOKENS, FIRST_LOGITS) if detects else (*TOKENS, *reused(values))


def reused(values: RepositoryValues) -> tuple[Output, ...]:
    """Return the output that says what was known of a prompt, where anything is kept."""
    return () if values.serving.reuse_bytes is None else (REUSED,)


def config(values: RepositoryValues) -> ModelConfig:
    return of(NAME, values, outputs(values))


def of(name: str, values: RepositoryValues, made: tuple[Output, ...]) -> ModelConfig:
    """Return an ensemble of the gateway: some outputs of the language model, and no step after."""
    *steps, _ = ensemble.steps(values)
    *before, language_model = gateway_inputs.connected(tuple(steps), values)
    last = replace(language_model, output_map={one.name: one.name for one in made})
    return ensemble_model(
        name,
        max_batch_size=values.limits.max_batch_size,
        inputs=(
            *gateway_inputs.of_clients(ensemble.inputs(values), values),
            *gateway_inputs.inputs(values),
        ),
        outputs=made,
        steps=(*before, last),
    )
