"""A checkpoint that cannot be served is refused with a message, on the real cluster."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.installed import Installed, Space, model_space
from support.random_llava import write_random_llava

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.timeout(600)]

CASES = {
    "no-such-claim": ("PodsUnschedulable", 'persistentvolumeclaim "absent" not found'),
    "no-such-path": ("SourceNotFound", "no-such-path"),
    "no-config": ("ConfigMissing", "config.json"),
    "truncated-config": ("ConfigInvalid", "config.json"),
    "config-is-not-json": ("ConfigInvalid", "config.json"),
    "unknown-family": ("UnknownFamily", "llava"),
    "missing-shard": ("WeightsMissing", "model-00002-of-00002.safetensors"),
    "truncated-weights": ("WeightsInvalid", "model.safetensors"),
    "only-pickle": ("PickleRefused", "allowPickle"),
    "custom-code": ("CustomCodeRefused", "trustRemoteCode"),
    "stock-image": ("ImageNotUsable", "spec.build.image"),
}
"""What is wrong, the reason of Planned, and a word that its message must hold."""


def write_checkpoints(root: Path) -> None:
    """Write a directory per case, each a good checkpoint with one thing wrong."""
    good = write_random_llava(root / "good")
    config = json.loads((good / "config.json").read_text())
    weights = (good / "model.safetensors").read_bytes()

    def broken(name: str) -> Path:
        return Path(shutil.copytree(good, root / name))

    (broken("no-config") / "config.json").unlink()
    (broken("truncated-config") / "config.json").write_text('{"model_type": "lla')
    (broken("config-is-not-json") / "config.json").write_text("llava\n")
    unknown = json.dumps({"model_type": "florence2", "architectures": ["Florence2"]})
    (broken("unknown-family") / "config.json").write_text(unknown)
    sharded = broken("missing-shard")
    (sharded / "model.safetensors").rename(sharded / "model-00001-of-00002.safetensors")
    files = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    index = {"metadata": {"total_size": len(weights)}, "weight_map": files}
    (sharded / "model.safetensors.index.json").write_text(json.dumps(index))
    (broken("truncated-weights") / "model.safetensors").write_bytes(weights[:100])
    pickled = broken("only-pickle")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    custom = {**config, "auto_map": {"AutoModel": "modeling.Custom"}}
    (broken("custom-code") / "config.json").write_text(json.dumps(custom))


@pytest.fixture(name="space", scope="module")
def bad_models(installed: Installed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Space]:
    """Apply all models at once, so that the tests wait for them side by side."""
    root = tmp_path_factory.mktemp("checkpoints")
    write_checkpoints(root)
    with model_space(installed, "bad-checkpoints") as space:
        space.upload(root, "")
        for name in CASES:
            model = space.model(name, name)
            if name == "no-such-claim":
                source = model["spec"]["model"]["source"]["persistentVolumeClaim"]
                source["claimName"] = "absent"
            if name == "stock-image":  # an image without mm-runtime, as NVIDIA's are
                model["spec"]["build"]["image"] = installed.session.image_reference("operator")
            space.apply(model)
        yield space


@pytest.mark.parametrize("case", CASES)
def test_what_is_wrong_is_said(space: Space, case: str) -> None:
    reason, word = CASES[case]
    condition = space.wait_reason(case, "Planned", reason)
    assert condition.status == "False"
    assert word in condition.message


def test_an_unknown_family_is_given_the_known_ones(space: Space) -> None:
    condition = space.wait_reason("unknown-family", "Planned", "UnknownFamily")
    missing = [name for name in ("llava", "qwen2-vl", "whisper") if name not in condition.message]
    assert missing == []


def test_a_repaired_checkpoint_is_served_without_help(space: Space, tmp_path: Path) -> None:
    """Putting the file right and touching the spec leads on: no one has to delete anything."""
    write_checkpoints(tmp_path)
    space.wait_reason("no-config", "Planned", "ConfigMissing")
    space.upload(tmp_path / "good", "no-config")
    repaired = space.model("no-config", "no-config", model={"family": "llava"})
    space.apply(repaired)
    assert space.wait("no-config", "Planned", lambda c: c.holds).reason == "PlanComplete"
    space.kubectl("delete", "mmm", "no-config", "--timeout=60s")
