"""PURE: `ensemble`: the four models as one, to which clients send requests."""

from mm_runtime.repository.configs import (
    multimodal_encoders,
    postprocessing,
    preprocessing,
    tensorrt_llm,
)
from mm_runtime.repository.model_config import (
    DataType,
    EnsembleStep,
    Input,
    ModelConfig,
    ensemble_model,
    optional,
    output,
    tensor,
)
from mm_runtime.repository.values import RepositoryValues
from mm_runtime.serving.sampling_table import OF_CLIENTS
from mm_runtime.serving.tensor_names import HANDED_OVER_ON_GPU, MADE_ON_GPU

NAME = "ensemble"

SAMPLING = (
    optional("end_id", DataType.INT32, 1),
    optional("pad_id", DataType.INT32, 1),
    *(optional(name, DataType[one.type], 1) for one in OF_CLIENTS for name in one.inputs),
)
"""How tokens are chosen and when they end, as `tensorrt_llm_bls` takes it too."""

_ANSWER = (
    optional("bad_words", DataType.STRING, -1),
    optional("stop_words", DataType.STRING, -1),
    *SAMPLING,
    optional("return_log_probs", DataType.BOOL, 1),
    optional("return_context_logits", DataType.BOOL, 1),
    optional("return_generation_logits", DataType.BOOL, 1),
    optional("beam_width", DataType.INT32, 1),
    optional("stream", DataType.BOOL, 1),
)

BIAS = (
    optional("embedding_bias_words", DataType.STRING, -1),
    optional("embedding_bias_weights", DataType.FP32, -1),
)

_ADAPTER = (optional("lora_task_id", DataType.UINT64, 1),)
"""Upstream's ensemble of language models takes it, its ensemble for images does not."""

AUDIO_INPUTS = (
    optional("text_input", DataType.STRING, 1),
    tensor("WAV", DataType.FP32, -1),
    optional("WAV_LENS", DataType.INT32, 1),
    optional("max_tokens", DataType.INT32, 1),
    *_ANSWER,
    *BIAS,
    *_ADAPTER,
)
"""Inputs of a family that reads audio: the decoder's prefix, and samples as upstream's whisper_bls
names them."""

MEDIA = (
    optional("image_bytes_input", DataType.UINT8, -1, -1, -1, -1),
    optional("image_url_input", DataType.STRING, -1),
    optional("image_sizes_input", DataType.INT64, -1, 2),
    optional("video_bytes_input", DataType.UINT8, -1, -1, -1, -1),
    optional("video_seconds_input", DataType.FP32, -1),
)
INPUTS = (
    tensor("text_input", DataType.STRING, 1),
    optional("decoder_text_input", DataType.STRING, 1),
    optional("image_input", DataType.FP16, -1, -1, -1, -1),
    *MEDIA,
    tensor("max_tokens", DataType.INT32, 1),
    *_ANSWER,
    optional("prompt_table_extra_id", DataType.UINT64, 1),
    optional("cache_salt", DataType.STRING, 1),
    *BIAS,
    *_ADAPTER,
)

OUTPUTS = (
    output("text_output", DataType.STRING, -1),
    output("cum_log_probs", DataType.FP32, -1),
    output("output_log_probs", DataType.FP32, -1, -1),
    output("context_logits", DataType.FP32, -1, -1),
    output("generation_logits", DataType.FP32, -1, -1, -1),
    output("batch_index", DataType.INT32, 1),
    output("sequence_index", DataType.INT32, 1),
)

HANDED_OVER = "_FEATURES_ON_GPU"
"""From encoder to language model, where features travel as GPU tensors."""

