"""Backend PyTorch: LoRA adapters lie beside the staged checkpoint, which is compared with them."""

from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from mm_api.contract import ExitCode
from mm_api.documents.evaluation import EVALUATION_NAME, Evaluation
from mm_runtime.base import manifest as manifests
from support.adapted_gemma import NAMES, adapted_site
from support.staging_sites import StagingSite

WEIGHTS = "adapter_model.safetensors"

pytestmark = pytest.mark.usefixtures("quick_builds")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> StagingSite:
    """A staged Gemma 3 with two adapters and the checkpoint's answers."""
    return adapted_site(tmp_path_factory.mktemp("staged"), evaluation=True)


@pytest.mark.slow
def test_adapters_are_part_of_the_engine(built: StagingSite) -> None:
    """As peft wrote them, by their names; the manifest says so, and pods are compared with each."""
    result, code = built.build()
    assert (code, result.failure) == (ExitCode.OK, None)
    manifest = manifests.read(built.paths.manifest)
    manifests.verify(built.paths.engine, manifest)
    files = {one.path for one in manifest.files}
    assert {f"adapters/{name}/{WEIGHTS}" for name in NAMES} <= files
    assert {f"adapters/{name}/adapter_config.json" for name in NAMES} <= files
    assert [(one.name, one.uid) for one in manifest.plan.adapters] == [
        *zip(NAMES, (0, 1), strict=True)
    ]

    kept = Evaluation.from_json((built.paths.engine / EVALUATION_NAME).read_bytes())
    answers = {
        (one.text, one.image, one.adapter): [step.candidates[0].token for step in one.steps]
        for one in kept.prompts
    }
    assert {adapter for _, _, adapter in answers} == {None, 0, 1}
    (text, image) = next((text, image) for text, image, adapter in answers if adapter == 0)
    assert len({tuple(answers[text, image, one]) for one in (None, 0, 1)}) > 1


def test_names_that_the_server_does_not_read_are_refused(tmp_path: Path) -> None:
    """By the adapter and the tensor, before a GPU is taken: each request would fail."""
    site = adapted_site(tmp_path)
    weights = tmp_path / "peft" / "french" / WEIGHTS
    save_file(
        {
            name.replace(".weight", ".default.weight"): one
            for name, one in load_file(weights).items()
        },
        weights,
    )
    assert site.plan.lora
    free = [one.model_copy(update={"source_digest": None}) for one in site.plan.lora]
    plan = site.plan.model_copy(update={"lora": free})
    result, code = StagingSite(site.source, site.store, plan, site.planned).build()
    assert code == ExitCode.PERMANENT
    assert result.failure
    message = result.failure.message
    assert "LoRA adapter french: " in message
    assert "lora_A.default.weight is not a name that TensorRT-LLM reads" in message
