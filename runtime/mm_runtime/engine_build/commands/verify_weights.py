"""Compare the names and shapes of all weights with the modules of the checkpoint's class.

Nothing is computed and no module gets memory. Whether numbers are finite, `fetch` has looked.
"""

import logging
from collections.abc import Iterator
from importlib import metadata, util
from pathlib import Path

from mm_api.documents.model_facts import InspectReason, ModelFacts
from mm_api.evaluation import PROCESS_BYTES
from mm_api.families import FAMILIES
from mm_runtime.base.importing import importing
from mm_runtime.engine_build.checkpoint_steps import has_class
from mm_runtime.engine_build.commands.step import StepContext, run_step
from mm_runtime.engine_build.memory_limit import memory_limit
from mm_runtime.errors import InspectRefusedError, PermanentError, WeightsUnusableError
from mm_runtime.inspect.small_files import JsonObject, read_optional

log = logging.getLogger(__name__)

_OURS = 5
"""First release of transformers that the runtime image holds. TensorRT-LLM's images have older ones
without some classes, and serve such checkpoints all the same."""

_NEEDED = ("torch", "transformers")

_SAID = 400
"""Characters of an error of transformers: some list every class that there is."""


def verify_weights(context: StepContext) -> None:
    """Refuse a checkpoint whose weights are not those of its class.

    Raises:
        PermanentError: the container has too little memory to look, or no torch.
        WeightsUnusableError: as `load_weights`.
    """
    limit = memory_limit()
    if limit is not None and limit < PROCESS_BYTES:
        raise PermanentError(
            f"spec.build.resources.limits.memory lets the build have {limit >> 20} MiB, and to"
            f" compare the weights with their class takes {PROCESS_BYTES >> 20} MiB: raise it."
        )
    if not all(map(util.find_spec, _NEEDED)):
        raise PermanentError(
            "This image has no torch or no transformers, by which weights are compared with the"
            " checkpoint's class: set spec.build.image to one that has both."
        )
    try:
        compare_with_class(context.plan.facts, context.paths.weights)
    except WeightsUnusableError:
        raise
    except Exception as error:
        if context.paths.weights == context.paths.llm or _release() >= _OURS:
            raise  # pods load the same class
        # The inspection ran in this image, and the plan warns of it.
        log.warning("transformers of this image has no class to compare the weights: %s", error)


def _release() -> int:
    return int(metadata.version("transformers").partition(".")[0])


def compare_with_class(facts: ModelFacts, folder: Path) -> None:
    """Load the class of a checkpoint, or of its language model, onto no device."""
    # Torch alone is more than a container may have that had only to copy files.
    with importing():
        from mm_runtime.engine_build.commands.towers import vila  # noqa: PLC0415
        from mm_runtime.reference_engine.language_model import load_nowhere  # noqa: PLC0415

    family = FAMILIES[facts.family]
    load_nowhere(family, folder, facts.quantization)
    if family.checkpoint.in_parts:
        vila.read_parts(folder, facts, device_map="meta")
    log.info("the weights are those of the checkpoint's class")


def refuse_other_class(facts: ModelFacts, folder: Path) -> str | None:
    """Refuse a checkpoint that its class does not load, from configurations and headers alone.

    Returns why the two could not be compared, and what does it; None: they were.

    Raises:
        InspectRefusedError: `WeightsInvalid`: weights are missing, left over, or have another
            shape; `ConfigInvalid`: the class cannot be made of config.json.
    """
    if unseen := _unseen(facts):
        return unseen
    try:
        compare_with_class(facts, folder)
    except WeightsUnusableError as error:
        raise InspectRefusedError(InspectReason.WEIGHTS_INVALID, str(error)) from error
    except Exception as error:
        # Whatever a class does with a value that it does not know, pods would do the same.
        said = " ".join(f"{type(error).__name__}: {error}".split())
        version = metadata.version("transformers")
        if _release() < _OURS:
            return f"transformers {version} of the image cannot make it ({said[:_SAID]})"
        stated = ", ".join(_quoted(read_optional(folder / "config.json"), said))
        raise InspectRefusedError(
            InspectReason.CONFIG_INVALID,
            f"transformers {version} cannot make the class of config.json"
            f"{stated and f' ({stated})'}: {said[:_SAID].rstrip('.')}. Correct the value, or use"
            " the config.json that was published with these weights.",
        ) from error
    return None


def _unseen(facts: ModelFacts) -> str:
    """Return why a class cannot be looked at here; empty: it can."""
    if facts.weight_format != "safetensors":
        return "pickles have no headers; the build compares them where it makes safetensors of them"
    if not has_class(facts):
        return f"transformers has no class of just these parts of family {facts.family}"
    if all(map(util.find_spec, _NEEDED)):
        return ""
    return "the image of the inspection has no torch or no transformers; the build compares them"


def _quoted(config: JsonObject, said: str, prefix: str = "") -> Iterator[str]:
    """Yield the keys of a configuration whose texts an error quotes."""
    for key, value in config.items():
        if isinstance(value, dict):
            yield from _quoted(value, said, f"{prefix}{key}.")
        elif value and any(form % (value,) in said for form in ("'%s'", '"%s"', ": %s.")):
            yield f"{prefix}{key} is {value!r}"


if __name__ == "__main__":
    run_step(verify_weights)
