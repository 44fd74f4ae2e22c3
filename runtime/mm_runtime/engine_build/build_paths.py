"""PURE: where a build keeps what, inside the store and inside its working directory."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.engine_manifest import (
    ADAPTERS_FOLDER,
    CHECKPOINT_FOLDER,
    MANIFEST_NAME,
    TOKENIZER_FOLDER,
)
from mm_api.documents.evaluation import EVALUATION_NAME
from mm_api.families import FAMILIES
from mm_api.trtllm_layout import GUIDED_FOLDER
from mm_runtime.base.chat_template_files import NAMED_FOLDER

PROCESSOR_PREFIXES = (
    "tokenizer",
    "preprocessor_config",
    "processor_config",
    "image_processor",
    "video_preprocessor",
    "chat_template",
    "special_tokens_map",
    "added_tokens",
    "vocab",
    "merges",
    "spiece",
    "sentencepiece",
)
"""Beginnings of the names of files that belong to tokenizer and image processor."""

PICKLE_SUFFIXES = frozenset({".bin", ".pt", ".pth"})


@dataclass(frozen=True, slots=True)
class BuildPaths:
    """Directories and files of one build.

    The working directory lies in the store too: the engine is moved to its final name by a rename,
    which is atomic only inside one file system, and a build that was killed finds what it had done.
    """

    store: Path
    fingerprint: str
    checkpoint: str = ""
    """Folder of the tree that the plan's commands read the checkpoint from. Empty: none run, and
    the checkpoint's files are part of the engine."""

    staged: bool = False
    """The engine is the checkpoint itself, every file of it in one folder, for trtllm-serve."""

    keeps_pickles: bool = False
    """The tools read pickles themselves: FairSeq's and OpenAI's checkpoints are nothing else."""

    @classmethod
    def of(cls, store: Path, plan: BuildPlan) -> Self:
        """Return the paths of a plan's build."""
        if plan.trtllm is None:
            return cls(store, plan.fingerprint, staged=plan.engine.traits.stages)
        recipe = FAMILIES[plan.engine.family].trtllm
        return cls(
            store,
            plan.fingerprint,
            checkpoint=recipe.checkpoint_folder,
            keeps_pickles=recipe.reads_pickles,
        )

    @property
    def engine(self) -> Path:
        """The finished engine; exists only when complete."""
        return self.store / "engines" / self.fingerprint

    @property
    def manifest(self) -> Path:
        return self.engine / MANIFEST_NAME

    @property
    def lock(self) -> Path:
        return self.store / "engines" / ".locks" / self.fingerprint

    @property
    def unused(self) -> Path:
        """Since when no model needs the engine; written by `store gc`, removed by the next user."""
        return self.store / "engines" / ".unused" / self.fingerprint

    @property
    def work(self) -> Path:
        """Working directory, removed after success."""
        return self.store / "engines" / ".work" / self.fingerprint

    @property
    def plan(self) -> Path:
        """The plan, as the steps read it."""
        return self.work / "plan.json"

    @property
    def journal(self) -> Path:
        return self.work / "journal.json"

    @property
    def reproduce(self) -> Path:
        return self.work / "reproduce.sh"

    @property
    def logs(self) -> Path:
        return self.work / "logs"

    @property
    def receipt(self) -> Path:
        """What fetch copied, with digests (`FetchReceipt`)."""
        return self.work / "fetched.json"

    @property
    def reference(self) -> Path:
        """Sample images and what torch makes of them (`vision_samples`)."""
        return self.work / "reference.npz"

    @property
    def exported(self) -> Path:
        """The vision half as TensorRT reads it; no part of the engine."""
        return self.work / "exported"

    @property
    def verification(self) -> Path:
        """What verify-vision measured (`Verification`)."""
        return self.work / "verification.json"

    @property
    def evaluation(self) -> Path:
        """The checkpoint's own answers (`Evaluation`), part of the engine."""
        return self.unfinished / EVALUATION_NAME

    @property
    def as_reference(self) -> Path:
        """The checkpoint laid out as the Reference engine reads it, for engines of others."""
        return self.work / "as-reference"

    @property
    def streamed(self) -> Path:
        """For weights that are written again to be read layer by layer."""
        return self.work / "streamed"

    @property
    def pickles(self) -> Path:
        return self.work / "pickles"

    @property
    def tree(self) -> Path:
        """Where the plan's commands run.

        TensorRT-LLM's root as its tools see it: its files, the checkpoint, folder `build`.
        """
        return self.work / "tree"

    @property
    def adapters(self) -> Path:
        """LoRA adapters as Hugging Face has them, one folder a name.

        Reference and vLLM read them as they are, so they are part of their engines.
        """
        return (self.tree if self.checkpoint else self.unfinished) / ADAPTERS_FOLDER

    @property
    def lora(self) -> Path:
        """LoRA adapters as the server's cache takes them, one folder a name."""
        return self.unfinished / "lora"

    @property
    def tools(self) -> Path:
        """Which tools there are, and on which GPU (`ToolReport`)."""
        return self.work / "tools.json"

    @property
    def engines_report(self) -> Path:
        """What verify-engines compared (`EngineReport`)."""
        return self.work / "engines.json"

    @property
    def weights(self) -> Path:
        if self.checkpoint:
            return self.tree / self.checkpoint
        return self.staged_checkpoint if self.staged else self.llm

    @property
    def staged_checkpoint(self) -> Path:
        """The checkpoint that trtllm-serve or vLLM reads."""
        return self.unfinished / CHECKPOINT_FOLDER

    @property
    def folders(self) -> tuple[Path, ...]:
        """What must exist before the first step."""
        own = (self.logs, self.pickles, self.weights)
        if self.staged:
            return own
        return (*own, self.processor) if self.checkpoint else (*own, self.processor, self.vision)

    @property
    def unfinished(self) -> Path:
        return self.work / "engine"

    @property
    def llm(self) -> Path:
        return self.unfinished / "llm"

    @property
    def vision(self) -> Path:
        return self.unfinished / "vision"

    @property
    def processor(self) -> Path:
        """Tokenizer, image processor and chat template."""
        return self.unfinished / "processor"

    @property
    def tokenizer(self) -> Path:
        """What is made of a checkpoint's tokenizer when servers cannot read it."""
        return self.unfinished / TOKENIZER_FOLDER

    @property
    def guided(self) -> Path:
        return self.unfinished / GUIDED_FOLDER

    @property
    def checkpoint_tokenizer(self) -> Path:
        return self.weights if self.staged or self.checkpoint else self.processor

    def fetched(self, name: str) -> Path:
        """Return where a file of the checkpoint goes."""
        if Path(name).suffix in PICKLE_SUFFIXES and not self.keeps_pickles:
            return self.pickles / name
        if self.checkpoint or self.staged:
            return self.weights / name
        # VILA keeps its tokenizer in `llm/` and its image processor in `vision_tower/`.
        belongs = name.startswith(NAMED_FOLDER) or Path(name).name.startswith(PROCESSOR_PREFIXES)
        return (self.processor if belongs else self.weights) / name
