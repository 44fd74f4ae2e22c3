"""For which engines a build computes answers of the checkpoint, in which type, at what cost.

The operator requests the memory and shows the cost in the plan; the build computes the answers.
"""

from typing import Final

from mm_api.backends import EVALUATOR
from mm_api.documents.build_plan import EngineLimits, EngineSpec
from mm_api.documents.evaluation import MOST_PROMPTS, MOST_TOKENS
from mm_api.documents.model_facts import ModelFacts
from mm_api.documents.model_plan import EvaluationCost
from mm_api.dtypes import DTYPE_BYTES
from mm_api.families import FAMILIES

_MOST_FLOAT32_BYTES = 4 << 30
"""Size of weights: larger checkpoints are computed in their own type, which takes half."""

PROCESS_BYTES: Final = 512 << 20
"""Torch, transformers and activations beside the weights: a build of the tiny T5 used 465 MiB of
its cgroup, and was killed at 384. The resident size is 790 MiB: the rest are files that the kernel
can drop."""

_EXPANDED = 1.5
"""Bytes of a vision tower in float32 over those that its shape gives for blocks alone: patches,
positions, projectors and activations of one image come besides; the weights of CLIP ViT-L/14-336
are 1.01."""

_PROMPT_TOKENS = 512
"""Room for the text of a prompt, the chat template around it and the answer."""

_OPERATIONS_A_SECOND = 20e9
"""Estimated for two cores, as the seconds are."""

ENOUGH_SECONDS: Final = 900.0
"""After so long no further prompt begins: fewer are kept, and the build is not held up."""

_LOADING_BYTES_A_SECOND = 500e6
_START_SECONDS = 10.0
"""Importing torch and transformers."""


def evaluation_cost(engine: EngineSpec, facts: ModelFacts) -> EvaluationCost | None:
    """Return what it costs; None: switched off, or a build cannot run the checkpoint."""
    if facts.quantization is not None:  # no class of transformers reads Model-Optimizer's weights
        return None
    if engine.evaluation == "Off" or not _runs(engine, facts):
        return None
    dtype = evaluation_dtype(facts)
    converted = 0 if facts.dtype == dtype else facts.parameters * DTYPE_BYTES[dtype]
    answering = _answering_seconds(_computing_seconds(engine, facts))
    seconds = answering + facts.weight_bytes / _LOADING_BYTES_A_SECOND
    return EvaluationCost(
        dtype=dtype,
        memory_bytes=facts.weight_bytes + converted + _beside_weights(engine, facts),
        seconds=round(_START_SECONDS + seconds),
    )


def runs_exported(engine: EngineSpec) -> bool:
    """Return whether the answers are computed with the vision half that the build has exported.

    An engine of TensorRT is compared with them instead.
    """
    return engine.traits.runs_checkpoints and not (engine.vision and engine.vision.tensorrt)


def _beside_weights(engine: EngineSpec, facts: ModelFacts) -> int:
    """Return process, cache and vision tower."""
    text, size = facts.text, DTYPE_BYTES[evaluation_dtype(facts)]
    length = evaluation_limits(engine).max_seq_len
    cache = 2 * text.layers * text.key_value_heads * text.head_size * size * length
    return PROCESS_BYTES + cache + _tower_bytes(engine, facts)


def _computing_seconds(engine: EngineSpec, facts: ModelFacts) -> float:
    operations = 2.0 * facts.parameters * (_prompt_tokens(engine) + MOST_TOKENS)
    return operations / _OPERATIONS_A_SECOND


def _answering_seconds(one: float) -> float:
    return min(MOST_PROMPTS * one, ENOUGH_SECONDS + one)


def _runs(engine: EngineSpec, facts: ModelFacts) -> bool:
    """Return whether a build can run the checkpoint on the processor."""
    family = FAMILIES.get(facts.family)
    if family is None or not family.is_served(EVALUATOR):
        return False
    if not family.has_tower:
        return False  # the engine is the checkpoint's own class
    # Converters that read pickles are given them as they are.
    given = not engine.traits.runs_checkpoints and family.trtllm.reads_pickles
    return not (given and facts.weight_format == "pickle")


def _tower_bytes(engine: EngineSpec, facts: ModelFacts) -> int:
    """Return the vision tower in float32, where torch runs it for want of an exported one."""
    vision = facts.vision
    if vision is None or engine.vision is None or runs_exported(engine):
        return 0
    hidden = vision.hidden_size
    block = 4 * hidden * hidden + 2 * hidden * (vision.intermediate_size or 4 * hidden)
    return int(_EXPANDED * vision.layers * block * DTYPE_BYTES["float32"])


def evaluation_dtype(facts: ModelFacts) -> str:
    """Return what the checkpoint's answers are computed in."""
    fits = facts.parameters * DTYPE_BYTES["float32"] <= _MOST_FLOAT32_BYTES
    return "float32" if fits or facts.dtype not in DTYPE_BYTES else facts.dtype


def evaluation_limits(engine: EngineSpec) -> EngineLimits:
    """Return the limits of a language model that answers one short prompt at a time."""
    limits = engine.limits
    longest = min(limits.max_seq_len, _prompt_tokens(engine))
    return limits.model_copy(
        update={
            "max_batch_size": 1,
            "max_seq_len": longest,
            "max_input_len": min(limits.max_input_len, longest),
            "max_num_tokens": min(limits.max_num_tokens, longest),
        }
    )


def _prompt_tokens(engine: EngineSpec) -> int:
    features = engine.vision.features_per_image if engine.vision else 0
    return min(engine.limits.max_seq_len, features + _PROMPT_TOKENS)
