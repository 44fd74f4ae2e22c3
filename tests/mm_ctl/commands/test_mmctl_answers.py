"""`mmctl` without a cluster: what it prints and how it exits, word for word."""

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from mm_api.documents.model_facts import InspectError, InspectReason, InspectResult
from mm_api.families import FAMILIES
from mm_ctl.cli import COMMANDS, main
from mm_ctl.commands.status import coloured
from support.cases import cases
from support.golden import Golden
from support.model_configs import folder_of
from support.model_documents import document
from support.models import llava_7b_facts, tiny_facts

TYPO = document({"engine": {"maxBatchSiz": 1}}, name="b")
MODELS = [document(name="a"), TYPO, {"kind": "Pod"}, "none"]
IMAGES = {
    "build": {"image": "example.org/tritonserver:24.12-trtllm-python-py3"},
    "runtime": {"image": "example.org/tritonserver:25.05-trtllm-python-py3"},
}
ENGINES = document({**IMAGES, "engine": {"backend": "TensorRT"}}, name="a")
REFERENCE = document({"engine": {"backend": "Reference"}}, name="a")
ON_A_GPU = document({"engine": {"backend": "Reference"}, "runtime": {"gpu": {"count": 1}}})
FP8 = document({"engine": {"backend": "TensorRT", "quantization": "FP8"}}, name="a")
TENSORRT, VLLM = (document({"engine": {"backend": one}}, name="a") for one in ("TensorRT", "VLLM"))
ON_L40S = document(
    {"engine": {"backend": "TensorRT"}, "runtime": {"gpu": {"product": "NVIDIA-L40S"}}}, name="a"
)
LIMITED = document(
    {
        "engine": {"backend": "Reference"},
        "runtime": {"resources": {"limits": {"memory": "4Gi"}}},
    }
)
VALIDATED: dict[str, str | list[Any]] = {
    "valid, beside another kind": [{"kind": "ConfigMap", "apiVersion": "v1"}, document(name="a")],
    "list of kubectl": [{"apiVersion": "v1", "kind": "List", "items": MODELS}],
    "other kinds": [{"kind": "Pod"}, {"metadata": {}}, {"kind": "Pod"}, {"kind": "x" * 500}],
    "images of two versions": [ENGINES],
    "images of two versions, Reference": [
        document({**IMAGES, "engine": {"backend": "Reference"}}, name="a")
    ],
    "not YAML": "a: [",
    "deep": "[" * 5000,
    "template": "spec: {{ .Values.spec }}",
    "no number": "a: !!int b",
    "null": [document({"engine": {"backend": None, "maxBatchSize": None}}, name="a")],
    "longer than an API server reads": "#" * (4 << 20),
    "other document": "a: 1",
    "empty": "",
}
CAPABILITY = ["--compute-capability", "9.0"]
H100 = ["--gpu", "h100-80gb"]
PLANNED: dict[str, tuple[dict[str, Any], InspectResult | str, list[str]]] = {
    "fits": (REFERENCE, InspectResult(facts=tiny_facts()), []),
    "fits not": (LIMITED, InspectResult(facts=llava_7b_facts()), []),
    "failed inspection": (
        REFERENCE,
        InspectResult(
            error=InspectError(reason=InspectReason.CONFIG_MISSING, message="no config.json there")
        ),
        [],
    ),
    "error of the plan": (FP8, "llava", ["--gpu", "a100-40gb"]),
    "error as JSON": (FP8, "llava", ["--gpu", "a100-40gb", "-o", "json"]),
    "GPU of the spec": (ON_L40S, "vila", []),
    "no GPU": (TENSORRT, "llava", []),
    "unknown GPU": (TENSORRT, "llava", ["--gpu", "h900"]),
    "half a GPU": (TENSORRT, "llava", ["--gpu-memory", "80Gi"]),
    "no quantity": (TENSORRT, "llava", ["--gpu-memory", "many", *CAPABILITY]),
    "zero": (TENSORRT, "llava", ["--gpu-memory", "0", *CAPABILITY]),
    "no capability": (
        *(TENSORRT, "llava", ["--gpu-memory", "80Gi", "--compute-capability", "nine"]),
    ),
    "GPU that is not listed": (
        *(TENSORRT, "llava"),
        ["--gpu-memory", "100Gi", *CAPABILITY, "--trtllm-version", "0.20.0"],
    ),
    "unknown image": (TENSORRT, "llava", [*H100, "--image", "mine:1"]),
    "no version": (TENSORRT, "llava", [*H100, "--trtllm-version", "new"]),
    "half a version": (TENSORRT, "llava", [*H100, "--trtllm-version", "0"]),
    "image of vLLM": (VLLM, "llava", [*H100, "--image", "mine:1"]),
    "GPU below its context": (VLLM, "llava", ["--gpu-memory", "1Gi", *CAPABILITY]),
    "facts that are none": (TENSORRT, "manifest.json", H100),
    "GPU for processors": (REFERENCE, "llava", H100),
    "memory for processors": (REFERENCE, "llava", ["--gpu-memory", "nonsense", *CAPABILITY]),
    "version of an engine that has none": (REFERENCE, "llava", ["--trtllm-version", "1.0.0"]),
    "two GPUs": (ON_A_GPU, "llava", [*H100, "--gpu-memory", "80Gi"]),
}
"""No option is ignored."""


