"""Write docs/families.md: family x backend x modality x version, as `mmctl families -o wide`.

python tools/generate_families_page.py           write
python tools/generate_families_page.py --check   exit 1 when the page is not what the records say
"""

import sys
from pathlib import Path
from typing import Final

from generated_files import settle
from mm_api.families import FAMILIES
from mm_api.families.known_classes import CLASSES, TRANSFORMERS, served_types, why_not
from mm_ctl.commands.families import support

ROOT = Path(__file__).resolve().parent.parent

_HEAD: Final = """\
# Families: which backend serves what

Written from the records of `crds/mm_api/families/`; `mmctl families -o wide` prints this table, and
`pytest tests/families` shows facts, plan, answers and commands of every row.

| family | backend | requests hold | TensorRT-LLM |
| --- | --- | --- | --- |
"""

_CLASSES: Final = """
## Classes without a record

`AutoModelForImageTextToText` of transformers {version}. A checkpoint that is of no family above is
`generic` where its class is served ([how](serving.md#any-class-of-transformers)); the others are
refused at the inspection (`UnknownFamily`). PaliGemma, Aya Vision, Idefics2, Ovis2, VipLlava, Llama
4, Qwen3-VL with experts, GLM-4V and LFM2-VL are compared with transformers token for token; the
rest runs by the same code and was not tried.

| model_type | class | as `generic` |
| --- | --- | --- |
"""


def page() -> str:
    """Return the page."""
    rows = [one for family in FAMILIES.values() for one in support(family)]
    own = {family.model_type for family in FAMILIES.values()}
    others = [kind for kind in CLASSES if kind not in own]
    served = {*served_types()}
    lines = [_row(f"`{name}`", *cells) for name, *cells in rows]
    lines.append(_CLASSES.format(version=TRANSFORMERS))
    lines += [
        _row(
            f"`{kind}`",
            CLASSES[kind]["class"],
            "served" if kind in served else f"refused: {why_not({'model_type': kind})}",
        )
        for kind in others
    ]
    return _HEAD + "".join(lines)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |\n"


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Write or check; return the exit code."""
    return settle({root / "docs" / "families.md": page()}, arguments, root)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
