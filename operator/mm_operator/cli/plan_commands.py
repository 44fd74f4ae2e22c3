"""A plan as the shell commands that a person would build the engines with by hand."""

import shlex

from mm_api.documents.model_plan import ModelPlan

_REFERENCE = """\
# The Reference engine is built by one command of the runtime image. plan.json is buildPlan of
# `mmctl plan -o json`.
mm-runtime build --plan plan.json --source checkpoint --store store"""


def as_commands(planned: ModelPlan) -> str:
    """Return a script; a plan without commands becomes comments."""
    if planned.errors:
        return "\n".join(f"# {error.message}" for error in planned.errors)
    if planned.backend == "Reference":
        return _REFERENCE
    if planned.convert is None:
        return f"# Backend {planned.backend} loads the checkpoint itself: nothing is built."
    product = planned.gpu.product if planned.gpu else "GPU"
    lines = [
        f"# {planned.model}: {planned.family} for {planned.tensor_parallel} x {product}",
        f"# TensorRT-LLM {planned.trtllm_version}",
        "# In TensorRT-LLM's root, with the checkpoint beside it as the folder named below.",
        "set -eu",
        "",
        _command(planned.convert.argv),
    ]
    for engine in planned.engines:
        lines += ["", f"# {engine.name}", _command(engine.argv)]
    return "\n".join(lines)


def _command(argv: list[str]) -> str:
    """Return one command, each flag on a line of its own."""
    parts: list[str] = []
    for argument in argv:
        quoted = shlex.quote(argument)
        if argument.startswith("--"):
            parts.append(quoted)
        elif parts:
            parts[-1] += f" {quoted}"
        else:
            parts = [quoted]
    return " \\\n  ".join(parts)
