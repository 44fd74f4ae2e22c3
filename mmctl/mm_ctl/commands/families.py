"""`mmctl families`: every family that can be planned, with what each needs."""

import argparse
import json

from mm_api.families import FAMILIES, SERVED
from mm_api.families.family import Family

HELP = "list the model families with what each needs"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")


def run(options: argparse.Namespace) -> int:
    """Print the families."""
    if options.output == "json":
        print(json.dumps([row(family) for family in FAMILIES.values()], indent=2))
        return 0
    for family in FAMILIES.values():
        print(_lines(family))
    return 0


def row(family: Family) -> dict[str, object]:
    """Return what is to be known about a family, as JSON values."""
    return {
        "name": family.name,
        "title": family.title,
        "served": family.name in SERVED,
        "architectures": list(family.architectures),
        "kind": family.kind.value,
        "dtypes": list(family.dtypes),
        "dtypeReason": family.dtype_reason,
        "contextFmha": dict(family.recipe.build_flags).get("context_fmha") != "disable",
        "converter": family.recipe.converter,
        "plugins": dict(family.recipe.build_flags),
        "visionType": family.recipe.vision_type,
        "maxImagesPerRequest": family.max_images,
        "video": family.video_features is not None,
        "defaultInputTokens": family.default_input_tokens,
        "defaultOutputTokens": family.default_output_tokens,
        "defaultEncoderTokens": family.default_encoder_tokens,
        "tensorParallel": family.tensor_parallel,
        "pipelineParallel": family.pipeline_parallel,
        "quantizations": list(family.quantizations),
        "promptTemplate": family.serving.prompt_template,
        "tritonModels": list(family.serving.models),
        "clientTensors": list(family.serving.client_tensors),
        "notes": list(family.notes),
    }


def _lines(family: Family) -> str:
    served = "planned; served on backend Reference" if family.name in SERVED else "planned"
    text = [
        f"{family.name} ({family.title}): {served}",
        f"  checkpoints  {', '.join(family.architectures)}",
        f"  dtypes       {', '.join(family.dtypes)}: {family.dtype_reason}",
        f"  Triton       {', '.join(family.serving.models)}",
        f"  clients send {', '.join(family.serving.client_tensors)}",
    ]
    text += [f"  upstream     {note}" for note in family.notes]
    return "\n".join(text)
