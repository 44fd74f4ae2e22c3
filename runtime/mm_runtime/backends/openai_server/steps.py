"""PURE: the steps that stage a checkpoint for a server which reads it as it is, or quantized."""

from collections.abc import Iterator

from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.build_result import BuildReason
from mm_api.documents.engine_manifest import ADAPTERS_FOLDER, CHECKPOINT_FOLDER
from mm_api.documents.quantization import HF_QUANT_CONFIG
from mm_api.trtllm_layout import STAGED_RESULT, STAGED_SOURCE
from mm_runtime.engine_build.checkpoint_steps import (
    checkpoint_steps,
    fetch_adapters_step,
    vision_steps,
    weights_steps,
)
from mm_runtime.engine_build.evaluation_steps import evaluation_steps
from mm_runtime.engine_build.step import Expected, Step, command_step, module_step
from mm_runtime.engine_build.tokenizer_steps import tokenizer_steps

FOLDER = f"engine/{CHECKPOINT_FOLDER}"
"""Where the checkpoint lies, seen from the working directory."""


def staging_steps(plan: BuildPlan) -> Iterator[Step]:
    """Yield the steps of a plan, in order.

    Raises:
        PermanentError: the weights are pickles, and the plan does not allow them.
    """
    quantization = plan.quantization
    source = STAGED_SOURCE if quantization else FOLDER
    yield from checkpoint_steps(plan, source)
    yield from (vision_steps if plan.engine.disaggregated_encoders else weights_steps)(plan, source)
    if plan.lora:
        yield fetch_adapters_step(plan, f"engine/{ADAPTERS_FOLDER}")
    yield from tokenizer_steps(plan, source)
    if quantization is not None:
        # The source stays until both have ended: a killed quantizer starts from it again.
        yield command_step(
            plan,
            "quantize",
            "quantize the language model's weights; images are read as before",
            quantization.command.argv,
            (source,),
            Expected(STAGED_RESULT, ("config.json", HF_QUANT_CONFIG)),
        )
        yield module_step(
            plan,
            "verify-quantized",
            "compare every quantized weight with the one it was made of",
            inputs=(source, STAGED_RESULT),
            outputs=("quantized.json",),
            permanent_reason=BuildReason.VERIFICATION_FAILED,
        )
    yield from evaluation_steps(plan, source)
