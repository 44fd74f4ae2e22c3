"""PURE: `postprocessing`: token ids -> text."""

from mm_runtime.repository.model_config import (
    DataType,
    ModelConfig,
    dynamic_batching,
    optional,
    output,
    python_model,
    strings,
    tensor,
)
from mm_runtime.repository.values import RepositoryValues

NAME = "postprocessing"

# Ragged: running streams have answers of different lengths. Without it Triton takes their tokens to
# the model one by one, and its batcher spins for as long as one that does not fit waits: a tenth of
# the processor time of sixteen streams on two cores (seen with perf, Triton 2.51).
INPUTS = (
    tensor("TOKENS_BATCH", DataType.INT32, -1, -1, ragged=True),
    tensor("SEQUENCE_LENGTH", DataType.INT32, -1, ragged=True),
    # Not upstream's: what a token adds to a text depends on the tokens before it, and a character
    # may span several responses.
    optional("PREVIOUS_TOKENS", DataType.INT32, -1, -1, ragged=True),
    optional("IS_LAST", DataType.BOOL, 1),
)
OUTPUTS = (output("OUTPUT", DataType.STRING, -1),)


def config(values: RepositoryValues) -> ModelConfig:
    """Return the configuration. Its queue has no bound: it holds answers already paid for."""
    count = values.serving.postprocessing_instance_count
    return python_model(
        NAME,
        max_batch_size=values.limits.max_batch_size,
        inputs=INPUTS,
        outputs=OUTPUTS,
        # A stream's parts may be with different processes at one time.
        batching=dynamic_batching(preserve_ordering=count and count > 1),
        processes=count,
        parameters=values.shared_parameters() | strings(skip_special_tokens=True),
    )