STEPS = (
    EnsembleStep(
        preprocessing.NAME,
        input_map={
            "QUERY": "text_input",
            "DECODER_QUERY": "decoder_text_input",
            "IMAGE": "image_input",
            "IMAGE_BYTES": "image_bytes_input",
            "IMAGE_URL": "image_url_input",
            "PICTURE_SIZES": "image_sizes_input",
            "VIDEO_BYTES": "video_bytes_input",
            "VIDEO_SECONDS": "video_seconds_input",
            "REQUEST_OUTPUT_LEN": "max_tokens",
            "BAD_WORDS_DICT": "bad_words",
            "STOP_WORDS_DICT": "stop_words",
            "EMBEDDING_BIAS_WORDS": "embedding_bias_words",
            "EMBEDDING_BIAS_WEIGHTS": "embedding_bias_weights",
            "END_ID": "end_id",
            "PAD_ID": "pad_id",
            "PROMPT_TABLE_EXTRA_ID": "prompt_table_extra_id",
            "CACHE_SALT": "cache_salt",
        },
        output_map={
            "REQUEST_INPUT_LEN": "_REQUEST_INPUT_LEN",
            "INPUT_ID": "_INPUT_ID",
            "REQUEST_DECODER_INPUT_LEN": "_REQUEST_DECODER_INPUT_LEN",
            "DECODER_INPUT_ID": "_DECODER_INPUT_ID",
            "PIXEL_VALUES": "_PIXEL_VALUES",
            "ASPECT_RATIO_IDS": "_ASPECT_RATIO_IDS",
            "ASPECT_RATIO_MASK": "_ASPECT_RATIO_MASK",
            "CROSS_ATTENTION_MASK": "_CROSS_ATTENTION_MASK",
            "ATTENTION_MASK": "_ATTENTION_MASK",
            "IMAGE_GRID_THW": "_IMAGE_GRID_THW",
            "SECOND_PER_GRID_TS": "_SECOND_PER_GRID_TS",
            "IMAGE_SIZES": "_IMAGE_SIZES",
            "IS_VIDEO_INPUT": "_IS_VIDEO_INPUT",
            "REQUEST_OUTPUT_LEN": "_REQUEST_OUTPUT_LEN",
            "STOP_WORDS_IDS": "_STOP_WORDS_IDS",
            "BAD_WORDS_IDS": "_BAD_WORDS_IDS",
            "EMBEDDING_BIAS": "_EMBEDDING_BIAS",
            "OUT_END_ID": "_PREPROCESSOR_END_ID",
            "OUT_PAD_ID": "_PREPROCESSOR_PAD_ID",
            "OUT_PROMPT_TABLE_EXTRA_IDS": "_OUT_PROMPT_TABLE_EXTRA_IDS",
            "VISION_INPUT_ID": "_VISION_INPUT_ID",
            "PROMPT_TEXT": "_PROMPT_TEXT",
            "RAW_IMAGES": "_RAW_IMAGES",
            "RAW_IMAGE_SIZES": "_RAW_IMAGE_SIZES",
        },
    ),
    EnsembleStep(
        multimodal_encoders.NAME,
        input_map={
            "IMAGE": "image_input",
            "pixel_values": "_PIXEL_VALUES",
            "aspect_ratio_ids": "_ASPECT_RATIO_IDS",
            "aspect_ratio_mask": "_ASPECT_RATIO_MASK",
            "cross_attention_mask": "_CROSS_ATTENTION_MASK",
            "attention_mask": "_ATTENTION_MASK",
            "image_grid_thw": "_IMAGE_GRID_THW",
            "second_per_grid_ts": "_SECOND_PER_GRID_TS",
            "max_tokens": "_REQUEST_OUTPUT_LEN",
            "image_sizes": "_IMAGE_SIZES",
            "vision_input_id": "_VISION_INPUT_ID",
            "is_video_input": "_IS_VIDEO_INPUT",
            "cache_salt": "cache_salt",
        },
        output_map={
            "OUT_PROMPT_EMBEDDING_TABLE": "out_prompt_embedding_table",
            "OUT_PROMPT_VOCAB_SIZE": "out_prompt_vocab_size",
            "ENCODER_INPUT_FEATURES": "encoder_input_features",
            "ENCODER_OUTPUT_LENGTHS": "encoder_output_lengths",
            "CROSS_ATTENTION_MASK": "cross_attention_mask",
            "SKIP_CROSS_ATTN_BLOCKS": "skip_cross_attn_blocks",
            "MROPE_ROTARY_COS_SIN": "mrope_rotary_cos_sin",
            "MROPE_POSITION_DELTAS": "mrope_position_deltas",
            MADE_ON_GPU: HANDED_OVER,
        },
    ),
    EnsembleStep(
        tensorrt_llm.NAME,
        input_map={
            "input_ids": "_INPUT_ID",
            "prompt_text": "_PROMPT_TEXT",
            "raw_images": "_RAW_IMAGES",
            "raw_image_sizes": "_RAW_IMAGE_SIZES",
            "decoder_input_ids": "_DECODER_INPUT_ID",
            "input_lengths": "_REQUEST_INPUT_LEN",
            "decoder_input_lengths": "_REQUEST_DECODER_INPUT_LEN",
            "request_output_len": "_REQUEST_OUTPUT_LEN",
            "end_id": "_PREPROCESSOR_END_ID",
            "pad_id": "_PREPROCESSOR_PAD_ID",
            "embedding_bias": "_EMBEDDING_BIAS",
            **{tensor: name for one in OF_CLIENTS for tensor, name in one.tensors.items()},
            "return_log_probs": "return_log_probs",
            "return_context_logits": "return_context_logits",
            "return_generation_logits": "return_generation_logits",
            "beam_width": "beam_width",
            "streaming": "stream",
            "prompt_embedding_table": "out_prompt_embedding_table",
            "prompt_vocab_size": "out_prompt_vocab_size",
            "encoder_input_features": "encoder_input_features",
            "encoder_output_lengths": "encoder_output_lengths",
            "cross_attention_mask": "cross_attention_mask",
            "stop_words_list": "_STOP_WORDS_IDS",
            "bad_words_list": "_BAD_WORDS_IDS",
            "prompt_table_extra_ids": "_OUT_PROMPT_TABLE_EXTRA_IDS",
            "skip_cross_attn_blocks": "skip_cross_attn_blocks",
            "mrope_rotary_cos_sin": "mrope_rotary_cos_sin",
            "mrope_position_deltas": "mrope_position_deltas",
            "lora_task_id": "lora_task_id",
            tensorrt_llm.SALT: "cache_salt",
            HANDED_OVER_ON_GPU: HANDED_OVER,
        },
        output_map={
            "output_ids": "_TOKENS_BATCH",
            "sequence_length": "_SEQUENCE_LENGTH",
            "previous_ids": "_PREVIOUS_IDS",
            "is_last": "_IS_LAST",
            "cum_log_probs": "cum_log_probs",
            "output_log_probs": "output_log_probs",
            "context_logits": "context_logits",
            "generation_logits": "generation_logits",
            "batch_index": "batch_index",
            "sequence_index": "sequence_index",
        },
    ),
    EnsembleStep(
        postprocessing.NAME,
        input_map={
            "TOKENS_BATCH": "_TOKENS_BATCH",
            "SEQUENCE_LENGTH": "_SEQUENCE_LENGTH",
            "PREVIOUS_TOKENS": "_PREVIOUS_IDS",
            "IS_LAST": "_IS_LAST",
        },
        output_map={
            "OUTPUT": "text_output",
        },
    ),
)
"""An ensemble's tensors that no step produces for a request (a prompt without an image) are
simply absent from the optional inputs of the steps after it."""

