"""`mmctl families`: each family and the backends that serve it, what it reads, since when.

`-o wide` adds a row for each class of transformers without a record, with what becomes of its
checkpoints. `mmctl families NAME` describes one family.
"""

import argparse
import json
from collections.abc import Iterator, Sequence

from mm_api.backends import PYTORCH, REFERENCE, TENSORRT, VLLM
from mm_api.families import FAMILIES
from mm_api.families.family import Family
from mm_api.families.known_classes import CLASSES, why_not
from mm_api.families.upstream_classes import CLASSES as PYTORCH_CLASSES
from mm_api.vllm_classes import VERSIONS, vllm_since
from mm_ctl.documents import UsageError
from mm_operator.plan.engine.tables import table

HELP = "list the model families and the backends that serve them"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("family", nargs="?", metavar="NAME", help="describe this family alone")
    parser.add_argument("-o", "--output", choices=["table", "wide", "json"], default="table")


def run(options: argparse.Namespace) -> int:
    """Print the families.

    Raises:
        UsageError: no family has the name.
    """
    if options.family is not None and options.family not in FAMILIES:
        raise UsageError(
            f"{options.family} is not a family: mmctl families lists them; expected one of"
            f" {', '.join(FAMILIES)}"
        )
    chosen = [FAMILIES[options.family]] if options.family else list(FAMILIES.values())
    if options.output == "json":
        print(json.dumps([row(family) for family in chosen], indent=2))
        return 0
    rows = [_TITLES, *(one for family in chosen for one in support(family))]
    print("\n".join(_aligned(rows)))
    if options.family:
        print("\n" + _details(chosen[0]))
    elif options.output == "wide":
        print("\n" + "\n".join(_aligned([_CLASS_TITLES, *classes()])))
    return 0


_TITLES = ("FAMILY", "BACKEND", "READS", "VERSION")
_CLASS_TITLES = ("MODEL TYPE", "CLASS", "AS GENERIC")


def _aligned(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Yield a line for each row, with cells below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def classes() -> Iterator[tuple[str, str, str]]:
    """Yield model_type, class and what becomes of it, for each class that has no record."""
    own = {family.model_type for family in FAMILIES.values()}
    for kind, known in CLASSES.items():
        if kind not in own:
            why = why_not({"model_type": kind})
            yield kind, known["class"], "served" if why is None else f"refused: {why}"


def support(family: Family) -> Iterator[tuple[str, str, str, str]]:
    """Yield a row for each backend that serves a family, or one that says that none does."""
    versions = table("images")
    engines, pytorch = versions["engines"], versions["pytorch"]["first"]
    rows: list[tuple[str, str, str]] = []
    if family.is_served(REFERENCE.name):
        rows.append((REFERENCE.name, _reads(family, video=True), "-"))
    if family.is_served(TENSORRT.name):
        reads = _reads(family, video=family.trtllm.videos)
        since = family.trtllm.since or engines["first"]
        rows.append((TENSORRT.name, reads, f"TensorRT-LLM {since} to {engines['last']}"))
    if (served := family.pytorch) is not None:
        reads = _reads(family, video=False) if served.images else "text"
        rows.append((PYTORCH.name, reads, f"TensorRT-LLM {served.since or pytorch} or newer"))
        if served.videos_since:
            reads = _reads(family, video=True)
            rows.append((PYTORCH.name, reads, f"TensorRT-LLM {served.videos_since} or newer"))
    for kind, server in PYTORCH_CLASSES.items() if not family.architectures else ():
        reads = "text, image" if server.images else "text"
        rows.append((f"PyTorch, {kind}", reads, f"TensorRT-LLM {server.since or pytorch} or newer"))
    if (vllm := vllm_since(family.architectures, chats=family.chats)) or not family.architectures:
        by_class = "" if vllm else ", by its registry"
        reads = _reads(family, video=False)
        rows.append((VLLM.name, reads, f"vLLM {vllm or VERSIONS[0]} or newer{by_class}"))
    for one in rows or [("none", "-", "-")]:
        yield (family.name, *one)


def _reads(family: Family, *, video: bool) -> str:
    if family.reads_audio:
        return "audio"
    shown = ["text", *(["image"] if family.sees else [])]
    if family.audio_features is not None:
        shown.append("audio")
    if video and family.layout.video_features is not None:
        shown.append("video")
    return ", ".join(shown)


def row(family: Family) -> dict[str, object]:
    """Return what is to be known about a family, as JSON values."""
    return {
        "name": family.name,
        "title": family.title,
        "backends": list(dict.fromkeys(backend for _, backend, *_ in support(family))),
        "architectures": list(family.architectures),
        "kind": family.kind.value,
        "dtypes": list(family.dtypes),
        "dtypeReason": family.dtype_reason,
        "contextFmha": dict(family.trtllm.build_flags).get("context_fmha") != "disable",
        "converter": family.trtllm.converter,
        "plugins": dict(family.trtllm.build_flags),
        "visionType": family.trtllm.vision_type,
        "maxImagesPerRequest": family.trtllm.max_images,
        "video": family.layout.video_features is not None,
        "defaultInputTokens": family.default_input_tokens,
        "defaultOutputTokens": family.default_output_tokens,
        "defaultEncoderTokens": family.default_encoder_tokens,
        "tensorParallel": family.trtllm.tensor_parallel,
        "pipelineParallel": family.trtllm.pipeline_parallel,
        "quantizations": list(family.trtllm.quantizations),
        "promptTemplate": family.serving.prompt_template,
        "tritonModels": list(family.serving.models),
        "clientTensors": list(family.serving.client_tensors),
        "notes": list(family.notes),
        "engineNotes": list(family.trtllm.notes),
    }


def _details(family: Family) -> str:
    text = [
        f"{family.title}",
        f"  checkpoints  {', '.join(family.architectures) or family.transformers_class}",
        f"  dtypes       {', '.join(family.dtypes)}: {family.dtype_reason}",
        f"  Triton       {', '.join(family.serving.models)}",
        f"  clients send {', '.join(family.serving.client_tensors)}",
    ]
    text += [f"  note         {note}" for note in family.notes]
    text += [f"  TensorRT     {note}" for note in family.trtllm.notes]
    return "\n".join(text)
