"""Where the parts of a built engine lie, and the facts and limits they were built with."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mm_api.documents.build_plan import EngineLimits, VisionPlan
from mm_api.documents.engine_manifest import (
    ADAPTERS_FOLDER,
    CHECKPOINT_FOLDER,
    MANIFEST_NAME,
    TOKENIZER_FOLDER,
    EngineManifest,
)
from mm_api.documents.model_facts import ModelFacts
from mm_api.modalities import sees_images
from mm_api.trtllm_layout import GUIDED_FOLDER, TOKENIZER_INFO, folder_in_engine
from mm_runtime.images.processor_config import read_json


@dataclass(frozen=True)
class EngineDirectory:
    """One engine on disk. Digests were checked before serving, so files are trusted here."""

    root: Path
    manifest: EngineManifest

    @classmethod
    def open(cls, root: Path) -> "EngineDirectory":
        """Read the manifest.

        Raises:
            OSError: no manifest there.
            pydantic.ValidationError: it is not a manifest of this version.
        """
        return cls(root, EngineManifest.from_json((root / MANIFEST_NAME).read_bytes()))

    @property
    def checkpoint(self) -> Path | None:
        """The full checkpoint as it was staged for backend PyTorch; None for other backends."""
        staged = self.manifest.plan.engine.traits.stages
        return self.root / CHECKPOINT_FOLDER if staged else None

    @property
    def llm(self) -> Path:
        if self.checkpoint is None:
            return self.root / "llm"
        return _holding("config.json", self.checkpoint / "llm", self.checkpoint)

    @property
    def configs(self) -> Path:
        """Folder of the checkpoint's own config.json and generation_config.json.

        An engine of TensorRT-LLM has a config.json of its own; the checkpoint's is kept with the
        processor.
        """
        native = self.manifest.plan.engine.traits.builds_engines
        return self.processor if native else self.llm

    @property
    def generation(self) -> dict[str, Any]:
        """The checkpoint's generation_config.json; empty: it has none."""
        return read_json(self.configs / "generation_config.json")

    @property
    def vision_folder(self) -> Path:
        """Folder of the vision engine, by the name that its builder's version gives it."""
        build = self.manifest.plan.trtllm
        return self.root / (folder_in_engine("vision", build.version) if build else "vision")

    @property
    def processor(self) -> Path:
        return self.checkpoint or self.root / "processor"

    @property
    def tokenizer(self) -> Path:
        """Folder of the tokenizer.

        VILA keeps it with its language model's files; one that the build made lies by itself.
        """
        own = _holding("tokenizer.json", self.processor, self.processor / "llm")
        return _holding("tokenizer.json", own, self.root / TOKENIZER_FOLDER)

    @property
    def tokenizer_info(self) -> Path | None:
        """The tokenizer's table for answers of a form; None: TensorRT-LLM has none of it."""
        build = self.manifest.plan.trtllm
        if build is None or build.tokenizer_info is None:
            return None
        return self.root / GUIDED_FOLDER / TOKENIZER_INFO

    @property
    def image_processor(self) -> Path:
        """Folder of the image processor; VILA keeps it with its tower's files."""
        name = "preprocessor_config.json"
        return _holding(name, self.processor, self.processor / "vision_tower")

    @property
    def adapters(self) -> Path:
        """Folder of the LoRA adapters that a Reference engine serves, one folder a name."""
        return self.root / ADAPTERS_FOLDER

    @property
    def facts(self) -> ModelFacts:
        return self.manifest.plan.facts

    @property
    def limits(self) -> EngineLimits:
        return self.manifest.plan.engine.limits

    @property
    def sees(self) -> bool:
        """Whether requests may have images, encoded or read by the checkpoint's own class."""
        return sees_images(self.manifest.plan.engine)

    @property
    def vision(self) -> VisionPlan | None:
        """How images are encoded; None for a text-only engine, and where no tower is exported."""
        return self.manifest.plan.engine.vision


def _holding(name: str, first: Path, other: Path) -> Path:
    return other if not (first / name).is_file() and (other / name).is_file() else first
