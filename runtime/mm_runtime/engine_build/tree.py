"""TensorRT-LLM's root as the tools see it, without writing into the image.

The plan's commands name scripts (`examples/...`), the checkpoint and `build`, all relative to that
root. It is a folder of links into the image beside the two folders that are the build's own, so the
commands run word for word as a person would type them.
"""

from pathlib import Path
from typing import Final

from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.trtllm_build import EngineCommand, TrtllmBuild
from mm_api.families import FAMILIES
from mm_api.trtllm_layout import engine_folder
from mm_runtime.engine_build.build_paths import BuildPaths
from mm_runtime.errors import PermanentError
from mm_runtime.settings import ROOT_VARIABLE

OWN = frozenset({"build", "adapters"})

BUILD: Final = "tree/build/"
"""Where commands write."""

ENGINES: Final = "build/engines/"
"""Where commands write engines, seen from the tree: a link to the unfinished engine."""


def link_tree(paths: BuildPaths, root: Path) -> None:
    """Make the tree, or complete what an earlier attempt has left.

    Raises:
        PermanentError: the image has no such root.
    """
    if not root.is_dir():
        raise PermanentError(
            f"TensorRT-LLM's scripts are expected in {root}, which does not exist: set"
            f" spec.build.image to an image with TensorRT-LLM, or {ROOT_VARIABLE} to where it keeps"
            " the folder examples."
        )
    paths.tree.mkdir(parents=True, exist_ok=True)
    for entry in sorted(root.iterdir()):
        if entry.name not in OWN and paths.tree / entry.name != paths.weights:
            _link(paths.tree / entry.name, entry)
    build = paths.tree / "build"
    build.mkdir(exist_ok=True)
    paths.unfinished.mkdir(parents=True, exist_ok=True)
    _link(build / "engines", paths.unfinished)


def _link(link: Path, target: Path) -> None:
    """Make a link, or correct one: another attempt may run in another image."""
    if link.is_symlink():
        if link.readlink() == target:
            return
        link.unlink()
    link.symlink_to(target)


def built_folder(command: EngineCommand, build: TrtllmBuild) -> str:
    """Return where an engine is written, relative to the working directory."""
    return of_tree(engine_folder(command.name, build.version))


def weights_name(plan: BuildPlan) -> str:
    """Return the name of the file that OpenAI's converter reads.

    Raises:
        PermanentError: the converter has no name for these dimensions.
    """
    name_of = FAMILIES[plan.engine.family].trtllm.model_name
    name = name_of(plan.facts) if name_of else None
    if name is None:
        raise PermanentError(
            f"The converter has no name for this checkpoint of family {plan.engine.family}. Let"
            " this version's operator plan again."
        )
    return f"{name}.pt"


def of_tree(path: str) -> str:
    if path.startswith(ENGINES):
        return f"engine/{path.removeprefix(ENGINES)}"
    return BUILD + path.removeprefix("build/")
