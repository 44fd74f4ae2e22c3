"""PURE: where a build keeps what, inside the store and inside its working directory."""

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
from mm_api.trtllm_layout import GUIDED_FOLDER, TOKENIZER_TABLE
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


class BuildPaths:
    """Directories and files of one build.

    The working directory lies in the store too: the engine is moved to its final name by a rename,
    which is atomic only inside one file system, and a build that was killed finds what it had done.

    `checkpoint`: folder of the tree that the plan's commands read it from; empty: none run, and its
    files are part of the engine. `staged`: the engine is the checkpoint itself, in one folder.
    `keeps_pickles`: the tools read pickles themselves: OpenAI's checkpoints are nothing else.
    """

    def __init__(  # noqa: PLR0915 (one for each path)
        self,
        store: Path,
        fingerprint: str,
        *,
        checkpoint: str = "",
        staged: bool = False,
        keeps_pickles: bool = False,
    ) -> None:
        engines = store / "engines"
        self.store, self.fingerprint = store, fingerprint
        self._keeps_pickles = keeps_pickles
        self.engine = engines / fingerprint
        """The finished engine; exists only when complete."""
        self.manifest = self.engine / MANIFEST_NAME
        self.lock = engines / ".locks" / fingerprint
        self.unused = engines / ".unused" / fingerprint
        """Since when no model needs the engine; written by `store gc`, removed by the next user."""

        self.work = work = engines / ".work" / fingerprint
        """Working directory, removed after success."""
        self.plan = work / "plan.json"
        """The plan, as the steps read it."""
        self.journal = work / "journal.json"
        self.reproduce = work / "reproduce.sh"
        self.logs = work / "logs"
        self.receipt = work / "fetched.json"
        """What fetch copied, with digests (`FetchReceipt`)."""
        self.reference = work / "reference.npz"
        """Sample images and what torch makes of them (`vision_samples`)."""
        self.exported = work / "exported"
        """The vision half as TensorRT reads it; no part of the engine."""
        self.verification = work / "verification.json"
        """What verify-vision measured (`Verification`)."""
        self.as_reference = work / "as-reference"
        """The checkpoint laid out as the Reference engine reads it, for engines of others."""
        self.pickles = work / "pickles"
        self.tools = work / "tools.json"
        """Which tools there are, and on which GPU (`ToolReport`)."""
        self.tree = work / "tree"
        """Where the plan's commands run: TensorRT-LLM's root as its tools see it, with the
        checkpoint and the folder `build`."""

        self.unfinished = work / "engine"
        self.evaluation = self.unfinished / EVALUATION_NAME
        """The checkpoint's own answers (`Evaluation`), part of the engine."""
        self.llm = self.unfinished / "llm"
        self.vision = self.unfinished / "vision"
        self.processor = self.unfinished / "processor"
        """Tokenizer, image processor and chat template."""
        self.tokenizer = self.unfinished / TOKENIZER_FOLDER
        """What is made of a checkpoint's tokenizer when servers cannot read it."""
        self.guided = self.unfinished / GUIDED_FOLDER
        self.tokenizer_table = self.tree / TOKENIZER_TABLE
        self.lora = self.unfinished / "lora"
        """LoRA adapters as the server's cache takes them, one folder a name."""
        self.adapters = (self.tree if checkpoint else self.unfinished) / ADAPTERS_FOLDER
        """LoRA adapters as Hugging Face has them, one folder a name; part of engines of Reference
        and vLLM, which read them as they are."""

        self._in_one_folder = bool(checkpoint) or staged
        if checkpoint:
            self.weights = self.tree / checkpoint
        else:
            self.weights = self.unfinished / CHECKPOINT_FOLDER if staged else self.llm
        self.checkpoint_tokenizer = self.weights if self._in_one_folder else self.processor
        made = () if staged else (self.processor,)
        self.folders = (self.logs, self.pickles, self.weights, *made)
        """What must exist before the first step."""
        if not self._in_one_folder:
            self.folders = (*self.folders, self.vision)

    @classmethod
    def of(cls, store: Path, plan: BuildPlan) -> Self:
        if plan.trtllm is None:
            return cls(store, plan.fingerprint, staged=plan.engine.traits.stages)
        recipe = FAMILIES[plan.engine.family].trtllm
        return cls(
            store,
            plan.fingerprint,
            checkpoint=recipe.checkpoint_folder,
            keeps_pickles=recipe.reads_pickles,
        )

    def fetched(self, name: str) -> Path:
        """Return where a file of the checkpoint goes."""
        if Path(name).suffix in PICKLE_SUFFIXES and not self._keeps_pickles:
            return self.pickles / name
        if self._in_one_folder:
            return self.weights / name
        # VILA keeps its tokenizer in `llm/` and its image processor in `vision_tower/`.
        belongs = name.startswith(NAMED_FOLDER) or Path(name).name.startswith(PROCESSOR_PREFIXES)
        return (self.processor if belongs else self.weights) / name
