"""Compare the image's TensorRT-LLM and the node's GPU with the plan's, before hours are spent."""

import logging
import shutil
from collections.abc import Sequence

from mm_api.documents.engine_manifest import GpuIdentity
from mm_api.documents.trtllm_build import CUSTOM_PRODUCT, TrtllmBuild
from mm_api.families import FAMILIES
from mm_api.families.family import Family
from mm_api.sentences import a
from mm_runtime.base.durable import write_durably
from mm_runtime.base.tool_versions import query, tool_versions
from mm_runtime.engine_build.commands.step import StepContext, run_step
from mm_runtime.engine_build.receipt import ToolReport
from mm_runtime.errors import PermanentError
from mm_runtime.settings import ROOT_VARIABLE

log = logging.getLogger(__name__)

VILA_FOLDER = "--vila_path"
"""Option of upstream's vision builder."""


def check_tools(context: StepContext) -> None:
    """Write `tools.json`: versions of the tools, and the GPU."""
    build = context.plan.trtllm
    if build is None:
        raise PermanentError("The plan has no commands, which this step needs.")
    _find_programs(context, build)
    if any(one.name == "vision" for one in build.engines):
        _find_packages(FAMILIES[context.plan.engine.family])
    versions = tool_versions()
    found = versions.get("tensorrt_llm")
    if found != build.version:
        raise PermanentError(
            f"The builder image has TensorRT-LLM {found or '(none)'}; the plan was made for"
            f" {build.version}. Set spec.build.image and spec.runtime.image to images of one"
            " version."
        )
    planned = build.gpu
    gpu = gpu_here(
        GpuIdentity(product=planned.product, compute_capability=planned.compute_capability)
    )
    log.info("TensorRT-LLM %s, GPU %s (%s)", found, gpu.product, gpu.compute_capability)
    report = ToolReport(versions=versions, gpu=gpu)
    write_durably(context.paths.tools, report.to_json(indent=1))


def _find_programs(context: StepContext, build: TrtllmBuild) -> None:
    for command in filter(None, (build.convert, *build.engines, build.tokenizer_info)):
        program, *rest = command.argv
        if shutil.which(program) is None:
            raise PermanentError(
                f"{program} is not in the builder image: set spec.build.image to one with"
                f" TensorRT-LLM {build.version}."
            )
        _find_folder(context, rest)
        script = rest[0] if program == "python3" and rest else None
        if script and not (context.paths.tree / script).is_file():
            raise PermanentError(
                f"The builder image has no {script} in TensorRT-LLM's root; TensorRT-LLM"
                f" {build.version} has one there. Set {ROOT_VARIABLE} to the folder that holds"
                f" {script.split('/')[0]}.{_way_out(build, script)}"
            )


def _way_out(build: TrtllmBuild, script: str) -> str:
    if build.tokenizer_info is None or script not in build.tokenizer_info.argv:
        return ""
    return " Without answers of a form: set spec.engine.guidedDecoding to Off."


def _find_folder(context: StepContext, arguments: Sequence[str]) -> None:
    """Check VILA's own code, which upstream's vision builder imports and no image holds."""
    if VILA_FOLDER not in arguments:
        return
    folder = arguments[arguments.index(VILA_FOLDER) + 1]
    if not (context.paths.tree / folder).is_dir():
        raise PermanentError(
            f"The builder image has no folder {folder} in TensorRT-LLM's root, which"
            f" {VILA_FOLDER} names: clone VILA's repository there in an image made of this one."
        )


def _find_packages(family: Family) -> None:
    """Check what upstream's vision builder imports for a family, and its image lacks."""
    wanted = family.trtllm.vision_packages
    found = tool_versions(packages=wanted) if wanted else {}
    if missing := " ".join(one for one in wanted if one not in found):
        raise PermanentError(
            f"The builder image has no package {missing}, which TensorRT-LLM's vision builder"
            f" imports for {family.title}: install it in an image made of this one (python3 -m pip"
            f" install {missing}) and set spec.build.image to that."
        )


def gpu_here(expected: GpuIdentity) -> GpuIdentity:
    """Return the GPU of this machine; PermanentError: it is another one than the plan's."""
    if shutil.which("nvidia-smi") is None:
        raise PermanentError(
            "The container has no nvidia-smi, which NVIDIA's container toolkit puts into containers"
            " with a GPU: set spec.build.runtimeClassName where nodes need one (nvidia), or install"
            " the GPU Operator; without it the build would see no GPU."
        )
    answer = query(["nvidia-smi", "--query-gpu=name,compute_cap", "--format=csv,noheader"])
    for line in (answer or "").splitlines():
        name, _, capability = line.partition(",")
        # As NVIDIA's device plug-in spells the node's label nvidia.com/gpu.product.
        found = GpuIdentity(
            product=name.strip().replace(" ", "-"), compute_capability=capability.strip()
        )
        if not _is(found, expected):
            raise PermanentError(
                f"The node has {a(found.product)} ({found.compute_capability}); the plan was made"
                f" for {expected.product} ({expected.compute_capability}), and an engine runs on"
                " the kind of GPU that built it only. Set spec.build.gpu.product to what serves."
            )
        if expected.product == CUSTOM_PRODUCT:
            return found
    if not answer:
        raise PermanentError(
            "nvidia-smi sees no GPU: the build Job needs one (spec.build.gpu), and its container"
            " NVIDIA's runtime."
        )
    return expected


def _is(found: GpuIdentity, planned: GpuIdentity) -> bool:
    """Return whether a GPU is the planned one, by the name that its node's label gives it.

    GPUs that are cut or shared have a longer name there (README of GPU feature discovery:
    -MIG-1g.5gb and -SHARED), and one that the spec describes by numbers has none.
    """
    named = planned.product in {CUSTOM_PRODUCT, found.product}
    longer = planned.product.startswith((f"{found.product}-MIG-", f"{found.product}-SHARED"))
    return (named or longer) and found.compute_capability == planned.compute_capability


if __name__ == "__main__":
    run_step(check_tools)
