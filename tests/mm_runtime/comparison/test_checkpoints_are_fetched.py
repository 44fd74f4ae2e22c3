"""The checkpoint of an engine of TensorRT-LLM, got for a comparison by the build's own steps."""

import json
from pathlib import Path

import pytest

from mm_api.documents.engine_manifest import EngineManifest
from mm_runtime.backends import steps
from mm_runtime.comparison.checkpoint import checkpoint_beside
from mm_runtime.engine_build.seal import unsealed
from mm_runtime.errors import PermanentError
from mm_runtime.inspect.checkpoint import InspectOptions, inspect
from support.model_configs import VERSIONS, planned
from support.tiny_t5 import CHECKPOINT


@pytest.fixture(scope="module")
def manifest() -> EngineManifest:
    engine = {"maxBatchSize": 2, "maxSeqLen": 32, "maxEncoderInputLen": 32}
    facts = inspect(CHECKPOINT, InspectOptions())
    complete = planned("t5", engine, version=VERSIONS[-1], facts=facts)
    assert complete.build_plan, complete.errors
    return unsealed(complete.build_plan)


def test_it_is_laid_out_as_the_reference_engine_reads_it(
    manifest: EngineManifest, tmp_path: Path
) -> None:
    """With the tokenizer that is made where the checkpoint has none."""
    folder = checkpoint_beside(manifest, tmp_path / "engine", str(CHECKPOINT), tmp_path, steps)
    assert folder
    for name in ("llm/config.json", "llm/model.safetensors", "processor/tokenizer.json"):
        assert (folder / name).is_file()


def test_another_checkpoint_than_the_engines_is_refused(
    manifest: EngineManifest, tmp_path: Path
) -> None:
    """By the digest of the plan, before anything is loaded."""
    changed = tmp_path / "changed"
    changed.mkdir()
    for path in CHECKPOINT.iterdir():
        (changed / path.name).write_bytes(path.read_bytes())
    config = json.loads((changed / "config.json").read_text())
    (changed / "config.json").write_text(json.dumps(config | {"another": True}))
    with pytest.raises(PermanentError, match="not the one that was inspected"):
        checkpoint_beside(manifest, tmp_path, str(changed), tmp_path, steps)


def test_a_source_must_be_named(manifest: EngineManifest, tmp_path: Path) -> None:
    with pytest.raises(PermanentError, match="name where it is"):
        checkpoint_beside(manifest, tmp_path, None, tmp_path, steps)


def test_what_transformers_does_not_run_is_refused(
    manifest: EngineManifest, tmp_path: Path
) -> None:
    facts = manifest.plan.facts.model_copy(update={"weight_format": "pickle", "family": "nmt"})
    engine = manifest.plan.engine.model_copy(update={"family": "nmt"})
    plan = manifest.plan.model_copy(update={"facts": facts, "engine": engine})
    other = manifest.model_copy(update={"plan": plan})
    with pytest.raises(PermanentError, match="nothing to compare with"):
        checkpoint_beside(other, tmp_path, None, tmp_path, steps)
