"""Write docs/schemas: the JSON schema of what `mmctl plan -o json` prints, which others may read.

python tools/generate_document_schemas.py           write
python tools/generate_document_schemas.py --check   exit 1 when a file is not what the types say
"""

import json
import sys
from pathlib import Path
from typing import Final

from generated_files import settle
from mm_api.documents.model_plan import ModelPlan

ROOT = Path(__file__).resolve().parent.parent

PLACE: Final = "docs/schemas/model-plan.schema.json"


def files(root: Path) -> dict[Path, str]:
    """Return the generated file below `root` with its content."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **ModelPlan.model_json_schema(by_alias=True, mode="serialization"),
    }
    return {root / PLACE: json.dumps(schema, indent=2) + "\n"}


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Write or check; return the exit code."""
    return settle(files(root), arguments, root)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
