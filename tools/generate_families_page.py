"""Write docs/reference/families.md: family x backend x modality x version.

python tools/generate_families_page.py           write
python tools/generate_families_page.py --check   exit 1 when the page is not what the records say
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from generated_files import settle
from mm_api.backends import PYTORCH, REFERENCE, TENSORRT, VLLM
from mm_api.families import FAMILIES
from mm_api.families.family import Family
from mm_api.families.known_classes import CLASSES, TRANSFORMERS, why_not
from mm_api.families.upstream_classes import CLASSES as PYTORCH_CLASSES
from mm_api.vllm_classes import VERSIONS, vllm_since
from mm_operator.plan.engine.tables import table

ROOT = Path(__file__).resolve().parent.parent

_HEAD: Final = """\
# Families: which backend serves what

Written from the records of `crds/mm_api/families/`; `pytest tests/families` shows facts,
plan, answers and commands of every row.

| family | backend | requests hold | version |
| --- | --- | --- | --- |
"""

_LAYOUTS: Final = """
## Families on vLLM alone

The Reference engine does not compute `gemma3`, `idefics3`, `internvl`, `mistral3`, `pixtral`,
`qwen3-vl`, `smolvlm`, `qwen2-audio` and `qwen2-5-omni` (`BackendFamily`,
[why](../decisions/20261129-reference-is-small-again.md)). vLLM serves them, by a manifest such
as this one; `mmctl plan` prints the command and the bytes. Of the last two, the image needs
[packages for recordings](../tasks/vllm.md#recordings).

```yaml
apiVersion: serving.multimodal.dev/v1alpha1
kind: MultimodalModel
metadata:
  name: internvl
spec:
  model:
    source:
      persistentVolumeClaim: {claimName: checkpoints, path: InternVL3-8B-hf}
  engine:
    backend: VLLM
  runtime:
    image: vllm/vllm-openai:v0.26.0
    gpu: {count: 1}
```

## Files of image processors

`image_processor` of processor_config.json is read before preprocessor_config.json, as transformers
5 does; both may be there where they say the same. The inspection refuses a checkpoint with neither,
with an `image_processor_type` that cuts images in another family's way, with tiles of another size
than the tower has positions for, and patches or blocks of another size than the tower's; each
message names file and key. `mmctl plan` refuses the same, but for missing files.
"""

_CLASSES: Final = """
## Classes without a record

`AutoModelForImageTextToText` of transformers {version}. A checkpoint that is of no family above is
`generic` where its class is served ([how](../design/serving.md#any-class-of-transformers)):
answers of those are compared with transformers token for token by `pytest tests/families`. The
others are refused at the inspection (`UnknownFamily`).

| model_type | class | as `generic` |
| --- | --- | --- |
"""


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


def page() -> str:
    """Return the page."""
    rows = [one for family in FAMILIES.values() for one in support(family)]
    lines = [_row(f"`{name}`", *cells) for name, *cells in rows]
    lines.append(_LAYOUTS)
    lines.append(_CLASSES.format(version=TRANSFORMERS))
    lines += [_row(f"`{kind}`", *cells) for kind, *cells in classes()]
    return _HEAD + "".join(lines)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |\n"


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Write or check; return the exit code."""
    return settle({root / "docs" / "reference" / "families.md": page()}, arguments, root)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
