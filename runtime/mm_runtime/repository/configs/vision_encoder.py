"""PURE: `vision_encoder`: what `multimodal_encoders` does, for servers in other pods.

Both sides name the vision engine that they mean: an address may belong to another model's pod, or
to one of a former revision.
"""

from mm_runtime.repository.configs import multimodal_encoders
from mm_runtime.repository.configs.scheduling import batching
from mm_runtime.repository.model_config import (
    DataType,
    ModelConfig,
    optional,
    output,
    python_model,
    tensor,
)
from mm_runtime.repository.values import RepositoryValues
from mm_runtime.serving.tensor_names import BYTES_TO_ENCODE

NAME = "vision_encoder"


def config(values: RepositoryValues) -> ModelConfig:
    """Return the model's configuration."""
    prompt_type = values.host_table_type if values.own_tensors else values.prompt_type
    # Half of the values' bytes. Servers of versions that send none send values.
    as_bytes = (optional(BYTES_TO_ENCODE, DataType.UINT8, -1, -1, -1, -1),)
    return python_model(
        NAME,
        max_batch_size=values.limits.max_batch_size,
        inputs=(
            *multimodal_encoders.INPUTS,
            *(as_bytes if values.pixel_bytes else ()),
            tensor("expected_identity", DataType.STRING, 1),
        ),
        outputs=(
            *multimodal_encoders.outputs(values.host_table_type, prompt_type),
            output("VISION_IDENTITY", DataType.STRING, 1),
        ),
        batching=batching(values),
        # Nothing else uses this pod's GPU, so no share of its threads is set.
        parameters={
            name: value
            for name, value in multimodal_encoders.parameters(values).items()
            if name != "mps_thread_percentage"
        },
    )
