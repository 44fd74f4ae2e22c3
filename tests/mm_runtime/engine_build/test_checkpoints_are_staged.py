"""Backend PyTorch: the checkpoint is copied, checked and kept as an engine is; nothing is built."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from mm_api.contract import ExitCode
from mm_api.documents.build_result import BuildReason
from mm_runtime.base import manifest as manifests
from mm_runtime.sources.identity import source_digest
from support.hollow_checkpoint import shard, write_safetensors
from support.model_configs import ON_PYTORCH, VERSIONS
from support.representatives import others_are_slow
from support.staging_sites import StagingSite, staging_site, write_source


@pytest.mark.parametrize("family", others_are_slow(ON_PYTORCH, "mllama", "qwen2-vl"))
def test_the_staged_checkpoint_is_the_source(tmp_path: Path, family: str) -> None:
    """Every file is there with its folders, known by its digest, and the source's own is equal."""
    site = staging_site(tmp_path, family, version=VERSIONS[-1])  # which serves every family
    result, code = site.build()
    assert (code, result.failure) == (ExitCode.OK, None)
    manifest = manifests.read(site.paths.manifest)
    manifests.verify(site.paths.engine, manifest)
    assert source_digest(site.source) == source_digest(site.staged)
    assert {"fetch", "verify-checkpoint"} == set(result.step_seconds)
    assert (manifest.gpu, manifest.plan.engine.backend) == (None, "PyTorch")


def test_pickles_become_safetensors(tmp_path: Path) -> None:
    """With consent, what is staged holds no pickle and the same weights."""
    source = write_source(tmp_path / "source", "qwen2-vl")
    (source / "model.safetensors").unlink()
    torch.save({"a": torch.ones(3, 4)}, source / "pytorch_model.bin")
    site = staging_site(tmp_path, source=source, allow_pickle=True)
    result, code = site.build()
    assert (code, result.failure) == (ExitCode.OK, None)
    names = {path.name for path in site.staged.iterdir()}
    assert "model.safetensors" in names
    assert not [name for name in names if name.endswith((".bin", ".pt"))]


def without_tokenizer(site: StagingSite) -> None:
    """Remove every file of the tokenizer."""
    for path in site.source.glob("tokenizer*"):
        path.unlink()


def other_weights(site: StagingSite) -> None:
    """Write one row less than the inspection saw."""
    write_safetensors(site.source / "model.safetensors", {"a": ("F16", (7, 11))})


def truncated(site: StagingSite) -> None:
    """Cut the last byte."""
    path = site.source / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])


def stray_shard(site: StagingSite) -> None:
    """Let the index name a file outside of the checkpoint."""
    shard(site.source)
    path = site.source / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    index["weight_map"]["a"] = "../../etc/passwd"
    path.write_text(json.dumps(index))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        pytest.param(without_tokenizer, "it has no tokenizer", id="tokenizer"),
        pytest.param(other_weights, "it holds 77 weights", id="weights"),
        pytest.param(truncated, "truncated or damaged", id="truncated"),
        pytest.param(stray_shard, "which is not a file beside it", id="path-traversal"),
    ],
)
def test_what_no_server_could_load_is_not_staged(
    tmp_path: Path, spoil: Callable[[StagingSite], None], words: str
) -> None:
    """The build fails for good, says why, and leaves no engine."""
    site = staging_site(tmp_path)
    spoil(site)
    # As if the inspection had seen these files: the digest is not what is tested.
    engine = site.plan.engine.model_copy(update={"source_digest": source_digest(site.source)})
    site = StagingSite(
        site.source, site.store, site.plan.model_copy(update={"engine": engine}), site.planned
    )
    result, code = site.build()
    assert result.failure is not None
    assert (code, result.failure.reason) == (ExitCode.PERMANENT, BuildReason.VERIFICATION_FAILED)
    assert words in result.failure.message
    assert not site.paths.engine.exists()


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
