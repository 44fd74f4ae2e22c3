"""Every small file of a checkpoint that something reads, parsed before a build takes a node."""

from collections.abc import Iterator
from pathlib import Path

from mm_api.documents.model_facts import InspectReason
from mm_runtime.base.chat_template_files import named_files
from mm_runtime.inspect.small_files import read_optional, read_text
from mm_runtime.sources.identity import PARTS

CODE_CONFIGS = (
    "tokenizer_config.json",
    "preprocessor_config.json",
    "processor_config.json",
    "video_preprocessor_config.json",
    "generation_config.json",
)
"""Besides config.json, files that can name Python code of the checkpoint, at its top and in each of
`PARTS`."""

_OBJECTS = (
    *CODE_CONFIGS,
    *("special_tokens_map.json", "added_tokens.json", "chat_template.json", "vocab.json"),
)
_TEXTS = ("tokenizer.json", "chat_template.jinja", "merges.txt")


def check_files(source: Path) -> None:
    """Refuse a checkpoint with a small file that is not what its name says.

    Raises:
        InspectRefusedError: `ConfigInvalid`: truncated, a page of HTML, a pointer of Git LFS, too
            big, not UTF-8, or no object.
    """
    for folder in (source, *(source / part for part in PARTS)):
        for path in _there(folder, _OBJECTS):
            read_optional(path)
        for path in _there(folder, _TEXTS):
            read_text(path, InspectReason.CONFIG_INVALID)
    for path in named_files(source).values():
        read_text(path, InspectReason.CONFIG_INVALID)


def _there(folder: Path, names: tuple[str, ...]) -> Iterator[Path]:
    return (path for name in names if (path := folder / name).is_file())
