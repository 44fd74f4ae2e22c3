"""Puts the engine's LoRA adapters where TensorRT-LLM's backend looks for them at its start."""

import json
import shutil
from pathlib import Path

INDEX = "adapters.json"
"""Written by the build step `lora`: names, ids, and the engines that an adapter has parts for."""


def link_adapters(built: Path, folder: Path) -> int:
    """Make `folder` hold one link for each adapter, named by its id; return how many.

    The backend's `lora_prefetch_dir` wants `ID/model.lora_{weights,config}.npy` and skips folders
    whose names are no numbers (tensorrt_llm/batch_manager/peftCacheManager.cpp). It fills the
    language model's cache, so an encoder's part is not linked.

    `built`: the engine's folder `lora`; one that does not exist means no adapters.
    """
    shutil.rmtree(folder, ignore_errors=True)
    if not (built / INDEX).is_file():
        return 0
    folder.mkdir(parents=True)
    links = {
        str(entry["uid"]): built / entry["name"] / part
        for entry in json.loads((built / INDEX).read_bytes())
        for part in ("llm", "decoder")
        if part in entry.get("engines", ())
    }
    for uid, target in links.items():
        (folder / uid).symlink_to(target.absolute(), target_is_directory=True)
    return len(links)
