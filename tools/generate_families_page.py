"""Write docs/families.md: family x backend x modality x version, as `mmctl families`.

python tools/generate_families_page.py           write
python tools/generate_families_page.py --check   exit 1 when the page is not what the records say
"""

import sys
from pathlib import Path
from typing import Final

from generated_files import settle
from mm_api.families import FAMILIES
from mm_api.families.known_classes import TRANSFORMERS
from mm_ctl.commands.families import classes, support

ROOT = Path(__file__).resolve().parent.parent

_HEAD: Final = """\
# Families: which backend serves what

Written from the records of `crds/mm_api/families/`; `mmctl families` prints this table, and
`pytest tests/families` shows facts, plan, answers and commands of every row.

| family | backend | requests hold | version |
| --- | --- | --- | --- |
"""

_LAYOUTS: Final = """
## Families on vLLM alone

The Reference engine does not compute `idefics3`, `internvl`, `mistral3`, `pixtral`, `smolvlm`,
`qwen2-audio` and `qwen2-5-omni` (`BackendFamily`,
[why](decisions/20261129-reference-is-small-again.md)). vLLM serves them, by a manifest such as this
one; `mmctl plan` prints the command and the bytes. Of the last two, the image needs
[packages for recordings](vllm.md#recordings).

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

## Folders

NVILA (family `nvila`) in folders, `llm/`, `vision_tower/` and `mm_projector/`, is served on backend
PyTorch, and the Reference engine does not compute it (`BackendFamily`): the manifest is the one
above with `backend: PyTorch` and an image of TensorRT-LLM 1.0 or newer. With `image_aspect_ratio`
`dynamic`, as NVILA-Lite's, an image is cut into up to `max_tiles` tiles and a view, with a newline
a tile. With `dynamic_s2`, as NVILA-8B's, one newline ends the image. Other towers, projectors,
`image_encoder`s and `ps3` are refused by their keys, and checkpoints in one folder with code of
their own by their `model_type`.

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
`generic` where its class is served ([how](serving.md#any-class-of-transformers)): answers of those
are compared with transformers token for token by `pytest tests/families`. The others are refused at
the inspection (`UnknownFamily`).

| model_type | class | as `generic` |
| --- | --- | --- |
"""


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
    return settle({root / "docs" / "families.md": page()}, arguments, root)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
