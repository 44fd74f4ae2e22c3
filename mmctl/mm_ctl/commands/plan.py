"""`mmctl plan -f FILE (--checkpoint PLACE | --facts FILE)`: the plan, without a cluster."""

import argparse
import json
import sys
from collections.abc import Iterable
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from pydantic import ValidationError

from mm_api.backends import BACKENDS
from mm_api.documents.model_facts import InspectResult, ModelFacts
from mm_api.documents.model_plan import ModelPlan
from mm_api.documents.trtllm_build import GpuModel
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_api.v1alpha1.quantity import bytes_of
from mm_api.v1alpha1.validation import validate, without_nulls
from mm_ctl.commands.checkpoint_folder import facts_of_checkpoint, facts_of_folder
from mm_ctl.commands.memory_bars import bars_of
from mm_ctl.commands.plan_table import as_table
from mm_ctl.documents import UsageError, name_of, read_model, read_text
from mm_operator.plan.engine.bottleneck import measured
from mm_operator.plan.engine.gpu import choose_gpu, computes_on_gpu
from mm_operator.plan.engine.model_plan import model_plan
from mm_operator.plan.engine.request import Inputs
from mm_operator.plan.engine.serve_command import as_script, folded
from mm_operator.plan.engine.tables import gpu_names, gpu_of
from mm_operator.settings import BUILDER_VERSION
from mm_runtime.inspect.checkpoint import InspectOptions

FITS, INVALID, DOES_NOT_FIT = 0, 2, 3
_GPU_OPTIONS = ("gpu", "gpu_memory", "compute_capability")
_UNCOMPARED = (
    "mmctl has no torch. The inspect Job has, and refuses weights outside of layers that are "
    "missing, left over or of another shape, and values of config.json that transformers' class "
    "does not know (rope_type, hidden_act)"
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("-f", "--filename", required=True, help="YAML file with one resource")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--facts",
        help="JSON that mm-runtime inspect printed (- is standard input), or a folder of "
        "config.json and its neighbours, without weights",
    )
    source.add_argument(
        "--checkpoint",
        metavar="PLACE",
        help="the checkpoint: a folder, hf://ORG/NAME@REVISION, s3://BUCKET/PREFIX or "
        "https://ARCHIVE#sha256=DIGEST; it is "
        "inspected as in the cluster, and of weights the headers are read",
    )
    parser.add_argument("--gpu", help=f"the GPU: {', '.join(gpu_names())}, or its product label")
    parser.add_argument("--gpu-memory", help="memory of another GPU, for example 80Gi")
    parser.add_argument("--compute-capability", help="compute capability of that GPU: 9.0")
    parser.add_argument("--image", help="image of build and server; its tag has the version")
    parser.add_argument("--trtllm-version", help="where the tag has none, for example 0.20.0")
    parser.add_argument(
        "-o", "--output", choices=["table", "json", "commands", "html"], default="table"
    )


def run(options: argparse.Namespace) -> int:
    """Print the plan; the exit code says whether it is valid and fits."""
    document = without_nulls(read_model(options.filename))
    if problems := validate(document, to_serve=False):
        for problem in problems:
            print(f"{name_of(document)}: {problem}", file=sys.stderr)
        return INVALID
    planned = _plan(document, options)
    if options.output != "table" or not planned.errors:
        print(_rendered(planned, options.output))
    for error in planned.errors:
        where = f"{error.path}: " if error.path else ""
        print(f"{planned.model}: {where}{error.message} ({error.code})", file=sys.stderr)
    if planned.errors:
        return INVALID
    if planned.fit and planned.fit.verdict == "DoesNotFit":
        print(f"{planned.model}: does not fit: {planned.fit.message}", file=sys.stderr)
        return DOES_NOT_FIT
    return FITS


def _plan(document: dict[str, Any], options: argparse.Namespace) -> ModelPlan:
    facts = _facts(document, options)
    spec = MultimodalModelSpec.model_validate(document["spec"])
    on_gpu = computes_on_gpu(spec, options.image)
    _refuse_unused_options(options, spec, on_gpu=on_gpu)
    gpu = _gpu(options, spec) if on_gpu else None
    planned = model_plan(
        Inputs(
            model=name_of(document),
            spec=spec,
            facts=facts,
            builder_version=BUILDER_VERSION,
            gpu=gpu,
            image=options.image,
            serving_image=options.image,
            given_version=options.trtllm_version,
        )
    )
    found = measured(document.get("status") or {}) or planned.bottleneck
    return planned.model_copy(update={"bottleneck": found})


