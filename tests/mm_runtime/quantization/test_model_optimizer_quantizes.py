"""NVIDIA's Model-Optimizer itself, in entire builds of small models of the real classes."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from mm_api.contract import ExitCode
from mm_api.documents.quantization import HF_QUANT_CONFIG
from mm_runtime.base import manifest as manifests
from mm_runtime.quantization.tensors import is_excluded
from support.families.images import write
from support.staging_sites import StagingSite, staging_site

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

IMAGES = {"qwen2-vl": "visual.", "mllama": "vision_model."}
UNREACHED = {"qwen2-vl": (), "mllama": ("layers.1.", "layers.3.")}
"""MLLAMA's layers of cross attention: texts without images skip them."""


def built(folder: Path, family: str) -> StagingSite:
    """Return the site of a finished build in FP8; the checkpoint is in `folder`'s parent."""
    source = folder.parent / "source"
    if not source.exists():
        write(family, source)
    site = staging_site(folder, family, {"quantization": "FP8"}, source=source)
    result, code = site.build()
    assert (code, result.failure) == (ExitCode.OK, None)
    return site


def contents(site: StagingSite) -> dict[str, str]:
    manifest = manifests.read(site.paths.manifest)
    manifests.verify(site.paths.engine, manifest)
    return {file.path: file.sha256 for file in manifest.files if not file.path.startswith("build/")}


@pytest.mark.parametrize("family", IMAGES)
def test_fp8(tmp_path: Path, family: str) -> None:
    """Numbers within FP8's error, images untouched, other files too, twice the same bytes."""
    site = built(tmp_path / "first", family)
    exact = load_file(site.source / "model.safetensors")
    made = load_file(site.staged / "model.safetensors")
    quantized = {name.removesuffix("_scale") for name in made if name.endswith("weight_scale")}
    layers = {name for name in exact if ".self_attn." in name or ".mlp." in name}
    matrices = {
        name
        for name in layers
        if exact[name].ndim == 2
        and not name.startswith(IMAGES[family])
        and not any(part in name for part in UNREACHED[family])
    }
    assert matrices == quantized
    for name, weight in exact.items():
        if name in quantized:
            found = made[name].to(torch.float32) * made[f"{name}_scale"]
            assert torch.allclose(
                found, weight, rtol=2**-4, atol=float(made[f"{name}_scale"]) / 512
            )
        else:
            assert torch.equal(made[name], weight)
    settings: dict[str, Any] = json.loads((site.staged / HF_QUANT_CONFIG).read_text())
    stored = settings["quantization"]
    assert (stored["quant_algo"], stored["kv_cache_quant_algo"]) == ("FP8", "FP8")
    patterns = stored["exclude_modules"]
    assert not [name for name in quantized if is_excluded(name.removesuffix(".weight"), patterns)]
    assert is_excluded(f"{IMAGES[family]}patch_embed", patterns)
    for path in site.source.iterdir():
        if path.suffix != ".safetensors" and path.name != "config.json":
            assert path.read_bytes() == (site.staged / path.name).read_bytes()
    config = json.loads((site.staged / "config.json").read_text())
    assert config.pop("quantization_config")["quant_method"] == "modelopt"
    assert config == json.loads((site.source / "config.json").read_text())
    journal = json.loads((site.paths.engine / "build" / "journal.json").read_text())
    commands = {one["record"]["name"]: one["argv"] for one in journal["entries"] if one["argv"]}
    assert site.plan.quantization
    assert commands == {"quantize": site.plan.quantization.command.argv}
    assert contents(site) == contents(built(tmp_path / "second", family))
