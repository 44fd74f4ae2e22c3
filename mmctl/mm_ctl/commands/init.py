"""`mmctl init PLACE`: a manifest with comments for a checkpoint, planned for a GPU that holds it.

Backends and GPUs are tried in an order, and the first that fits is written. What no GPU holds as it
is gets the planner's cheapest change.
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from mm_api import labels
from mm_api.backends import BACKENDS, REFERENCE, VLLM
from mm_api.documents.model_plan import ModelPlan
from mm_api.documents.trtllm_build import GpuModel
from mm_api.families import FAMILIES
from mm_api.sentences import size
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_api.v1alpha1.validation import validate
from mm_ctl.commands.checkpoint_folder import facts_of_checkpoint, facts_of_folder
from mm_ctl.connection import add_connection_options, connection
from mm_ctl.documents import UsageError
from mm_operator.cluster.nodes import gpu_node
from mm_operator.cluster.resources import NODE
from mm_operator.plan.engine.gpu import choose_gpu
from mm_operator.plan.engine.model_plan import model_plan
from mm_operator.plan.engine.request import Inputs
from mm_operator.plan.engine.tables import gpu_names, gpu_of
from mm_operator.settings import BUILDER_VERSION
from mm_runtime.errors import PermanentError
from mm_runtime.inspect.checkpoint import InspectOptions
from mm_runtime.sources.address import ArchiveAddress, BucketAddress, HubAddress, parse_address

WRITTEN, DOES_NOT_FIT = 0, 3
NO_GPU = "none"
_REQUESTS = 8
_LONGEST_NAME = 40


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add = parser.add_argument
    add(
        "place",
        help="hf://ORG/NAME[@REVISION], s3://BUCKET/PREFIX, https://ARCHIVE#sha256=DIGEST, or a "
        "folder on this machine",
    )
    add("--facts", type=Path, help="folder with the small files of the checkpoint, read instead")
    add("--gpu", help=f"{', '.join(gpu_names())} or {NO_GPU}; default: the cluster's nodes say")
    add(
        "--backend", choices=sorted(BACKENDS), help="default: VLLM where it serves it, else another"
    )
    add("--name", help="name of the model; default: the checkpoint's")
    add("--claim", default="checkpoints", help="PersistentVolumeClaim that a folder is copied to")
    add("--image", help="image of the server; default: the chart's")
    add_connection_options(parser)


async def run(options: argparse.Namespace) -> int:
    """Print the manifest; exit code 3, and the reason, where nothing fits."""
    source, name = _source(options)
    allowed = InspectOptions()
    if options.facts:
        facts = facts_of_folder(options.facts, allowed)
    else:
        facts = facts_of_checkpoint(options.place, allowed)
    served = FAMILIES[facts.family].backends
    usual = [one.name for one in (VLLM, REFERENCE) if one.name in served]
    backends = [options.backend] if options.backend else usual
    gpus = await _gpus(options, source)

    def planned(spec: dict[str, Any], gpu: GpuModel | None) -> ModelPlan:
        known = MultimodalModelSpec.model_validate(spec)
        image = options.image
        return model_plan(
            Inputs(name, known, facts, BUILDER_VERSION, gpu, image, serving_image=image)
        )

    limits = {"maxBatchSize": _REQUESTS}
    if FAMILIES[facts.family].sees:
        limits["maxImagesPerRequest"] = 1
    tries = [
        (_spec(source, {"backend": backend, **limits}, gpu), gpu)
        for backend, gpu in product(backends, gpus)
        if gpu or not BACKENDS[backend].needs_gpu
    ]
    tried: list[ModelPlan] = []
    for document, plan in _candidates(planned, tries):
        if not plan.errors and plan.fit and plan.fit.verdict == "Fits":
            print(manifest(document, plan, options, served))
            return WRITTEN
        tried.append(plan)
    for plan in tried:
        why = "; ".join(one.message for one in plan.errors) or (plan.fit and plan.fit.message)
        where = plan.gpu.product if plan.gpu else "processors"
        print(f"{plan.backend} on {where}: {why}", file=sys.stderr)
    return DOES_NOT_FIT


def _source(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Return `spec.model.source`, and a name for the model."""
    try:
        address = parse_address(options.place)
    except PermanentError as error:
        raise UsageError(str(error)) from error
    source: dict[str, Any]
    match address:
        case HubAddress(last, revision):
            source = {"huggingFace": {"repo": last, "revision": revision}}
        case BucketAddress(bucket, prefix):
            last = prefix or bucket
            source = {"s3": {"bucket": bucket, "prefix": prefix}}
        case ArchiveAddress(url, sha256):
            last = url.rpartition(".tar.")[0]
            source = {"archive": {"url": url, "sha256": sha256}}
        case folder:
            last = folder.resolve().name
            source = {"persistentVolumeClaim": {"claimName": options.claim, "path": last}}
    made = re.sub(r"[^a-z0-9]+", "-", last.rpartition("/")[2].lower())[:_LONGEST_NAME]
    return source, options.name or made.strip("-")


