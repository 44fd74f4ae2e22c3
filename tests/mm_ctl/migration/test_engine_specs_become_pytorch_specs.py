"""`mmctl migrate` for every family and example: a spec that is valid and planned, or why not."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from mm_api.families import FAMILIES
from mm_api.v1alpha1.unsupported import UNSUPPORTED
from mm_api.v1alpha1.validation import validate
from mm_ctl.cli import main
from mm_ctl.commands.checkpoint_folder import facts_of_folder
from mm_ctl.migration.migrate import GAINED_PARAMETERS, LOST_PARAMETERS
from mm_runtime.gateway.api.parameters import PARAMETERS
from mm_runtime.inspect.checkpoint import InspectOptions
from support.cases import cases
from support.model_configs import FOLDERS, WITH_ENGINES, folder_of
from support.model_documents import UNSUPPORTED_VALUES, adapters, at, document, merged

EXAMPLES = sorted(
    path
    for path in Path("examples").glob("*.yaml")
    if "kind: MultimodalModel" in (text := path.read_text()) and "backend: VLLM" not in text
)
"""The one for VLLM has its checkpoint nowhere here."""
ON_H100 = {"runtime": {"gpu": {"product": "NVIDIA-H100-80GB-HBM3", "count": 1}}}


def engines(spec: dict[str, Any] | None = None, family: str | None = "qwen2-vl") -> dict[str, Any]:
    model = {"family": family} if family else {}
    base = merged({"engine": {"backend": "TensorRT"}, "model": model}, ON_H100)
    return document(merged(base, spec or {}), name="m")


def migrate(folder: Path, resource: dict[str, Any], *arguments: str) -> int:
    path = folder / "model.yaml"
    path.write_text(json.dumps(resource))
    return main(["migrate", "-f", str(path), *arguments])


def comments(page: str) -> str:
    lines = [line.lstrip("# ") for line in page.splitlines() if line.startswith("#")]
    return " ".join(" ".join(lines).split())


@pytest.mark.parametrize("family", WITH_ENGINES)
def test_each_family_migrates_or_is_refused_by_name(
    family: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is written is valid and planned; what is not names the class and what would do."""
    record = FAMILIES[family]
    images = {} if record.pytorch is None or record.pytorch.images else {"maxImagesPerRequest": 0}
    resource = engines({"engine": images, "model": {"allowPickle": True}}, family=None)
    code = migrate(tmp_path, resource, "--facts", str(folder_of(family)), "--plan")
    printed = capsys.readouterr()

    if record.pytorch is None:
        assert (code, printed.out) == (2, "")
        assert f"does not serve {family} ({record.architectures[0]}" in printed.err
        assert ("spec.engine.backend to Reference" in printed.err) == (family in FOLDERS)
        return
    assert code == 0, printed.err
    written = yaml.safe_load(printed.out)
    assert validate(written) == []
    assert written["spec"]["engine"]["backend"] == "PyTorch"
    assert "* verdict" not in printed.out
    assert re.search(r"\* backend +TensorRT +PyTorch", printed.out)
    assert re.search(r"\* commands +\d +0", printed.out)


