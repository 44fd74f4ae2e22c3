"""Backend PyTorch: the checkpoint is copied, checked and kept as an engine is; nothing is built."""

from pathlib import Path

import pytest
import torch

from mm_api.contract import ExitCode
from mm_runtime.base import manifest as manifests
from mm_runtime.sources.identity import source_digest
from support.model_configs import ON_PYTORCH, VERSIONS
from support.representatives import others_are_slow
from support.staging_sites import staging_site, write_source


@pytest.mark.parametrize("family", others_are_slow(ON_PYTORCH, "mllama", "qwen2-vl"))
def test_the_staged_checkpoint_is_the_source(tmp_path: Path, family: str) -> None:
    site = staging_site(tmp_path, family, version=VERSIONS[-1])  # which serves every family
    result, code = site.build()
    assert (code, result.failure) == (ExitCode.OK, None)
    manifest = manifests.read(site.paths.manifest)
    manifests.verify(site.paths.engine, manifest)
    assert source_digest(site.source) == source_digest(site.staged)
    assert {"fetch"} == set(result.step_seconds)
    assert (manifest.gpu, manifest.plan.engine.backend) == (None, "PyTorch")


def test_pickles_become_safetensors(tmp_path: Path) -> None:
    source = write_source(tmp_path / "source", "qwen2-vl")
    (source / "model.safetensors").unlink()
    torch.save({"a": torch.ones(3, 4)}, source / "pytorch_model.bin")
    site = staging_site(tmp_path, source=source, allow_pickle=True)
    result, code = site.build()
    assert (code, result.failure) == (ExitCode.OK, None)
    names = {path.name for path in site.staged.iterdir()}
    assert "model.safetensors" in names
    assert not [name for name in names if name.endswith((".bin", ".pt"))]


def test_pickles_beside_safetensors_stay_behind(tmp_path: Path) -> None:
    """A pickle that no one requested is fetched for the digest and is not part of the engine."""
    source = write_source(tmp_path / "source", "qwen2-vl")
    (source / "optimizer.pt").write_bytes(b"cos\nsystem\n.")
    site = staging_site(tmp_path, source=source)
    assert site.build()[1] == ExitCode.OK
    assert not list(site.staged.rglob("*.pt"))


def test_limits_do_not_stage_again(tmp_path: Path) -> None:
    """Two models of one checkpoint share it, whatever their limits and versions."""
    first = staging_site(tmp_path)
    first.build()
    second = staging_site(
        tmp_path, engine={"maxBatchSize": 2}, source=first.source, version="1.2.1"
    )
    result, code = second.build()
    assert (code, result.reused) == (ExitCode.OK, True)
