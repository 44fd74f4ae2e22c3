"""The checkpoint as a folder that the Reference engine could serve, by links."""

import shutil
from pathlib import Path

from mm_api.documents.engine_manifest import ADAPTERS_FOLDER, TOKENIZER_FOLDER


def link_parts(
    folder: Path, checkpoint: Path, tokenizer: Path, adapters: Path | None = None
) -> None:
    """Make a new folder, with a link to each part of an engine that exists."""
    shutil.rmtree(folder, ignore_errors=True)  # of a step that was killed
    folder.mkdir(parents=True)
    parts = {"llm": checkpoint, "processor": checkpoint, TOKENIZER_FOLDER: tokenizer}
    if adapters is not None:
        parts[ADAPTERS_FOLDER] = adapters
    for name, target in parts.items():
        if target.is_dir():
            (folder / name).symlink_to(target.resolve(), target_is_directory=True)
