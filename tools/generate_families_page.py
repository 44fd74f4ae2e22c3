"""Write docs/families.md: family x backend x modality x version, as `mmctl families -o wide`.

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

Written from the records of `crds/mm_api/families/`; `mmctl families -o wide` prints this table, and
`pytest tests/families` shows facts, plan, answers and commands of every row.

| family | backend | requests hold | TensorRT-LLM |
| --- | --- | --- | --- |
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
