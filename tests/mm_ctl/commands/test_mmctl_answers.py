"""`mmctl` without a cluster: what it prints and how it exits."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from mm_api.documents.model_facts import InspectError, InspectReason, InspectResult
from mm_ctl.cli import COMMANDS, main
from mm_ctl.commands.status import sentences
from support.cases import cases
from support.model_documents import document
from support.models import llava_7b_facts, tiny_facts


def written(folder: Path, *documents: dict[str, Any]) -> str:
    path = folder / "model.yaml"
    path.write_text(yaml.dump_all(documents))
    return str(path)


def facts(folder: Path, result: InspectResult) -> str:
    path = folder / "facts.json"
    path.write_text(result.to_json())
    return str(path)


def test_a_valid_file_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = {"kind": "ConfigMap", "apiVersion": "v1"}

    assert main(["validate", "-f", written(tmp_path, other, document(name="a"))]) == 0
    assert capsys.readouterr().out == "a: valid\n"


def test_lists_of_kubectl_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What `kubectl get -o yaml` writes of several resources."""
    models = [document(name="a"), document({"engine": {"maxBatchSiz": 1}}, name="b")]
    found = {"apiVersion": "v1", "kind": "List", "items": [*models, {"kind": "Pod"}, "none"]}

    assert main(["validate", "-f", written(tmp_path, found)]) == 2
    shown = capsys.readouterr()
    assert shown.out == "a: valid\n"
    assert shown.err.startswith("b: spec.engine.maxBatchSiz")


def test_other_kinds_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = [{"kind": "Pod"}, {"metadata": {}}, {"kind": "Pod"}, {"kind": "x" * 500}]

    assert main(["validate", "-f", written(tmp_path, *found)]) == 2
    said = capsys.readouterr().err
    assert said.endswith(f"no document of kind MultimodalModel, but (no kind), Pod, {'x' * 40}\n")


def test_problems_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = document({"engine": {"maxBatchSiz": 1}}, name="a")

    assert main(["validate", "-f", written(tmp_path, wrong)]) == 2
    assert "spec.engine.maxBatchSiz" in capsys.readouterr().err


def test_images_of_two_versions_are_no_valid_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An engine of one version of TensorRT-LLM is loaded by no other; Reference has neither."""
    images = {
        "build": {"image": "example.org/tritonserver:24.12-trtllm-python-py3"},
        "runtime": {"image": "example.org/tritonserver:25.05-trtllm-python-py3"},
    }
    engines = {**images, "engine": {"backend": "TensorRT"}}
    assert main(["validate", "-f", written(tmp_path, document(engines, name="a"))]) == 2
    assert "0.16.0, which no other version can load" in capsys.readouterr().err
    reference = {**images, "engine": {"backend": "Reference"}}
    assert main(["validate", "-f", written(tmp_path, document(reference, name="a"))]) == 0


@cases(
    "change words",
    {
        "day": ({"start": "0 8 30 2 *"}, "'0 8 30 2 *' is not a cron expression"),
        "zone": ({"timeZone": "Mars/Base"}, "'Mars/Base' is not a time zone"),
    },
)
def test_schedules_are_read(
    change: dict[str, str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the API server's rules let through, and no clock can follow, is reported here."""
    schedule = {"name": "day", "start": "0 8 * * 1-5", "duration": "10h", "minReplicas": 2}
    good = {"maxReplicas": 3, "schedules": [schedule]}
    wrong = {"maxReplicas": 3, "schedules": [schedule | change]}
    reported = [
        main(["validate", "-f", written(tmp_path, document({"autoscaling": spec}, name="a"))])
        for spec in (good, wrong)
    ]

    assert reported == [0, 2]
    assert f"a: spec.autoscaling.schedules: schedule 'day': {words}" in capsys.readouterr().err


@cases(
    "content words",
    {
        "not-yaml": ("a: [", "is not YAML"),
        "other-document": ("a: 1", "no document of kind MultimodalModel"),
        "empty": ("", "no document of kind MultimodalModel"),
    },
)
def test_unreadable_files_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, words: str
) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(content)

    assert main(["validate", "-f", str(path)]) == 2
    assert words in capsys.readouterr().err


def test_missing_files_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "-f", "/no/such/file"]) == 2
    assert "/no/such/file" in capsys.readouterr().err


def test_a_plan_that_fits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The plan's numbers come with reasons, or as JSON for programs."""
    model = written(tmp_path, document({"engine": {"backend": "Reference"}}))
    result = facts(tmp_path, InspectResult(facts=tiny_facts()))

    assert main(["plan", "-f", model, "--facts", result]) == 0
    assert "fingerprint = " in capsys.readouterr().out
    assert main(["plan", "-f", model, "--facts", result, "-o", "json"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert planned["servingPlan"]["fingerprint"] == planned["buildPlan"]["fingerprint"]


def test_a_plan_that_does_not_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A model of 14 GB in pods of 4 GB exits with 3 and says what is missing."""
    spec = {
        "engine": {"backend": "Reference"},
        "runtime": {"resources": {"limits": {"memory": "4Gi"}}},
    }
    model = written(tmp_path, document(spec))
    result = facts(tmp_path, InspectResult(facts=llava_7b_facts()))

    assert main(["plan", "-f", model, "--facts", result]) == 3
    assert "memory" in capsys.readouterr().err


def test_a_failed_inspection_is_no_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused = InspectError(reason=InspectReason.CONFIG_MISSING, message="no config.json there")
    model = written(tmp_path, document({"engine": {"backend": "Reference"}}))

    assert (
        main(["plan", "-f", model, "--facts", facts(tmp_path, InspectResult(error=refused))]) == 2
    )
    assert "no config.json there" in capsys.readouterr().err


def test_a_state_reads_as_sentences() -> None:
    """Conditions become lines; a model no one looked at says so."""
    model: dict[str, Any] = {"metadata": {"namespace": "demo", "name": "a", "generation": 2}}
    assert "check that it is running" in next(iter(sentences(model)))
    model["status"] = {
        "observedGeneration": 1,
        "conditions": [
            {
                "type": "Ready",
                "status": "False",
                "reason": "Building",
                "message": "being built\nmore",
            }
        ],
        "replicas": 1,
        "url": "http://a.demo.svc/v1",
    }
    text = "\n".join(sentences(model))

    assert "demo/a: not ready" in text
    assert "older spec" in text
    assert "Building: being built" in text
    assert "http://a.demo.svc/v1" in text


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])

    assert ended.value.code == 0
    assert COMMANDS[command].HELP.split(":")[0][:20] in capsys.readouterr().out


CONTEXTS = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "u", "user": {}}],
    "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
    "current-context": "here",
}


@pytest.mark.parametrize("command", [["status"], ["scaling", "explain"]])
@cases(
    "options code words",
    {
        "none": ([], 2, "there is no kubeconfig at ~/.kube/config: give one"),
        "file": (["--kubeconfig", "/none"], 2, "there is no kubeconfig at /none"),
        "context": (
            ["--kubeconfig", "FILE", "--context", "there"],
            2,
            "there is no context there in FILE: use one of here",
        ),
        "closed-port": (["--kubeconfig", "FILE"], 1, "no answer"),
    },
)
def test_what_keeps_a_command_from_the_cluster_is_reported(  # noqa: PLR0917  # pytest passes by name
    command: list[str],
    options: list[str],
    code: int,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump(CONTEXTS))
    given = [one.replace("FILE", str(file)) for one in options]

    assert main([*command, "tiny", *given]) == code
    assert words.replace("FILE", str(file)) in capsys.readouterr().err
