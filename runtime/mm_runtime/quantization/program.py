"""The program: read, calibrate, write the weights again, keep every other file as it was."""

import json
import logging
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mm_api.documents.quantization import HF_QUANT_CONFIG
from mm_runtime.base.durable import free_bytes, sync_directory
from mm_runtime.errors import PermanentError, StoreNotWritableError
from mm_runtime.quantization.calibration import read_texts

log = logging.getLogger(__name__)

PACKAGE = "nvidia-modelopt"
CONFIG = "config.json"
INDEX = "model.safetensors.index.json"
QUANTIZED = "quantization_config"

READABLE = 0o644
"""Model-Optimizer saves weights as 0600, and pods serve as another user than builds."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is quantized, and how."""

    checkpoint: Path
    output: Path
    format: str
    kv_cache: str


def quantize(request: Request) -> None:
    """Write the quantized checkpoint.

    Raises:
        PermanentError: the image has no Model-Optimizer, or the checkpoint is not one for it.
        StoreNotWritableError: there is not even room for the least that it may become.
    """
    config = _config(request)
    request.output.parent.mkdir(parents=True, exist_ok=True)
    _check_space(request)
    texts = read_texts()
    try:
        # Minutes of imports on a slow disk: after the checks that need none of them.
        from mm_runtime.quantization import model_optimizer  # noqa: PLC0415
    except ImportError as error:
        raise PermanentError(
            f"The image has no module {error.name}, so it cannot quantize: {PACKAGE} and"
            " transformers come with NVIDIA's images of TensorRT-LLM. Set spec.build.image to one"
            " (its version must be that of the serving image), or remove"
            " spec.engine.quantization."
        ) from error
    model_optimizer.write_quantized(
        request.checkpoint,
        request.output,
        texts,
        weights=request.format,
        kv_cache=request.kv_cache,
    )
    _complete(request, config)
    _name_what_is_kept(request)
    for path in request.output.rglob("*"):
        if path.is_file():
            path.chmod(READABLE)
    sync_directory(request.output)
    total = sum(path.stat().st_size for path in request.output.rglob("*") if path.is_file())
    log.info("%s holds %d MiB", request.output, total >> 20)


def _config(request: Request) -> dict[str, Any]:
    path = request.checkpoint / CONFIG
    try:
        config: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise PermanentError(f"{path} cannot be read as JSON: {error}.") from error
    if QUANTIZED in config or (request.checkpoint / HF_QUANT_CONFIG).exists():
        raise PermanentError(
            f"{request.checkpoint} is quantized already; remove spec.engine.quantization: the"
            " server reads from the checkpoint itself how it is stored."
        )
    if request.output.exists():
        raise PermanentError(f"{request.output} exists; expected a folder that is to be made.")
    return config


def _check_space(request: Request) -> None:
    """Refuse before hours of work what would fill the disk: 16 bits become 8 at best."""
    least = sum(path.stat().st_size for path in request.checkpoint.rglob("*.safetensors")) // 2
    free = free_bytes(request.output.parent)
    if free < least:
        raise StoreNotWritableError(
            f"The store has {free:,} bytes free and the quantized checkpoint needs {least:,} or"
            " more. Enlarge spec.build.store.size or delete old engines."
        )


def _complete(request: Request, config: dict[str, Any]) -> None:
    """Copy every other file; of config.json only what says how the weights are stored is new.

    transformers writes config.json in the words of its own version, and the server's may be older.
    """
    written = json.loads((request.output / CONFIG).read_bytes())
    if QUANTIZED in written:
        config = {**config, QUANTIZED: written[QUANTIZED]}
    for path in _others(request.checkpoint):
        target = request.output / path.relative_to(request.checkpoint)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    (request.output / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def _name_what_is_kept(request: Request) -> None:
    """Let both files name every module that is not quantized, under the names of the weights."""
    from mm_runtime.quantization.tensors import Tensors, with_every_kept  # noqa: PLC0415 (torch)

    places = ((HF_QUANT_CONFIG, "quantization", "exclude_modules"), (CONFIG, QUANTIZED, "ignore"))
    with Tensors(request.output) as tensors:
        for name, section, key in places:
            path = request.output / name
            document = json.loads(path.read_bytes())
            if section in document:
                patterns = document[section].get(key) or []
                document[section][key] = with_every_kept(patterns, tensors)
                path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def _others(checkpoint: Path) -> Iterator[Path]:
    for path in sorted(checkpoint.rglob("*")):
        if path.is_file() and path.suffix != ".safetensors" and path.name not in {CONFIG, INDEX}:
            yield path
