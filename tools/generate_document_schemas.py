"""Write docs/schemas: the JSON schema of each document that others may read.

python tools/generate_document_schemas.py           write
python tools/generate_document_schemas.py --check   exit 1 when a file is not what the types say
"""

import json
import sys
from pathlib import Path
from typing import Final

from generated_files import settle
from mm_api.base import Document
from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.engine_manifest import EngineManifest
from mm_api.documents.model_facts import InspectResult, ModelFacts
from mm_api.documents.model_plan import ModelPlan
from mm_api.documents.serving_plan import ServingPlan

ROOT = Path(__file__).resolve().parent.parent

DOCUMENTS: Final[dict[str, type[Document]]] = {
    "build-plan": BuildPlan,
    "engine-manifest": EngineManifest,
    "inspect-result": InspectResult,
    "model-facts": ModelFacts,
    "model-plan": ModelPlan,
    "serving-plan": ServingPlan,
}
"""Name of the file -> its document."""


def files(root: Path) -> dict[Path, str]:
    """Return every generated file below `root` with its content."""
    return {
        root / "docs" / "schemas" / f"{name}.schema.json": json.dumps(
            {
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                **kind.model_json_schema(by_alias=True, mode="serialization"),
            },
            indent=2,
        )
        + "\n"
        for name, kind in DOCUMENTS.items()
    }


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Write or check; return the exit code."""
    return settle(files(root), arguments, root)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
