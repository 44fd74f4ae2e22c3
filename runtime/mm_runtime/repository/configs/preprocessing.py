"""PURE: `preprocessing`: text and images -> ids and pixel values, audio -> a spectrogram."""

from mm_runtime.repository.configs.scheduling import batching
from mm_runtime.repository.model_config import (
    DataType,
    Input,
    ModelConfig,
    Output,
    optional,
    output,
    python_model,
    tensor,
)
from mm_runtime.repository.values import RepositoryValues
from mm_runtime.serving.tensor_names import BYTES_PREPARED

NAME = "preprocessing"

_WORDS = (
    optional("BAD_WORDS_DICT", DataType.STRING, -1),
    optional("STOP_WORDS_DICT", DataType.STRING, -1),
    optional("EMBEDDING_BIAS_WORDS", DataType.STRING, -1),
    optional("EMBEDDING_BIAS_WEIGHTS", DataType.FP32, -1),
    optional("EMBEDDING_BIAS_IDS", DataType.INT32, -1),  # not upstream's: tokens, not words
    optional("END_ID", DataType.INT32, 1),
    optional("PAD_ID", DataType.INT32, 1),
)

INPUTS = (
    tensor("QUERY", DataType.STRING, 1),
    optional("DECODER_QUERY", DataType.STRING, 1),
    # Not upstream's: images are counted against the prompt's placeholders.
    optional("IMAGE", DataType.FP16, -1, -1, -1, -1),
    optional("IMAGE_BYTES", DataType.UINT8, -1, -1, -1, -1),
    optional("IMAGE_URL", DataType.STRING, -1),  # upstream v0.19: one; newer: several
    optional("PICTURE_SIZES", DataType.INT64, -1, 2),  # not upstream's either
    optional("VIDEO_BYTES", DataType.UINT8, -1, -1, -1, -1),
    optional("VIDEO_SECONDS", DataType.FP32, -1),  # not upstream's: how long frames of each take
    tensor("REQUEST_OUTPUT_LEN", DataType.INT32, 1),
    *_WORDS,
    optional("PROMPT_TABLE_EXTRA_ID", DataType.UINT64, 1),
    optional("CACHE_SALT", DataType.STRING, 1),  # not upstream's: whom features are shared with
)

AUDIO_INPUTS = (
    optional("QUERY", DataType.STRING, 1),
    # Names and types of upstream's whisper_bls, which prepares audio itself.
    tensor("WAV", DataType.FP32, -1),
    optional("WAV_LENS", DataType.INT32, 1),
    optional("REQUEST_OUTPUT_LEN", DataType.INT32, 1),
    *_WORDS,
)


def audio_inputs(values: RepositoryValues) -> tuple[Input, ...]:
    """Return what a family that reads audio takes: of a part of longer audio its spectrogram."""
    if not values.own_tensors:
        return AUDIO_INPUTS
    # Not upstream's. A request has either.
    either = (optional("WAV", DataType.FP32, -1), optional("SPECTROGRAM", DataType.FP32, -1, -1))
    return (*(one for one in AUDIO_INPUTS if one.name != "WAV"), *either)


_PROMPT = (
    output("REQUEST_INPUT_LEN", DataType.INT32, 1),
    output("DECODER_INPUT_ID", DataType.INT32, -1),
    output("REQUEST_DECODER_INPUT_LEN", DataType.INT32, 1),
    output("BAD_WORDS_IDS", DataType.INT32, 2, -1),
    output("STOP_WORDS_IDS", DataType.INT32, 2, -1),
    output("EMBEDDING_BIAS", DataType.FP32, -1),
    output("REQUEST_OUTPUT_LEN", DataType.INT32, -1),
    output("OUT_END_ID", DataType.INT32, 1),
    output("OUT_PAD_ID", DataType.INT32, 1),
)

RAW_IMAGES = (
    output("PROMPT_TEXT", DataType.STRING, 1),
    output("RAW_IMAGES", DataType.UINT8, -1, -1, -1, -1),
    output("RAW_IMAGE_SIZES", DataType.INT64, -1, 2),
)
"""What the checkpoint's own processor reads."""

OUTPUTS = (
    output("INPUT_ID", DataType.INT32, -1),
    *_PROMPT,
    output("OUT_PROMPT_TABLE_EXTRA_IDS", DataType.UINT64, -1),
    output("PIXEL_VALUES", DataType.FP16, -1, -1, -1, -1),
    output("ASPECT_RATIO_IDS", DataType.INT64, -1),
    output("ASPECT_RATIO_MASK", DataType.INT64, -1, -1),
    output("CROSS_ATTENTION_MASK", DataType.INT64, -1, -1, -1),
    output("IMAGE_SIZES", DataType.INT64, -1),
    output("IS_VIDEO_INPUT", DataType.BOOL, 1),
    output("ATTENTION_MASK", DataType.INT64, -1),
    output("IMAGE_GRID_THW", DataType.INT64, -1),
    output("SECOND_PER_GRID_TS", DataType.FP32, -1),
    output("VISION_INPUT_ID", DataType.INT32, -1),
)


def audio_outputs(table_type: DataType) -> tuple[Output, ...]:
    """Return what audio becomes, the spectrogram in the type that the engine reads."""
    return (
        output("ENCODER_INPUT_FEATURES", table_type, -1, -1),
        output("ENCODER_OUTPUT_LENGTHS", DataType.INT32, 1),
        *_PROMPT,
    )


def config(values: RepositoryValues) -> ModelConfig:
    """Return the model's configuration."""
    more = RAW_IMAGES if values.reads_raw_images else ()
    if values.pixel_bytes:
        more = (*more, output(BYTES_PREPARED, DataType.UINT8, -1, -1, -1, -1))
    return python_model(
        NAME,
        max_batch_size=values.limits.max_batch_size,
        inputs=audio_inputs(values) if values.accepts_audio else INPUTS,
        outputs=audio_outputs(values.table_type) if values.accepts_audio else (*OUTPUTS, *more),
        batching=batching(values, delayed=True),
        processes=values.serving.preprocessing_instance_count,
        parameters=values.shared_parameters(),
    )
