"""Configurations of real models, one JSON file each: what tests and the planning page plan from."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CONFIGS = Path(__file__).resolve().parent.parent / "tests" / "support" / "model-configs"


@dataclass(frozen=True, slots=True)
class RealModel:
    """One model; the README of the folder says what the keys of its file hold."""

    name: str
    family: str
    parameters: int
    features_per_image: int | None
    files: dict[str, Any]

    def write(self, folder: Path) -> Path:
        """Write the files as the model's repository holds them; return the folder."""
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        return folder


def real_models() -> Iterator[RealModel]:
    """Yield all models, sorted by name."""
    for path in sorted(CONFIGS.glob("*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        yield RealModel(
            name=path.stem,
            family=found["family"],
            parameters=found["parameters"],
            features_per_image=found.get("featuresPerImage"),
            files=found["files"],
        )
