"""PURE: `token_ensemble`: the ensemble without its last step, for the gateway of a native engine.

TensorRT-LLM's own backend says neither which tokens came before a response nor which response is
the last, and what a token adds to a text depends on both. An ensemble's last step sees each
response alone, so its streams lose spaces and characters of several tokens. The gateway sees
every response of a stream and makes the text itself.
"""

from dataclasses import replace

from mm_runtime.repository.configs import ensemble
from mm_runtime.repository.model_config import DataType, ModelConfig, ensemble_model, output
from mm_runtime.repository.values import RepositoryValues

NAME = "token_ensemble"
IDS, LENGTH = "output_ids", "sequence_length"
OUTPUTS = (output(IDS, DataType.INT32, -1, -1), output(LENGTH, DataType.INT32, -1))
"""New tokens of a response, and how many of them count; a beam each."""


def config(values: RepositoryValues) -> ModelConfig:
    """Return the ensemble's configuration."""
    *before, language_model, _ = ensemble.steps(values)
    last = replace(language_model, output_map={one.name: one.name for one in OUTPUTS})
    return ensemble_model(
        NAME,
        max_batch_size=values.max_batch_size,
        inputs=ensemble.inputs(values),
        outputs=OUTPUTS,
        steps=(*before, last),
    )