@pytest.fixture
def answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(command: str, content: Any, *options: str) -> dict[str, Any]:
        text = content if isinstance(content, str) else yaml.dump_all(content)
        (tmp_path / "model.yaml").write_text(text)
        code = main([command, "-f", str(tmp_path / "model.yaml"), *options])
        printed = capsys.readouterr()
        shown = {"out": printed.out, "err": printed.err}
        texts = {
            name: text.replace(str(tmp_path), "FOLDER") for name, text in shown.items() if text
        }
        return {"exit": code, **texts}

    return run


def test_files_are_validated(answer: Any, golden: Golden) -> None:
    found = {name: answer("validate", content) for name, content in VALIDATED.items()}
    golden.check_yaml("validate.yaml", found)


def test_plans_are_printed(answer: Any, tmp_path: Path, golden: Golden) -> None:
    """Fits ends with 0, what does not fit with 3, what cannot be planned with 2 and what to do."""
    found = {}
    for name, (model, facts, options) in PLANNED.items():
        path = folder_of(facts) if facts in FAMILIES else tmp_path / "facts.json"
        if isinstance(facts, InspectResult):
            path.write_text(facts.to_json())
        elif facts not in FAMILIES:
            path.write_text(str(facts))
        found[name] = answer("plan", [model], "--facts", str(path), *options)
    golden.check_yaml("plan.yaml", found)


@cases(
    "path said",
    {
        "missing": ("/no/file", "cannot read /no/file: No such file or directory"),
        "folder": ("/", "cannot read /: Is a directory"),
        "endless": ("/dev/zero", "/dev/zero is longer than 3,145,728 characters: give a manifest"),
        "no-text": (sys.executable, f"{sys.executable} is not text in UTF-8"),
    },
)
def test_what_is_no_manifest_is_named(
    path: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", "-f", path]) == 2
    assert capsys.readouterr().err.startswith(f"mmctl: {said}")


def test_all_files_are_validated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`-f` is repeated, as for kubectl."""
    for name, model in (("a", TYPO), ("b", REFERENCE)):
        (tmp_path / name).write_text(yaml.safe_dump(model))
    assert main(["validate", "-f", str(tmp_path / "a"), "-f", str(tmp_path / "b")]) == 2
    assert capsys.readouterr().out == "a: valid\n"


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])

    assert ended.value.code == 0
    assert COMMANDS[command].split(":")[0][:20] in capsys.readouterr().out


def test_marks_have_colours_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)

    assert coloured("fail  gpus fail\n✓ Ready") == (
        "\033[31mfail \033[0m gpus fail\n\033[32m✓\033[0m Ready"
    )
    monkeypatch.setenv("NO_COLOR", "")
    assert coloured("✓ Ready") == "✓ Ready"


CONTEXTS = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "u", "user": {"token": "t"}}],
    "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
    "current-context": "here",
}
CLUSTERS = {
    "none": ("", 2, "kubeconfig ~/.kube/config cannot be used: it does not exist; choose"),
    "missing": ("--kubeconfig /none", 2, "kubeconfig /none cannot be used: it does not exist"),
    "empty": ("--kubeconfig /dev/null", 2, "kubeconfig /dev/null cannot be used"),
    "context": ("--kubeconfig CONFIG --context there", 2, "Expected object with name there in"),
    "closed": ("--kubeconfig CONFIG", 1, "127.0.0.1:1"),
}


@cases(
    "words code said",
    {
        **{
            f"{name}-{command.split()[1]}": (f"{command} {options}", code, said)
            for command in ("mmctl status x", "mmctl doctor", "mmctl ask x --text=x")
            for name, (options, code, said) in CLUSTERS.items()
        },
        "no-network": ("mmctl init hf://a/b --gpu none", 1, "small files: --facts"),
        "repository": ("mmctl init a/b --gpu none", 2, "Of the Hub it is hf://a/b."),
        "address": ("mmctl ask x --text=x --address 127.0.0.1:1", 2, "write http://HOST:PORT"),
        "prometheus": ("mmctl cost --prometheus prom:9090", 2, "write http://HOST:PORT"),
        "credentials": (
            "mmctl cost --prometheus http://a --prometheus-credentials /none",
            2,
            "--prometheus-credentials /none is not a folder",
        ),
        "port": (
            "mmctl ui --port 99999 --no-browser --kubeconfig CONFIG",
            1,
            "port must be 0-65535",
        ),
        "hub": ("mmctl init https://huggingface.co/a/b --gpu none", 2, "is hf://OWNER/NAME"),
    },
)
def test_what_keeps_a_command_from_its_work_is_named(  # noqa: PLR0917  # pytest passes by name
    words: str, code: int, said: str, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setattr("mm_runtime.sources.hub.RETRY_DELAYS", ())
    (tmp_path / "config").write_text(yaml.safe_dump(CONTEXTS))
    assert main(words.replace("CONFIG", str(tmp_path / "config")).split()[1:]) == code
    assert said in capsys.readouterr().err


def test_engine_folders_are_no_server(capsys: pytest.CaptureFixture[str]) -> None:
    """As run.py and the executor of the guide for encoder-decoders read them."""
    with pytest.raises(SystemExit):
        main(["ask", "model", "--text", "x", "--engine_dir", "/engines"])
    assert "unrecognized arguments: --engine_dir" in capsys.readouterr().err
