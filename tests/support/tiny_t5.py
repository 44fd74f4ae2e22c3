"""The committed tiny T5: where it lies, and sentences with known translations."""

import json
from dataclasses import dataclass
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "tiny-t5"
CHECKPOINT = EXAMPLE / "checkpoint"
PREFIX = "translate English to German: "


@dataclass(frozen=True)
class Sentence:
    """One sentence in both languages."""

    english: str
    german: str

    @property
    def prompt(self) -> str:
        return PREFIX + self.english


def sentences() -> list[Sentence]:
    pairs: dict[str, str] = json.loads((EXAMPLE / "sentences.json").read_text())
    return [Sentence(english, german) for english, german in pairs.items()]
