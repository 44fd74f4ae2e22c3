"""An engine of TensorRT-LLM has a config.json of its own: the checkpoint's is the processor's."""

import json
from pathlib import Path
from typing import Any

from mm_runtime.gateway.wiring import _served_model
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.prompts.starts import decoder_start
from support.cases import cases
from support.native_engines import native_engine

ENGINES_OWN: dict[str, Any] = {"version": "0.20.0", "build_config": {}, "pretrained_config": {}}


def directory(folder: Path, family: str, **files: dict[str, Any]) -> EngineDirectory:
    """Return an engine's directory; `files` are those of the processor, without their ending."""
    manifest, _ = native_engine(family)
    for part in ("llm", "decoder", "processor"):
        (folder / part).mkdir()
    for part in ("llm", "decoder"):
        (folder / part / "config.json").write_text(json.dumps(ENGINES_OWN))
    for name, content in files.items():
        (folder / "processor" / f"{name}.json").write_text(json.dumps(content))
    return EngineDirectory(folder, manifest)


def test_generation_defaults(tmp_path: Path) -> None:
    chosen = {"do_sample": True, "temperature": 0.7, "top_p": 0.8}
    found = directory(tmp_path, "llava", config={}, generation_config=chosen)
    _, serving = native_engine("llava")
    model = _served_model(found, serving, None)
    assert (model.temperature, model.top_p) == (0.7, 0.8)


@cases(
    "family config expected",
    {
        "start": ("t5", {"decoder_start_token_id": 0}, (0,)),
        "start-and-forced": (
            "bart",
            {"decoder_start_token_id": 2, "forced_bos_token_id": 0},
            (2, 0),
        ),
    },
)
def test_answers_start_as_the_checkpoint_says(
    tmp_path: Path, family: str, config: dict[str, Any], expected: tuple[int, ...]
) -> None:
    """The decoder's first ids, which its engine was built for."""
    found = directory(tmp_path, family, config=config)
    assert expected == decoder_start(found.configs)
    assert len(expected) <= found.limits.max_input_len
    _, serving = native_engine(family)
    assert _served_model(found, serving, None).limits.decoder_tokens == len(expected)
