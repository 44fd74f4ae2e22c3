"""PURE: `multimodal_encoders`: pixel values -> prompt embedding table."""

from mm_runtime.repository.configs.scheduling import batching
from mm_runtime.repository.model_config import (
    DataType,
    ModelConfig,
    Output,
    Parameter,
    optional,
    output,
    python_model,
    strings,
)
from mm_runtime.repository.values import RepositoryValues
from mm_runtime.serving.tensor_names import BYTES_TO_ENCODE, HOST_FEATURES, MADE_ON_GPU

NAME = "multimodal_encoders"

INPUTS = (
    optional("IMAGE", DataType.FP16, -1, -1, -1, -1),
    optional("pixel_values", DataType.FP16, -1, -1, -1, -1),
    optional("aspect_ratio_ids", DataType.INT64, -1),
    optional("aspect_ratio_mask", DataType.INT64, -1, -1),
    optional("cross_attention_mask", DataType.INT64, -1, -1, -1),
    optional("max_tokens", DataType.INT32, 1),
    optional("image_sizes", DataType.INT64, -1),  # two numbers an image; upstream: one image
    optional("is_video_input", DataType.BOOL, 1),
    optional("attention_mask", DataType.INT64, -1),
    optional("image_grid_thw", DataType.INT64, -1),  # three numbers an image
    optional("second_per_grid_ts", DataType.FP32, -1),  # not upstream's: of each grid
    optional("vision_input_id", DataType.INT32, -1),
    optional("cache_salt", DataType.STRING, 1),  # not upstream's
)


def outputs(table_type: DataType, prompt_type: DataType) -> tuple[Output, ...]:
    """Return what the language model takes of images, in its own type."""
    lengths = output("ENCODER_OUTPUT_LENGTHS", DataType.INT32, 1)
    lengths.reshape.SetInParent()  # one value a request: the model sees [batch]
    return (
        output("OUT_PROMPT_EMBEDDING_TABLE", prompt_type, -1, -1),
        output("OUT_PROMPT_VOCAB_SIZE", DataType.INT32, 1),
        output("ENCODER_INPUT_FEATURES", table_type, -1, -1),
        lengths,
        output("CROSS_ATTENTION_MASK", DataType.BOOL, -1, -1),
        output("SKIP_CROSS_ATTN_BLOCKS", DataType.BOOL, 1),
        output("MROPE_ROTARY_COS_SIN", DataType.FP32, -1),
        output("MROPE_POSITION_DELTAS", DataType.INT64, 1),
    )


def parameters(values: RepositoryValues) -> dict[str, Parameter]:
    """Return what every model gets, and what of a GPU's threads this one may use."""
    if values.encoder_threads is None:
        return values.shared_parameters()
    return values.shared_parameters() | strings(mps_thread_percentage=values.encoder_threads)


def config(values: RepositoryValues) -> ModelConfig:
    """Return the model's configuration."""
    handed = (output(MADE_ON_GPU, DataType.BOOL, 1),) if values.announces_features else ()
    wanted = (optional(HOST_FEATURES, DataType.BOOL, 1),) if values.gpu_features else ()
    if values.pixel_bytes:
        wanted = (*wanted, optional(BYTES_TO_ENCODE, DataType.UINT8, -1, -1, -1, -1))
    return python_model(
        NAME,
        max_batch_size=values.limits.max_batch_size,
        inputs=(*INPUTS, *wanted),
        outputs=(*outputs(values.table_type, values.prompt_type), *handed),
        batching=batching(values),
        parameters=parameters(values),
    )