_PREPARING, _ENCODER, _LANGUAGE_MODEL = STEPS[:3]
_SALTED = (tensorrt_llm.NAME, tensorrt_llm.SALT)
"""TensorRT-LLM's own backend has no such input, and of audio nothing is kept."""

_OF_AUDIO = frozenset(one.name for one in preprocessing.AUDIO_INPUTS)
_LISTENING = EnsembleStep(
    preprocessing.NAME,
    input_map={
        **{name: one for name, one in _PREPARING.input_map.items() if name in _OF_AUDIO},
        "WAV": "WAV",
        "WAV_LENS": "WAV_LENS",
    },
    output_map={
        **{
            one.name: _PREPARING.output_map[one.name]
            for one in preprocessing.audio_outputs(DataType.FP32)
            if one.name in _PREPARING.output_map
        },
        "ENCODER_INPUT_FEATURES": "encoder_input_features",
        "ENCODER_OUTPUT_LENGTHS": "encoder_output_lengths",
    },
)
"""The first step of a family that reads audio: it makes what its language model's encoder reads."""


def chosen_steps(*, accepts_audio: bool, has_vision: bool) -> list[EnsembleStep]:
    """Return the steps that a family's requests take, with all their tensors."""
    first = _LISTENING if accepts_audio else _PREPARING
    return [first, *(step for step in STEPS[1:] if has_vision or step is not _ENCODER)]


def steps(values: RepositoryValues) -> tuple[EnsembleStep, ...]:
    """Return the steps of an engine; nothing reads or makes a tensor that its models lack."""
    kept = chosen_steps(accepts_audio=values.accepts_audio, has_vision=values.has_vision)
    made = {one for step in kept for one in step.output_map.values()}
    gone = {one for step in STEPS for one in step.output_map.values()} - made
    if not values.announces_features:
        gone |= {HANDED_OVER}
    if not values.reads_raw_images:
        gone |= {"_PROMPT_TEXT", "_RAW_IMAGES", "_RAW_IMAGE_SIZES"}
    if not values.own_tensors:
        absent = tensorrt_llm.absent_inputs(values) | tensorrt_llm.OWN_OUTPUTS
        outputs = _LANGUAGE_MODEL.output_map
        gone |= {outputs[name] for name in tensorrt_llm.OWN_OUTPUTS if name in outputs}
        gone |= {one for name, one in _LANGUAGE_MODEL.input_map.items() if name in absent}
    salted = values.own_tensors and not values.accepts_audio
    read = {one for step in kept for one in step.input_map.values()}
    return tuple(
        EnsembleStep(
            step.model_name,
            input_map={
                name: one
                for name, one in step.input_map.items()
                if one not in gone and (salted or (step.model_name, name) != _SALTED)
            },
            output_map={
                name: one
                for name, one in step.output_map.items()
                if one not in gone and (one in read or not one.startswith("_"))
            },
        )
        for step in kept
    )


def known(values: RepositoryValues, inputs: tuple[Input, ...]) -> tuple[Input, ...]:
    absent = tensorrt_llm.absent_inputs(values)
    gone = {one for name, one in _LANGUAGE_MODEL.input_map.items() if name in absent}
    return tuple(one for one in inputs if one.name not in gone)


def inputs(values: RepositoryValues) -> tuple[Input, ...]:
    """Return what clients of an engine may send."""
    return known(values, AUDIO_INPUTS if values.accepts_audio else INPUTS)


def config(values: RepositoryValues, name: str = NAME) -> ModelConfig:
    return ensemble_model(
        name,
        max_batch_size=values.limits.max_batch_size,
        inputs=inputs(values),
        outputs=OUTPUTS,
        steps=steps(values),
    )
