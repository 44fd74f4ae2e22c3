"""Keep with the engine what a server reads of the checkpoint: everything but the weights."""

import logging
import shutil
from pathlib import Path

from mm_runtime.engine_build.commands.step import StepContext, run_step
from mm_runtime.errors import PermanentError

log = logging.getLogger(__name__)

WEIGHTS = frozenset({".safetensors", ".bin", ".pt", ".pth"})
INDEX = ".index.json"
CODE = ".py"


def processor(context: StepContext) -> None:
    """Copy tokenizer, image processor, chat template and configs.

    Code of the checkpoint's own is only taken where the plan trusts it.
    """
    source, target = context.paths.weights, context.paths.processor
    kept = [path for path in sorted(source.rglob("*")) if _is_kept(path, context)]
    if not kept:
        raise PermanentError(f"{source} holds no configuration; expected config.json at the least.")
    for path in kept:
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    log.info("%d files", len(kept))


def _is_kept(path: Path, context: StepContext) -> bool:
    if path.is_symlink() or not path.is_file() or path.suffix in WEIGHTS:
        return False
    if path.suffix == CODE:
        return context.plan.trust_remote_code
    return not path.name.endswith(INDEX)


if __name__ == "__main__":
    run_step(processor)
