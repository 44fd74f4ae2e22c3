"""The plan's commands build engines of every family, word for word, with the recorded tools."""

from pathlib import Path
from typing import Any

import pytest

from mm_api.contract import ExitCode
from mm_api.families import FAMILIES
from mm_runtime.base import manifest as manifests
from support.cases import cases
from support.model_configs import WITH_ENGINES
from support.representatives import others_are_slow
from support.trtllm_sites import assert_family_is_built, journalled, printed, trtllm_site, use_site
from support.trtllm_tools.install import Tools

pytestmark = pytest.mark.usefixtures("quick_builds")

RENAMED = [name for name in WITH_ENGINES if FAMILIES[name].trtllm.model_name]
"""Their tensors get other names, which takes torch: test_whisper_is_renamed.py builds them."""


@pytest.mark.parametrize(
    "family",
    others_are_slow(
        [one for one in WITH_ENGINES if one not in RENAMED], *("llava", "mllama", "qwen2-vl", "t5")
    ),
)
def test_family_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool_sets: dict[str, Tools], family: str
) -> None:
    site = use_site(monkeypatch, trtllm_site(tmp_path, tool_sets["0.20.0"], family))
    assert_family_is_built(site, family)


@pytest.mark.slow
@cases(
    "version family engine step expected",
    {
        "oldest": (
            "0.16.0",
            "mllama",
            {},
            "build-vision",
            {"vision_encoder/model.engine", "vision_encoder/visual_encoder.engine"},
        ),
        "newest": ("1.3.0rc20", "llava-onevision", {}, "convert", {"llm/rank0.engine"}),
        "tensor": (
            "1.2.1",
            "llava",
            {"parallelism": {"tensor": 4}},
            "build-llm",
            {f"llm/rank{rank}.engine" for rank in range(4)},
        ),
        "encoder-decoder-tensor": (
            "0.20.0",
            "t5",
            {"parallelism": {"tensor": 2}},
            "build-decoder",
            {f"{part}/rank{rank}.engine" for part in ("encoder", "decoder") for rank in (0, 1)},
        ),
        "fp8": ("0.20.0", "qwen2-vl", {"quantization": "FP8"}, "quantize", {"llm/config.json"}),
        "awq": ("0.20.0", "llava", {"quantization": "INT4AWQ"}, "quantize", {"llm/config.json"}),
        "weight-only": (
            "0.19.0",
            "blip2-opt",
            {"quantization": "INT8WeightOnly"},
            "convert",
            {"multimodal_encoder/config.json"},
        ),
    },
)
def test_variants_are_built(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tool_sets: dict[str, Tools],
    *,
    version: str,
    family: str,
    engine: dict[str, Any],
    step: str,
    expected: set[str],
) -> None:
    site = use_site(monkeypatch, trtllm_site(tmp_path, tool_sets[version], family, engine))
    result, code = site.build()
    assert (code, result.failure) == (ExitCode.OK, None)
    manifest = manifests.read(site.paths.manifest)
    assert expected <= {file.path for file in manifest.files}
    assert step in result.step_seconds
    assert list(journalled(site).values()) == printed(site)
    assert manifest.versions["tensorrt_llm"] == version
