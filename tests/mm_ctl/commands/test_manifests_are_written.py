"""`mmctl init` writes a manifest that is valid and fits the GPU, from recorded configurations."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from mm_ctl.cli import main
from support.cases import cases
from support.model_configs import folder_of

H100, L4 = "h100-80gb", "l4-24gb"


def _spec(*words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> dict[str, Any]:
    """Return the spec that is printed, which `mmctl validate` finds valid."""
    assert main(["init", *words]) == 0, capsys.readouterr().err
    text = capsys.readouterr().out
    path = tmp_path / "model.yaml"
    path.write_text(text)
    assert main(["validate", "-f", str(path)]) == 0, capsys.readouterr().err
    assert len([line for line in text.splitlines() if "#" in line]) > 3
    spec: dict[str, Any] = yaml.safe_load(text)["spec"]
    return spec


@cases(
    "family gpu engine count",
    {
        "vLLM first": ("qwen2-5-vl", H100, {"backend": "VLLM", "maxBatchSize": 8}, 1),
        "no vLLM": ("whisper", L4, {"backend": "Reference", "maxBatchSize": 8}, 1),
        "fewer requests": ("llava", L4, {"backend": "VLLM", "maxBatchSize": 5}, 1),
        "more GPUs": (*("mistral3", L4, {"backend": "VLLM", "parallelism": {"tensor": 4}}), 4),
    },
)
def test_the_first_that_fits_is_written(  # noqa: PLR0917  # pytest passes by name
    family: str,
    gpu: str,
    engine: dict[str, Any],
    count: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["hf://org/Name-7B.v1", "--facts", str(folder_of(family)), "--gpu", gpu]
    spec = _spec(*words, capsys=capsys, tmp_path=tmp_path)

    assert spec["model"] == {
        "source": {"huggingFace": {"repo": "org/Name-7B.v1", "revision": "main"}}
    }
    assert spec["engine"] == {**spec["engine"], **engine}
    assert spec["runtime"]["gpu"]["count"] == count


def test_a_folder_is_read_from_a_claim(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(folder_of("t5")), "--facts", str(folder_of("t5")), "--gpu", "none"]
    spec = _spec(*words, "--claim", "models", capsys=capsys, tmp_path=tmp_path)

    assert spec["model"]["source"] == {
        "persistentVolumeClaim": {"claimName": "models", "path": folder_of("t5").name}
    }
    assert "runtime" not in spec


@cases(
    "words code message",
    {
        "too large": (
            ["hf://a/b", "--facts", "FACTS", "--gpu", "t4-16gb"],
            3,
            "Reference on Tesla-T4: 4,450,659,328 bytes are missing",
        ),
        "unknown GPU": (["hf://a/b", "--facts", "FACTS", "--gpu", "h900"], 2, "h900"),
        "no repository": (["hf://", "--facts", "FACTS"], 2, "names no repository"),
    },
)
def test_what_cannot_be_written_is_explained(
    words: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = str(folder_of("qwen2-5-vl"))

    assert main(["init", *(facts if word == "FACTS" else word for word in words)]) == code
    assert message in capsys.readouterr().err
