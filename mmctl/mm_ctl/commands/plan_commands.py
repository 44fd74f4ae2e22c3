"""A plan as the shell commands that a person would build the engines with by hand."""

from mm_api.backends import BACKENDS
from mm_api.documents.model_plan import ModelPlan
from mm_operator.plan.engine.serve_command import as_script, folded

_REFERENCE = """\
# The Reference engine is built by one command of the runtime image. plan.json is buildPlan of
# `mmctl plan -o json`.
mm-runtime build --plan plan.json --source checkpoint --store store"""


def as_commands(planned: ModelPlan) -> str:
    """Return a script; a plan without commands becomes comments."""
    if planned.errors:
        return "\n".join(f"# {error.message}" for error in planned.errors)
    if planned.vllm is not None:
        where = f"# vLLM {planned.vllm.version}, in a folder where `checkpoint` is the checkpoint."
        return f"{where}\n{folded(planned.vllm.argv)}"
    if not BACKENDS[planned.backend].uses_trtllm:
        return _REFERENCE
    product = planned.gpu.product if planned.gpu else "GPU"
    lines = [
        f"# {planned.model}: {planned.family} for {planned.ranks} x {product}",
        f"# TensorRT-LLM {planned.trtllm_version}",
    ]
    if planned.serve is not None:
        where = f"# In a folder where {planned.serve.checkpoint} is the checkpoint."
        return "\n".join([*lines, where, "set -eu", "", as_script(planned.serve)])
    assert planned.convert is not None  # noqa: S101  # set in every plan of an engine
    lines += [
        "# In TensorRT-LLM's root, with the checkpoint beside it as the folder named below.",
        "set -eu",
    ]
    commands = planned.build_plan.trtllm if planned.build_plan else None
    if commands is not None and commands.tokenizer_info is not None:
        lines += ["", "# The tokenizer's table, for answers of a form"]
        lines.append(folded(commands.tokenizer_info.argv))
    lines += ["", folded(planned.convert.argv)]
    for engine in planned.engines:
        lines += ["", f"# {engine.name}", folded(engine.argv)]
    return "\n".join(lines)
