"""PURE: the steps that stage a checkpoint for TensorRT-LLM on PyTorch, which builds no engine."""

from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.build_result import BuildReason
from mm_api.documents.engine_manifest import ADAPTERS_FOLDER, CHECKPOINT_FOLDER
from mm_api.documents.quantization import HF_QUANT_CONFIG, StagedQuantization
from mm_api.trtllm_layout import STAGED_RESULT, STAGED_SOURCE
from mm_runtime.engine_build.evaluation_steps import evaluation_steps
from mm_runtime.engine_build.step import Expected, Step, command_step, module_step
from mm_runtime.engine_build.tokenizer_steps import tokenizer_steps
from mm_runtime.engine_build.trtllm_steps import fetch_adapters_step
from mm_runtime.errors import PermanentError

FOLDER = f"engine/{CHECKPOINT_FOLDER}"
"""Where the checkpoint lies, seen from the working directory."""


def staging_steps(plan: BuildPlan) -> tuple[Step, ...]:
    """Return the steps of a plan for backend PyTorch, in order.

    Raises:
        PermanentError: the weights are pickles, and the plan does not allow them.
    """
    pickled = plan.facts.weight_format == "pickle"
    if pickled and not plan.allow_pickle:
        raise PermanentError(
            "The weights are pickles, which can run code, and the plan does not allow them: use"
            " safetensors, or set spec.model.allowPickle."
        )
    quantization = plan.quantization
    source = STAGED_SOURCE if quantization else FOLDER
    chosen = [
        module_step(
            plan,
            "fetch",
            "copy the checkpoint and compare its digest with the plan's",
            inputs=(),
            outputs=(source, "pickles", "fetched.json"),
            permanent_reason=BuildReason.SOURCE_NOT_FOUND,
        )
    ]
    if pickled:
        chosen.append(
            module_step(
                plan,
                "unpickle",
                "turn pickled weights into safetensors: the server is given no others",
                inputs=("pickles",),
                outputs=(source,),
            )
        )
    chosen.append(
        module_step(
            plan,
            "verify-checkpoint",
            "compare every tensor's header with its index and with the plan's facts",
            inputs=(source,),
            outputs=("checkpoint.json",),
            permanent_reason=BuildReason.VERIFICATION_FAILED,
        )
    )
    if plan.lora:
        chosen.append(fetch_adapters_step(plan, f"engine/{ADAPTERS_FOLDER}"))
    chosen += tokenizer_steps(plan, source)
    if quantization is not None:
        chosen += _quantize(plan, quantization, source)
    return (*chosen, *evaluation_steps(plan, source))


def _quantize(plan: BuildPlan, quantization: StagedQuantization, source: str) -> tuple[Step, ...]:
    """Return the quantizer's command, and the step that compares what it made.

    The source stays beside the engine until then: a killed quantizer starts from it again.
    """
    return (
        command_step(
            plan,
            "quantize",
            "quantize the language model's weights; images are read as before",
            quantization.command.argv,
            (source,),
            Expected(STAGED_RESULT, ("config.json", HF_QUANT_CONFIG)),
        ),
        module_step(
            plan,
            "verify-quantized",
            "compare every quantized weight with the one it was made of",
            inputs=(source, STAGED_RESULT),
            outputs=("quantized.json",),
            permanent_reason=BuildReason.VERIFICATION_FAILED,
        ),
    )
