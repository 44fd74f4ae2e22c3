"""PURE: `preprocessing`: text and pictures -> ids and pixel values, sound -> a spectrogram."""

from mm_runtime.repository.configs.scheduling import ONE_ON_CPU, batching
from mm_runtime.repository.records import DataType, ModelConfig, Tensor, optional, tensor
from mm_runtime.repository.values import RepositoryValues

NAME = "preprocessing"

_WORDS = (
    optional("BAD_WORDS_DICT", DataType.STRING, -1),
    optional("STOP_WORDS_DICT", DataType.STRING, -1),
    optional("EMBEDDING_BIAS_WORDS", DataType.STRING, -1),
    optional("EMBEDDING_BIAS_WEIGHTS", DataType.FP32, -1),
    optional("END_ID", DataType.INT32, 1),
    optional("PAD_ID", DataType.INT32, 1),
)

INPUTS = (
    tensor("QUERY", DataType.STRING, 1),
    optional("DECODER_QUERY", DataType.STRING, 1),
    # Not upstream's: pictures are counted against the prompt's placeholders.
    optional("IMAGE", DataType.FP16, -1, -1, -1, -1),
    optional("IMAGE_BYTES", DataType.UINT8, -1, -1, -1, -1),
    optional("IMAGE_URL", DataType.STRING, -1),  # upstream v0.19: one; newer: several
    optional("PICTURE_SIZES", DataType.INT64, -1, 2),  # not upstream's either
    optional("VIDEO_BYTES", DataType.UINT8, -1, -1, -1, -1),
    tensor("REQUEST_OUTPUT_LEN", DataType.INT32, 1),
    *_WORDS,
    optional("PROMPT_TABLE_EXTRA_ID", DataType.UINT64, 1),
    optional("CACHE_SALT", DataType.STRING, 1),  # not upstream's: whom features are shared with
)

SOUND_INPUTS = (
    optional("QUERY", DataType.STRING, 1),
    # Names and types of upstream's whisper_bls, which prepares sounds itself.
    tensor("WAV", DataType.FP32, -1),
    optional("WAV_LENS", DataType.INT32, 1),
    optional("REQUEST_OUTPUT_LEN", DataType.INT32, 1),
    *_WORDS,
)

_PROMPT = (
    tensor("REQUEST_INPUT_LEN", DataType.INT32, 1),
    tensor("DECODER_INPUT_ID", DataType.INT32, -1),
    tensor("REQUEST_DECODER_INPUT_LEN", DataType.INT32, 1),
    tensor("BAD_WORDS_IDS", DataType.INT32, 2, -1),
    tensor("STOP_WORDS_IDS", DataType.INT32, 2, -1),
    tensor("EMBEDDING_BIAS", DataType.FP32, -1),
    tensor("REQUEST_OUTPUT_LEN", DataType.INT32, -1),
    tensor("OUT_END_ID", DataType.INT32, 1),
    tensor("OUT_PAD_ID", DataType.INT32, 1),
)

OUTPUTS = (
    tensor("INPUT_ID", DataType.INT32, -1),
    *_PROMPT,
    tensor("OUT_PROMPT_TABLE_EXTRA_IDS", DataType.UINT64, -1),
    tensor("PIXEL_VALUES", DataType.FP16, -1, -1, -1, -1),
    tensor("ASPECT_RATIO_IDS", DataType.INT64, -1),
    tensor("ASPECT_RATIO_MASK", DataType.INT64, -1, -1),
    tensor("CROSS_ATTENTION_MASK", DataType.INT64, -1, -1, -1),
    tensor("IMAGE_SIZES", DataType.INT64, -1),
    tensor("IS_VIDEO_INPUT", DataType.BOOL, 1),
    tensor("ATTENTION_MASK", DataType.INT64, -1),
    tensor("IMAGE_GRID_THW", DataType.INT64, -1),
    tensor("VISION_INPUT_ID", DataType.INT32, -1),
)


def sound_outputs(table_type: DataType) -> tuple[Tensor, ...]:
    """Return what a sound becomes, the spectrogram in the type that the engine reads."""
    return (
        tensor("ENCODER_INPUT_FEATURES", table_type, -1, -1),
        tensor("ENCODER_OUTPUT_LENGTHS", DataType.INT32, 1),
        *_PROMPT,
    )


def config(values: RepositoryValues) -> ModelConfig:
    """Return the model's configuration."""
    return ModelConfig(
        name=NAME,
        backend="python",
        max_batch_size=values.max_batch_size,
        inputs=SOUND_INPUTS if values.hears else INPUTS,
        outputs=sound_outputs(values.table_type) if values.hears else OUTPUTS,
        dynamic_batching=batching(values),
        instance_groups=ONE_ON_CPU,
        parameters=values.shared_parameters(),
    )