def _facts(document: dict[str, Any], options: argparse.Namespace) -> ModelFacts:
    model = document["spec"].get("model") or {}
    allowed = InspectOptions(
        family=model.get("family"),
        allow_pickle=bool(model.get("allowPickle")),
        trust_remote_code=bool(model.get("trustRemoteCode")),
    )
    if options.checkpoint:
        facts = facts_of_checkpoint(options.checkpoint, allowed, mirror=_mirror(document))
    elif options.facts != "-" and Path(options.facts).is_dir():
        facts = facts_of_folder(Path(options.facts), allowed)
    else:
        return _inspected(read_text(options.facts), options.facts)
    return facts.model_copy(update={"uncompared": _UNCOMPARED})


def _mirror(document: dict[str, Any]) -> str | None:
    spec = MultimodalModelSpec.model_validate(document["spec"])
    hub = spec.model.source.hugging_face
    return (hub and hub.endpoint) or spec.network.hub_endpoint


def _inspected(text: str, name: str) -> ModelFacts:
    """Return the facts of an inspection's result, or of a document that is the facts alone."""
    try:
        if "facts" not in json.loads(text) and "error" not in json.loads(text):
            return ModelFacts.from_json(text)
        result = InspectResult.from_json(text)
    except (ValidationError, ValueError, TypeError) as error:
        why = str(error).partition("\n")[0]
        raise UsageError(
            f"{name} is not what mm-runtime inspect prints ({why}): give that, or the folder of "
            "config.json"
        ) from error
    if result.facts is None:
        why = result.error.message if result.error else "it holds no facts"
        raise UsageError(f"{name}: the inspection failed: {why}")
    return result.facts


def _refuse_unused_options(
    options: argparse.Namespace, spec: MultimodalModelSpec, *, on_gpu: bool
) -> None:
    """Refuse options that would change nothing: a user expects that each acts."""
    if not on_gpu and (given := _given(options, _GPU_OPTIONS)):
        raise UsageError(
            f"{given}: the spec plans for processors (backend Reference, runtime.gpu.count 0; or "
            "vLLM for CPUs): leave it out, or set spec.runtime.gpu.count to 1 or another "
            "spec.engine.backend"
        )
    if not spec.engine.traits.uses_trtllm and (given := _given(options, ("trtllm_version",))):
        raise UsageError(
            f"{given}: backend {spec.engine.backend} has no TensorRT-LLM: leave it out"
        )


def _gpu(options: argparse.Namespace, spec: MultimodalModelSpec) -> GpuModel:
    """Return the GPU of the options, else the one that the spec names."""
    if options.gpu:
        if given := _given(options, _GPU_OPTIONS[1:]):
            raise UsageError(f"{given} does not go with --gpu, which names a known GPU: give one")
        return gpu_of(options.gpu)
    if options.gpu_memory or options.compute_capability:
        if not (options.gpu_memory and options.compute_capability):
            raise UsageError("--gpu-memory and --compute-capability belong together: give both")
        try:
            size = bytes_of(options.gpu_memory)
        except ValueError as error:
            raise UsageError(f"--gpu-memory: {error}") from error
        if size < 1:
            raise UsageError("--gpu-memory must be above zero, for example 80Gi")
        return GpuModel(
            product="custom", memory_bytes=size, compute_capability=options.compute_capability
        )
    requested = spec.runtime.gpu
    if requested.product or spec.build.gpu.product or requested.memory is not None:
        return choose_gpu(spec, (), None)
    raise UsageError(
        "the GPU is not known: give --gpu (mmctl plan --help lists them), or --gpu-memory and "
        "--compute-capability, or set spec.runtime.gpu.product"
    )


def _rendered(planned: ModelPlan, output: str) -> str:
    match output:
        case "json":
            return planned.to_json(indent=2)
        case "commands":
            return as_commands(planned)
        case "html":
            return as_html(planned)
        case _:
            return as_table(planned)


def as_html(planned: ModelPlan) -> str:
    """Return a page in one file: the memory as bars, and the table."""
    page = Path(__file__).parent.parent / "page"
    text = {name: (page / name).read_text() for name in ("plan.html", "style.css", "bars.js")}
    bars = json.dumps(bars_of(json.loads(planned.to_json()))).replace("<", "\\u003c")
    return Template(text["plan.html"]).substitute(
        title=escape(planned.model),
        table=escape(as_table(planned)),
        style=text["style.css"],
        script=text["bars.js"],
        bars=bars,
    )


def _given(options: argparse.Namespace, names: Iterable[str]) -> str:
    given = (name for name in names if getattr(options, name) is not None)
    return ", ".join(f"--{name.replace('_', '-')}" for name in given)


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
