"""Where the commands of a TensorRT-LLM build read and write, and which limits each engine gets.

The operator writes both into the commands, the runtime looks for what they left there: neither
reads the other's command line. Paths are relative to TensorRT-LLM's root.
"""

from typing import Final

from mm_api.documents.build_plan import EngineLimits
from mm_api.documents.trtllm_build import EngineName

CONVERTED: Final = "build/converted"
"""The checkpoint in TensorRT-LLM's layout; an encoder-decoder's halves are folders in it."""

ENGINES: Final = "build/engines"
"""What becomes part of the built engine's directory."""

GUIDED_FOLDER: Final = "guided_decoding"
"""The tokenizer's table for answers of a form, inside the built engine's directory."""

TOKENIZER_TABLE: Final = "build/tokenizer_table"
"""The same table as upstream's script writes it, before it is compared and cut."""

TOKENIZER_INFO: Final = "xgrammar_tokenizer_info.json"
"""Its file, as upstream's script names it."""

_VISION_ENCODER_UNTIL = (0, 18)
"""Newer versions of upstream's script build `multimodal_encoder` (#versions)."""

VISION_FOLDERS: Final = frozenset({"vision", "vision_encoder", "multimodal_encoder"})
"""Folders of a vision engine inside a built engine's directory: the Reference engine's first."""

_TOKENS_ROUNDING = 8


def engine_folder(name: EngineName, version: str) -> str:
    """Return where one engine of a version of TensorRT-LLM is written."""
    if name != "vision":
        return f"{ENGINES}/{name}"
    old = release_of(version) <= _VISION_ENCODER_UNTIL
    return f"{ENGINES}/{'vision_encoder' if old else 'multimodal_encoder'}"


def folder_in_engine(name: EngineName, version: str) -> str:
    return engine_folder(name, version).rpartition("/")[2]


def engine_limits(name: EngineName, limits: EngineLimits) -> dict[str, int]:
    """Return flag of trtllm-build -> limit, in the order of the command; a vision engine has none.

    An encoder reads what the decoder's cross attention sees, and every request of a batch may be
    read in one step.
    """
    read = limits.max_encoder_input_len or 0
    values = {
        "max_batch_size": limits.max_batch_size,
        "max_beam_width": limits.max_beam_width,
        "max_input_len": limits.max_input_len,
        "max_seq_len": limits.max_seq_len,
        "max_num_tokens": limits.max_num_tokens,
    }
    if name == "encoder":
        tokens = -(-read * limits.max_batch_size // _TOKENS_ROUNDING) * _TOKENS_ROUNDING
        values |= {"max_input_len": read, "max_seq_len": read, "max_num_tokens": tokens}
    elif read:
        values["max_encoder_input_len"] = read
    if limits.max_multimodal_len:
        values["max_multimodal_len"] = limits.max_multimodal_len
    return values


def reads_gpu_tensors(version: str, ranks: int) -> bool:
    """Return whether the backend of Triton takes features that lie on the GPU, not in host memory.

    By its source since 0.20: older ones read each input as host memory (`readInputsTensors` of
    inflight_batcher_llm). On one GPU: others get requests from the first one.
    """
    return ranks == 1 and release_of(version) >= (0, 20)


def release_of(version: str) -> tuple[int, int]:
    """Return the first two numbers of a version."""
    major, minor, *_ = version.split(".")
    return int(major), int(minor.partition("rc")[0])
