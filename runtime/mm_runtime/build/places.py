"""PURE: where a build keeps what, inside the store and inside its working directory."""

from dataclasses import dataclass
from pathlib import Path

from mm_api.documents.engine_manifest import MANIFEST_NAME

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
)
"""Beginnings of the names of files that belong to tokenizer and image processor."""

PICKLE_SUFFIXES = frozenset({".bin", ".pt", ".pth"})


@dataclass(frozen=True, slots=True)
class Places:
    """Directories and files of one build.

    The working directory lies in the store too: the engine is moved to its final name by a rename,
    which is atomic only inside one file system, and a build that was killed finds what it had done.
    """

    store: Path
    fingerprint: str

    @property
    def engine(self) -> Path:
        """The finished engine; exists only whole."""
        return self.store / "engines" / self.fingerprint

    @property
    def manifest(self) -> Path:
        """The finished engine's manifest."""
        return self.engine / MANIFEST_NAME

    @property
    def lock(self) -> Path:
        """Held by the one process that builds this fingerprint."""
        return self.store / "engines" / ".locks" / self.fingerprint

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
        """Which steps have finished."""
        return self.work / "journal.json"

    @property
    def reproduce(self) -> Path:
        """The same steps as a shell script."""
        return self.work / "reproduce.sh"

    @property
    def logs(self) -> Path:
        """One log a step."""
        return self.work / "logs"

    @property
    def receipt(self) -> Path:
        """What fetch copied, with digests (`FetchReceipt`)."""
        return self.work / "fetched.json"

    @property
    def reference(self) -> Path:
        """Sample pictures and what torch makes of them (`vision_samples`)."""
        return self.work / "reference.npz"

    @property
    def verification(self) -> Path:
        """What verify-vision measured (`Verification`)."""
        return self.work / "verification.json"

    @property
    def pickles(self) -> Path:
        """Weights that convert has to turn into safetensors."""
        return self.work / "pickles"

    @property
    def unfinished(self) -> Path:
        """The engine while it is being made."""
        return self.work / "engine"

    @property
    def llm(self) -> Path:
        """The language model's files."""
        return self.unfinished / "llm"

    @property
    def vision(self) -> Path:
        """The vision engine's files."""
        return self.unfinished / "vision"

    @property
    def processor(self) -> Path:
        """Tokenizer, image processor and chat template."""
        return self.unfinished / "processor"

    def fetched(self, name: str) -> Path:
        """Return where a file of the checkpoint goes."""
        if Path(name).suffix in PICKLE_SUFFIXES:
            return self.pickles / name
        return (self.processor if name.startswith(PROCESSOR_PREFIXES) else self.llm) / name
