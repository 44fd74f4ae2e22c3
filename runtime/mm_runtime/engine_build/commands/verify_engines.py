"""Compare the engines with each other and with the plan: what no single tool can know.

Each of these is a wrong answer or a refused request at serving time, and none of them needs a GPU.
"""

import logging
from collections.abc import Iterator
from typing import Any

from mm_api.documents.build_plan import BuildPlan
from mm_runtime.engine_build.commands.step import StepContext, run_step
from mm_runtime.engine_build.outputs import lookup, read_config
from mm_runtime.engine_build.receipt import ToolReport
from mm_runtime.engine_build.tree import built_folder
from mm_runtime.errors import PermanentError, VerificationFailedError

log = logging.getLogger(__name__)

Configs = dict[str, dict[str, Any]]
"""Name of an engine (llm, encoder, decoder, vision) -> its config.json."""


def verify_engines(context: StepContext) -> None:
    """Fail with every disagreement at once."""
    build = context.plan.trtllm
    if build is None:
        raise PermanentError("The plan has no commands, which this step needs.")
    configs: Configs = {}
    for command in build.engines:
        config = read_config(context.paths.work / built_folder(command, build))
        if config is None:
            raise VerificationFailedError(f"The {command.name} engine has no config.json.")
        configs[command.name] = config
    versions = ToolReport.from_json(context.paths.tools.read_bytes()).versions
    problems = [
        problem
        for check in (_versions(configs, versions), _tables(context.plan, configs), _pairs(configs))
        for problem in check
    ]
    if problems:
        raise VerificationFailedError(
            f"The engines do not fit together: {'; '.join(problems)}. They are not used."
        )
    log.info("%s agree with the plan", ", ".join(sorted(configs)))


def _versions(configs: Configs, versions: dict[str, str]) -> Iterator[str]:
    for name, config in configs.items():
        if name != "vision" and config.get("version") != versions.get("tensorrt_llm"):
            yield (
                f"{name} says TensorRT-LLM {config.get('version')}, and the tools are"
                f" {versions.get('tensorrt_llm')}"
            )


def _tables(plan: BuildPlan, configs: Configs) -> Iterator[str]:
    """The server divides the table's rows back into features per image: it must come out even."""
    limits, vision = plan.engine.limits, plan.facts.vision
    name = "encoder" if "encoder" in configs else "llm"
    rows = lookup(configs[name], "build_config.max_prompt_embedding_table_size", 0)
    if limits.max_multimodal_len and rows != limits.max_multimodal_len:
        yield f"{name} has {rows} rows of images, and the plan {limits.max_multimodal_len}"
    hidden = lookup(configs[name], "pretrained_config.hidden_size", None)
    wanted = plan.facts.encoder if name == "encoder" and plan.facts.encoder else plan.facts.text
    if hidden != wanted.hidden_size:
        yield f"{name} is {hidden} wide, and the checkpoint {wanted.hidden_size}"
    shape = lookup(configs.get("vision", {}), "builder_config.output_shape", None)
    if vision and isinstance(shape, list) and shape and shape[-1] != plan.facts.text.hidden_size:
        yield f"vision gives rows of {shape[-1]}, and the language model takes {hidden}"


def _pairs(configs: Configs) -> Iterator[str]:
    """An encoder-decoder's two engines are built by two commands."""
    if "encoder" not in configs or "decoder" not in configs:
        return
    encoder, decoder = configs["encoder"], configs["decoder"]
    for path in (
        "build_config.max_batch_size",
        "build_config.max_beam_width",
        "pretrained_config.mapping.tp_size",
        "pretrained_config.mapping.pp_size",
        "pretrained_config.dtype",
    ):
        pair = [lookup(one, path, None) for one in (encoder, decoder)]
        if pair[0] != pair[1]:
            yield f"{path} is {pair[0]} in the encoder and {pair[1]} in the decoder"
    read = lookup(encoder, "build_config.max_input_len", None)
    accepted = lookup(decoder, "build_config.max_encoder_input_len", None)
    if read != accepted:
        yield f"the encoder reads {read} tokens and the decoder accepts {accepted}"


if __name__ == "__main__":
    run_step(verify_engines)