async def _gpus(options: argparse.Namespace, source: dict[str, Any]) -> Sequence[GpuModel | None]:
    """Return the GPUs to try, the smallest first; None: processors."""
    if options.gpu == NO_GPU:
        return [None]
    if options.gpu:
        return [gpu_of(options.gpu)]
    async with connection(options) as there:
        found = [gpu_node(item) for item in await there.list(NODE, selector=labels.GPU_PRODUCT)]
    described: list[GpuModel] = []
    for name in sorted({node.product for node in found}):
        runtime = {"gpu": {"count": 1, "product": name}}
        spec = MultimodalModelSpec.model_validate({"model": {"source": source}, "runtime": runtime})
        described.append(choose_gpu(spec, tuple(found), None))
    if not described:
        raise UsageError(
            f"no node has the label {labels.GPU_PRODUCT}: give --gpu, or --gpu {NO_GPU} to serve "
            "on processors"
        )
    described.sort(key=lambda gpu: gpu.memory_bytes)
    return described


def _spec(source: dict[str, Any], engine: dict[str, Any], gpu: GpuModel | None) -> dict[str, Any]:
    runtime = {"runtime": {"gpu": {"count": 1, "product": gpu.product}}} if gpu else {}
    return {"model": {"source": source}, "engine": engine, **runtime}


def _candidates(
    planned: Callable[[dict[str, Any], GpuModel | None], ModelPlan],
    tries: Sequence[tuple[dict[str, Any], GpuModel | None]],
) -> Iterator[tuple[dict[str, Any], ModelPlan]]:
    """Yield specs with their plans: first each as it is, then each with changes that fit."""
    plans = [(spec, gpu, planned(spec, gpu)) for spec, gpu in tries]
    yield from ((spec, plan) for spec, _, plan in plans)
    for spec, gpu, plan in plans:
        for suggestion in plan.fit.suggestions[:1] if plan.fit else ():
            for change in suggestion.changes:
                _set(spec, change.path, change.suggested)
            if gpu:
                spec["runtime"]["gpu"]["count"] = suggestion.gpus
            yield spec, planned(spec, gpu)


def _set(spec: dict[str, Any], path: str, value: str) -> None:
    *parents, last = path.removeprefix("spec.").split(".")
    for parent in parents:
        spec = spec.setdefault(parent, {})
    spec[last] = yaml.safe_load(value)


def manifest(
    spec: dict[str, Any], plan: ModelPlan, options: argparse.Namespace, served: Sequence[str]
) -> str:
    """Return the manifest's text, with a comment where the plan says why."""
    others = ", ".join(one for one in served if one != plan.backend) or "no other one"
    notes = {
        "revision": "a commit never changes; a branch is pinned when the model is planned",
        "path": f"mmctl upload {options.place} --claim {options.claim} --path PATH --image IMAGE",
        "backend": f"this checkpoint is also served by {others}",
        "maxBatchSize": "requests that are computed at the same time",
        "maxImagesPerRequest": "each more takes memory and a part of maxSeqLen",
        "tensor": "the model is split over so many GPUs",
        "quantization": "compare answers before you rely on it: mmctl compare",
        "product": "label nvidia.com/gpu.product of the nodes",
    }
    if plan.limits and plan.memory:
        held = plan.memory.full_length_sequences
        length = plan.limits.max_seq_len
        notes["maxBatchSize"] += f"; the KV cache holds {held} of {length:,} tokens"
    head = f"# {options.place}: {plan.family} on {plan.backend}"
    if plan.gpu and plan.memory:
        taken, there = max(one.total_bytes for one in plan.memory.per_gpu), plan.gpu.memory_bytes
        head += f", {size(taken)} of the {size(there)} of {plan.gpu.product}"
    head_of = {"apiVersion": labels.API_VERSION, "kind": labels.KIND}
    document = {**head_of, "metadata": {"name": plan.model}, "spec": spec}
    if problems := validate(document):
        raise UsageError(f"{problems[0]} (--name)")
    text = yaml.safe_dump(document, sort_keys=False)
    lines = [head, "# mmctl plan -f FILE --checkpoint PLACE has every byte; kubectl apply -f FILE"]
    for line in text.splitlines():
        note = notes.get(line.strip().partition(":")[0])
        lines.append(f"{line}  # {note}" if note else line)
    return "\n".join(lines)
