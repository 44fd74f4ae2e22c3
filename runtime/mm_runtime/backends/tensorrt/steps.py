"""PURE: the steps that make engines of TensorRT-LLM: the plan's commands and what surrounds them.

Knows where each tool writes and what must be in its config.json; knows no flag that only one
version has. The commands themselves come from the plan and are run word for word.
"""

from collections.abc import Iterator
from typing import Any, Final

from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.build_result import BuildReason
from mm_api.documents.trtllm_build import Command, EngineCommand, TrtllmBuild
from mm_api.families import FAMILIES
from mm_api.trtllm_layout import (
    CONVERTED,
    GUIDED_FOLDER,
    TOKENIZER_INFO,
    TOKENIZER_TABLE,
    engine_limits,
)
from mm_runtime.engine_build.checkpoint_steps import (
    checkpoint_steps,
    evaluation_steps,
    fetch_adapters_step,
    tokenizer_steps,
    weights_steps,
)
from mm_runtime.engine_build.step import Expected, Step, command_step, module_step
from mm_runtime.engine_build.tree import built_folder, of_tree, weights_name
from mm_runtime.errors import PermanentError

COMPARED: Final = (
    "max_batch_size",
    "max_beam_width",
    "max_input_len",
    "max_seq_len",
    "max_encoder_input_len",
    "max_multimodal_len",
)
"""Limits that trtllm-build copies into its config as they are. max_num_tokens is not one of them:
it is raised to a cache block, and ignored where padding is kept (tensorrt_llm/builder.py)."""

NAMES_IN_CONFIG: Final = {"max_multimodal_len": "max_prompt_embedding_table_size"}
"""Two names of one option; the config has the second."""


def trtllm_steps(plan: BuildPlan) -> Iterator[Step]:
    """Yield the steps of a plan for TensorRT-LLM, in order.

    Raises:
        PermanentError: a plan without commands, or one whose commands do not fit together.
    """
    build = plan.trtllm
    if build is None:
        raise PermanentError(
            "The plan has no commands (trtllm) for backend TensorRT; expected those that"
            " `mmctl plan -o commands` prints. Let this version's operator plan again."
        )
    recipe = FAMILIES[plan.engine.family].trtllm
    checkpoint = f"tree/{recipe.checkpoint_folder}"
    yield module_step(
        plan,
        "check-tools",
        "compare the image's TensorRT-LLM and the node's GPU with the plan's",
        outputs=("tools.json",),
    )
    yield from checkpoint_steps(plan, checkpoint, unpickles=not recipe.reads_pickles)
    yield from tokenizer_steps(plan, checkpoint)  # before any engine: those take an hour
    keeps_pickles = plan.facts.weight_format == "pickle" and recipe.reads_pickles
    if not keeps_pickles:
        yield from weights_steps(plan, checkpoint)
    if recipe.model_name is not None:
        yield module_step(
            plan,
            "openai-layout",
            "write the weights as OpenAI's converter reads them",
            inputs=(checkpoint,),
            outputs=(f"{checkpoint}/{weights_name(plan)}",),
        )
    if build.lora:  # before any engine, too: an adapter that does not fit is known in seconds
        yield fetch_adapters_step(plan, "tree/adapters")
        yield module_step(
            plan,
            "lora",
            "turn the LoRA adapters into weights and configs of the server's cache",
            inputs=("tree/adapters",),
            outputs=("engine/lora",),
        )
    if build.tokenizer_info is not None:
        yield from _tokenizer_info_steps(plan, build.tokenizer_info, checkpoint)
    converted = _convert(plan, build, checkpoint)
    inputs = (*converted.outputs, checkpoint)
    engines = [_engine(plan, build, command, inputs) for command in build.engines]
    yield from (converted, *engines)
    yield module_step(
        plan,
        "processor",
        "keep tokenizer, image processor and configs with the engine",
        inputs=(checkpoint,),
        outputs=("engine/processor",),
    )
    yield module_step(
        plan,
        "verify-engines",
        "compare the engines with each other and with the plan",
        inputs=("tools.json", *(output for step in engines for output in step.outputs)),
        permanent_reason=BuildReason.VERIFICATION_FAILED,
    )
    yield from evaluation_steps(plan, checkpoint)


def _tokenizer_info_steps(plan: BuildPlan, command: Command, checkpoint: str) -> tuple[Step, ...]:
    """Return what writes the tokenizer's table for answers of a form, in seconds."""
    folder = of_tree(TOKENIZER_TABLE)
    return (
        command_step(
            plan,
            "tokenizer-info",
            "write the tokenizer's table, by which the server keeps answers to a form",
            command.argv,
            (checkpoint,),
            Expected(folder, (TOKENIZER_INFO,)),
        ),
        module_step(
            plan,
            "fit-tokenizer-info",
            "compare the tokenizer's table with the tokenizer, and cut it to the model's logits",
            inputs=(checkpoint, folder),
            outputs=(f"engine/{GUIDED_FOLDER}",),
            permanent_reason=BuildReason.VERIFICATION_FAILED,
        ),
    )


def _convert(plan: BuildPlan, build: TrtllmBuild, checkpoint: str) -> Step:
    argv = build.convert.argv
    ranks = tuple(f"rank{rank}.safetensors" for rank in range(build.ranks))
    parts = [c.name for c in build.engines if c.name in {"encoder", "decoder"}]
    made = [
        Expected(of_tree(name), ("config.json", *ranks), _mapping(build))
        for name in ([f"{CONVERTED}/{part}" for part in parts] or [CONVERTED])
    ]
    does = "quantize" if any(word.endswith("quantize.py") for word in argv) else "convert"
    purpose = f"{does} the checkpoint into TensorRT-LLM's format"
    return command_step(plan, does, purpose, argv, (checkpoint,), *made)


def _engine(
    plan: BuildPlan, build: TrtllmBuild, command: EngineCommand, inputs: tuple[str, ...]
) -> Step:
    argv = command.argv
    folder = built_folder(command, build)
    if command.name == "vision":
        recipe, vision = FAMILIES[plan.engine.family].trtllm, plan.engine.vision
        made = Expected(
            folder,
            ("config.json", "model.engine"),
            (
                ("builder_config.model_type", recipe.built_vision_type or recipe.vision_type),
                ("builder_config.max_batch_size", vision.max_batch_size if vision else None),
            ),
        )
    else:
        files = tuple(f"rank{rank}.engine" for rank in range(build.ranks))
        made = Expected(folder, ("config.json", *files), _engine_values(plan, build, command))
    return command_step(
        plan, f"build-{command.name}", f"build the {command.name} engine", argv, inputs, made
    )


def _engine_values(
    plan: BuildPlan, build: TrtllmBuild, command: EngineCommand
) -> tuple[tuple[str, Any], ...]:
    limits = engine_limits(command.name, plan.engine.limits)
    compared = [name for name in COMPARED if name in limits]
    return (
        ("version", build.version),
        *((f"pretrained_config.{path}", value) for path, value in _mapping(build)),
        ("pretrained_config.dtype", plan.engine.dtype),
        *((f"build_config.{NAMES_IN_CONFIG.get(name, name)}", limits[name]) for name in compared),
    )


def _mapping(build: TrtllmBuild) -> tuple[tuple[str, Any], ...]:
    return (
        ("mapping.world_size", build.ranks),
        ("mapping.tp_size", build.tensor_parallel),
        ("mapping.pp_size", build.pipeline_parallel),
    )
