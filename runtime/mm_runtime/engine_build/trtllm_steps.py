"""PURE: the steps that make engines of TensorRT-LLM: the plan's commands and what surrounds them.

Knows where each tool writes and what must be in its config.json; knows no flag that only one
version has. The commands themselves come from the plan and are run word for word.
"""

from typing import Any, Final

from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.build_result import BuildReason
from mm_api.documents.trtllm_build import Command, EngineCommand, TrtllmBuild
from mm_api.families import FAMILIES
from mm_api.trtllm_layout import (
    CONVERTED,
    GUIDED,
    TOKENIZER_INFO,
    engine_folder,
    engine_limits,
)
from mm_runtime.engine_build.evaluation_steps import evaluation_steps
from mm_runtime.engine_build.step import Expected, Step, command_step, module_step
from mm_runtime.engine_build.tokenizer_steps import tokenizer_steps
from mm_runtime.errors import PermanentError

BUILD: Final = "tree/build/"
"""Where commands write, seen from the working directory."""

ENGINES: Final = "build/engines/"
"""Where commands write engines, seen from the tree: a link to the unfinished engine."""

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


def trtllm_steps(plan: BuildPlan) -> tuple[Step, ...]:
    """Return the steps of a plan for TensorRT-LLM, in order.

    Raises:
        PermanentError: a plan without commands, or one whose commands do not fit together.
    """
    build = plan.trtllm
    if build is None:
        raise PermanentError(
            "The plan has no commands (trtllm) for backend TensorRT; expected those that"
            " `mmctl plan -o commands` prints. Let this version's operator plan again."
        )
    if plan.facts.weight_format == "pickle" and not plan.allow_pickle:
        raise PermanentError(
            "The weights are pickles, which can run code, and the plan does not allow them: use"
            " safetensors, or set spec.model.allowPickle."
        )
    recipe = FAMILIES[plan.engine.family].recipe
    checkpoint = f"tree/{recipe.checkpoint_folder}"
    chosen = [
        module_step(
            plan,
            "check-tools",
            "compare the image's TensorRT-LLM and the node's GPU with the plan's",
            inputs=(),
            outputs=("tools.json",),
        ),
        module_step(
            plan,
            "fetch",
            "copy the checkpoint and compare its digest with the plan's",
            inputs=(),
            outputs=(checkpoint, "pickles", "fetched.json"),
        ),
    ]
    if plan.facts.weight_format == "pickle" and not recipe.reads_pickles:
        chosen.append(
            module_step(
                plan,
                "unpickle",
                "turn pickled weights into safetensors",
                inputs=("pickles",),
                outputs=(checkpoint,),
            )
        )
    chosen += tokenizer_steps(plan, checkpoint)  # before any engine: those take an hour
    if recipe.model_name is not None:
        chosen.append(
            module_step(
                plan,
                "openai-layout",
                "write the weights as OpenAI's converter reads them",
                inputs=(checkpoint,),
                outputs=(f"{checkpoint}/{weights_name(plan)}",),
            )
        )
    if build.lora:
        chosen += _adapter_steps(plan)
    if build.tokenizer_info is not None:
        chosen += _tokenizer_info_steps(plan, build.tokenizer_info, checkpoint)
    chosen.append(_convert(plan, build, checkpoint))
    converted = chosen[-1].outputs
    chosen += [_engine(plan, build, command, (*converted, checkpoint)) for command in build.engines]
    engines = tuple(output for step in chosen[-len(build.engines) :] for output in step.outputs)
    chosen.append(
        module_step(
            plan,
            "processor",
            "keep tokenizer, image processor and configs with the engine",
            inputs=(checkpoint,),
            outputs=("engine/processor",),
        )
    )
    chosen.append(
        module_step(
            plan,
            "verify-engines",
            "compare the engines with each other and with the plan",
            inputs=("tools.json", *engines),
            outputs=("engines.json",),
            permanent_reason=BuildReason.VERIFICATION_FAILED,
        )
    )
    return (*chosen, *evaluation_steps(plan, checkpoint))