def test_some_families_migrate() -> None:
    """The test above has both kinds."""
    kinds = {FAMILIES[name].pytorch is None for name in WITH_ENGINES}
    assert kinds == {True, False}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_for_engines_migrate_or_are_refused_with_what_would_do(
    example: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of this repository are for Reference; as engines, some families have no class."""
    resource = yaml.safe_load(example.read_text())
    folder = example.parent / resource["spec"]["model"]["source"]["persistentVolumeClaim"]["path"]
    checkpoint = ["--checkpoint", str(folder / "checkpoint")]

    assert migrate(tmp_path, resource, *checkpoint) == 2
    assert "only specs for TensorRT engines are migrated" in capsys.readouterr().err

    resource["spec"] = merged(
        resource["spec"], merged(ON_H100, {"engine": {"backend": "TensorRT"}})
    )
    family = FAMILIES[facts_of_folder(folder / "checkpoint", InspectOptions()).family]
    code = migrate(tmp_path, resource, *checkpoint)
    printed = capsys.readouterr()
    if family.pytorch is None:
        assert code == 2
        assert "set spec.engine.backend to Reference" in printed.err
    else:
        assert code == 0, printed.err
        assert validate(yaml.safe_load(printed.out)) == []


@pytest.mark.parametrize(
    "path",
    sorted(
        row.path
        for row in UNSUPPORTED
        if "PyTorch" in row.backends and "TensorRT" not in row.backends
    ),
)
def test_what_pytorch_refuses_is_removed_and_listed(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each row of the API's table, so that a new one is migrated too."""
    assert migrate(tmp_path, engines(at(path, UNSUPPORTED_VALUES[path]))) == 0, (
        capsys.readouterr().err
    )
    page = capsys.readouterr().out
    assert validate(yaml.safe_load(page)) == []
    assert re.search(rf"(lost|server) +{path}: ", page)


def test_adapters_are_removed_and_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No class on PyTorch of a family with engines applies them, so none would be planned."""
    assert [name for name in WITH_ENGINES if applies_adapters(name)] == []
    assert migrate(tmp_path, engines(at("engine.lora", adapters("a")))) == 0
    page = capsys.readouterr().out
    assert "lora" not in yaml.safe_load(page)["spec"]["engine"]
    assert re.search(r"lost +engine\.lora: ", page)


def applies_adapters(family: str) -> bool:
    serving = FAMILIES[family].pytorch
    return bool(serving and serving.adapters_since)


FULL = {
    "engine": {
        "dtype": "float16",
        "quantization": "INT8WeightOnly",
        "maxBeamWidth": 2,
        "maxInputLen": 1024,
        "plugins": {"gemm_plugin": "float16"},
        "extraBuildArgs": ["--fast-build"],
    },
    "vision": {"placement": "Disaggregated", "replicas": 2, "featureCacheBytes": "1Gi"},
    "runtime": {
        "streaming": False,
        "accumulateTokens": True,
        "blsInstances": 3,
        "memoryPools": {"cuda": "1Gi"},
        "triton": {"expose": True, "allowFrom": [{"podSelector": {}}]},
        "resources": {"limits": {"memory": "32Gi"}},
    },
    "build": {"image": "registry.example/trtllm:25.06-trtllm-python-py3"},
    "replicas": 3,
}


def test_changes_are_listed_by_field(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With what each means; everything else stays as it is."""
    assert migrate(tmp_path, engines(FULL)) == 0
    printed = capsys.readouterr()
    spec = yaml.safe_load(printed.out)["spec"]

    assert spec["engine"] == {"backend": "PyTorch", "dtype": "Auto", "maxInputLen": 1024}
    assert spec["vision"] == {"placement": "Colocated"}
    assert spec["build"] == {"image": "registry.example/trtllm:26.07-trtllm-python-py3"}
    assert spec["runtime"] == {
        **ON_H100["runtime"],
        "triton": {"expose": False},
        "resources": {"limits": {"memory": "32Gi"}},
    }
    assert spec["replicas"] == 3
    said = comments(printed.out)
    for words in (
        'quantization engine.quantization: "INT8WeightOnly" -> absent',
        "lost engine.maxBeamWidth: 2 -> absent",
        'limit engine.dtype: "float16" -> "Auto"',
        "build engine.plugins",
        "server build.image",
        "lost parameters of requests: prompt",
        "gained parameters of requests: min_p",
    ):
        assert words in said
    assert "m: lost: vision.placement, runtime.triton.expose, engine.maxBeamWidth" in printed.err


def test_a_quantization_that_is_made_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """FP8, by Model-Optimizer."""
    assert migrate(tmp_path, engines({"engine": {"quantization": "FP8"}})) == 0
    page = capsys.readouterr().out
    assert yaml.safe_load(page)["spec"]["engine"]["quantization"] == "FP8"
    assert "kept: made while the checkpoint is staged" in comments(page)


def test_the_type_of_the_checkpoint_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Engines of Qwen2-VL are float16 and its checkpoint is bfloat16."""
    arguments = ["--facts", str(folder_of("qwen2-vl"))]
    assert migrate(tmp_path, engines(), *arguments) == 0
    assert "means the checkpoint's bfloat16 now" in comments(capsys.readouterr().out)


def test_what_the_server_added_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """So that `kubectl get -o yaml` can be piped; defaults that it filled in are no changes."""
    resource = engines({"vision": {"sharing": "Auto"}, "runtime": {"streaming": True}})
    resource["metadata"] |= {
        "uid": "1",
        "resourceVersion": "5",
        "labels": {"team": "a"},
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "note": "b"},
    }
    resource["status"] = {"replicas": 1}
    assert migrate(tmp_path, resource) == 0
    page = capsys.readouterr().out
    written = yaml.safe_load(page)

    assert "status" not in written
    assert written["metadata"] == {
        "name": "m",
        "labels": {"team": "a"},
        "annotations": {"note": "b"},
    }
    assert "vision.sharing" not in page
    assert "runtime.streaming:" not in page


@cases(
    "spec arguments words",
    {
        "text-only": (
            {"model": {"family": "mllama"}},
            [],
            "spec.engine.maxImagesPerRequest: TensorRT-LLM on PyTorch serves mllama without its",
        ),
        "old-version": (
            {"build": {"image": "mine:1", "trtllmVersion": "0.20.0"}},
            [],
            "spec.build.trtllmVersion: it stands for TensorRT-LLM 0.20.0",
        ),
        "unknown-image": ({"build": {"image": "mine:1"}}, [], "is not known"),
        "fixed-by-digest": (
            {"build": {"image": f"a/b:25.06-trtllm@sha256:{'0' * 64}"}},
            [],
            "name a newer image with --image",
        ),
        "given-image-too-old": ({}, ["--image", "a/b:25.06-trtllm"], "0.20.0"),
        "invalid": ({"engine": {"maxInputLen": 0}}, [], "spec.engine.maxInputLen"),
        "no-checkpoint": ({}, ["--plan"], "--plan needs the checkpoint"),
    },
)
def test_refusals_say_what_to_do(
    spec: dict[str, Any],
    arguments: list[str],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """On standard error, with exit code 2 and nothing on standard output."""
    assert migrate(tmp_path, engines(spec), *arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert words in printed.err


def test_a_family_that_nothing_names_is_a_question(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The family decides whether there is a class."""
    assert migrate(tmp_path, engines(family=None)) == 2
    assert "set spec.model.family, or give --checkpoint" in capsys.readouterr().err


def test_an_image_can_be_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the version in it, which a tag of one's own does not say."""
    resource = engines({"build": {"image": "mine:1", "trtllmVersion": "0.20.0"}})
    arguments = ["--image", "mine:2", "--trtllm-version", "1.2.1"]
    assert migrate(tmp_path, resource, *arguments) == 0
    build = yaml.safe_load(capsys.readouterr().out)["spec"]["build"]
    assert build == {"image": "mine:2", "trtllmVersion": "1.2.1"}


def test_a_plan_that_does_not_fit_ends_with_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The spec is written all the same: what would fit is the plan's business."""
    resource = engines({"engine": {"maxBatchSize": 64}})
    arguments = ["--facts", str(folder_of("qwen2-vl")), "--plan", "--gpu", "l4-24gb"]
    assert migrate(tmp_path, resource, *arguments) == 3
    printed = capsys.readouterr()
    assert "does not fit" in printed.err
    assert yaml.safe_load(printed.out)["spec"]["engine"]["backend"] == "PyTorch"


def test_no_file_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`-o` writes a new file."""
    output = tmp_path / "new.yaml"
    assert migrate(tmp_path, engines(), "-o", str(output)) == 0
    assert validate(yaml.safe_load(output.read_text())) == []
    assert migrate(tmp_path, engines(), "-o", str(output)) == 2
    assert "is there already" in capsys.readouterr().err


def test_parameters_are_those_of_the_gateway() -> None:
    """What requests lose and gain, from the table that the gateway refuses by."""
    lost = [
        name
        for name, one in PARAMETERS.items()
        if "TensorRT" in one.acts and "PyTorch" not in one.acts
    ]
    gained = [
        name
        for name, one in PARAMETERS.items()
        if "PyTorch" in one.acts and "TensorRT" not in one.acts
    ]
    assert sorted(LOST_PARAMETERS) == sorted(lost)
    assert sorted(GAINED_PARAMETERS) == sorted(gained)