def _tokenizer_info_steps(plan: BuildPlan, command: Command, checkpoint: str) -> tuple[Step, ...]:
    """Return what writes the tokenizer's table for answers of a form, in seconds."""
    folder = _inside(GUIDED)
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
            outputs=(folder,),
            permanent_reason=BuildReason.VERIFICATION_FAILED,
        ),
    )


def _adapter_steps(plan: BuildPlan) -> list[Step]:
    """Return what turns adapters into the files that a server's cache takes.

    Before any engine: an adapter that does not fit is known in seconds, an engine takes an hour.
    """
    return [
        fetch_adapters_step(plan, "tree/adapters"),
        module_step(
            plan,
            "lora",
            "turn the LoRA adapters into weights and configs of the server's cache",
            inputs=("tree/adapters",),
            outputs=("engine/lora",),
        ),
    ]


def fetch_adapters_step(plan: BuildPlan, folder: str) -> Step:
    """Return the step that brings the LoRA adapters into a folder of the working directory."""
    return module_step(
        plan,
        "fetch-adapters",
        "copy the LoRA adapters, or unpack them",
        inputs=(),
        outputs=(folder,),
    )


def _convert(plan: BuildPlan, build: TrtllmBuild, checkpoint: str) -> Step:
    argv = build.convert.argv
    ranks = tuple(f"rank{rank}.safetensors" for rank in range(build.ranks))
    parts = [c.name for c in build.engines if c.name in {"encoder", "decoder"}]
    made = [
        Expected(_inside(name), ("config.json", *ranks), _mapping(build))
        for name in ([f"{CONVERTED}/{part}" for part in parts] or [CONVERTED])
    ]
    quantizes = any(word.endswith("quantize.py") for word in argv)
    return command_step(
        plan,
        "quantize" if quantizes else "convert",
        "quantize the checkpoint into TensorRT-LLM's format"
        if quantizes
        else "convert the checkpoint into TensorRT-LLM's format",
        argv,
        (checkpoint,),
        *made,
    )


def _engine(
    plan: BuildPlan, build: TrtllmBuild, command: EngineCommand, inputs: tuple[str, ...]
) -> Step:
    argv = command.argv
    folder = built_folder(command, build)
    if command.name == "vision":
        recipe, vision = FAMILIES[plan.engine.family].recipe, plan.engine.vision
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
    values: list[tuple[str, Any]] = [("version", build.version)]
    values += [(f"pretrained_config.{path}", value) for path, value in _mapping(build)]
    values.append(("pretrained_config.dtype", plan.engine.dtype))
    limits = engine_limits(command.name, plan.engine.limits)
    values += [
        (f"build_config.{NAMES_IN_CONFIG.get(name, name)}", limits[name])
        for name in COMPARED
        if name in limits
    ]
    return tuple(values)


def _mapping(build: TrtllmBuild) -> tuple[tuple[str, Any], ...]:
    return (
        ("mapping.world_size", build.ranks),
        ("mapping.tp_size", build.tensor_parallel),
        ("mapping.pp_size", build.pipeline_parallel),
    )


def built_folder(command: EngineCommand, build: TrtllmBuild) -> str:
    """Return where an engine is written, relative to the working directory."""
    return _inside(engine_folder(command.name, build.version))


def weights_name(plan: BuildPlan) -> str:
    """Return the name of the file that OpenAI's converter reads.

    Raises:
        PermanentError: the converter has no name for these dimensions.
    """
    name_of = FAMILIES[plan.engine.family].recipe.model_name
    name = name_of(plan.facts) if name_of else None
    if name is None:
        raise PermanentError(
            f"The converter has no name for this checkpoint of family {plan.engine.family}. Let"
            " this version's operator plan again."
        )
    return f"{name}.pt"


def _inside(path: str) -> str:
    """Return a path of the tree as one of the working directory."""
    if path.startswith(ENGINES):
        return f"engine/{path.removeprefix(ENGINES)}"
    return BUILD + path.removeprefix("build/")
