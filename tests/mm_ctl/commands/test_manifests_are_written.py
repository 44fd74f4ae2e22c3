"""`mmctl init` writes a manifest that is valid and fits the GPU, from recorded configurations."""

from pathlib import Path

import pytest

from mm_ctl.cli import main
from support.golden import Golden
from support.model_configs import folder_of

NAME = "hf://org/Name-7B.v1"
WRITTEN = {
    "vLLM first": ("qwen2-5-vl", [NAME, "--gpu", "h100-80gb"]),
    "no vLLM": ("vila", [NAME, "--gpu", "l4-24gb"]),
    "fewer requests": ("llava", [NAME, "--gpu", "l4-24gb"]),
    "more GPUs": ("mistral3", [NAME, "--gpu", "l4-24gb", "--name", "own"]),
    "folder, processors": ("t5", ["./my-t5", "--gpu", "none", "--claim", "models"]),
    "bucket": ("t5", ["s3://models/t5", "--gpu", "none"]),
    "archive": ("nmt", [f"https://a.org/wmt.tar.gz#sha256={'0' * 64}", "--gpu", "none"]),
    "too large": ("qwen2-5-vl", [NAME, "--gpu", "t4-16gb"]),
    "name": ("t5", [NAME, "--gpu", "none", "--name", "T5_Small"]),
    "unknown GPU": ("qwen2-5-vl", [NAME, "--gpu", "h900"]),
    "no repository": ("qwen2-5-vl", ["hf://"]),
}


def test_the_first_that_fits_is_written(
    golden: Golden, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each is valid; what fits nowhere ends with 3, what cannot be read with 2."""
    found, path = {}, tmp_path / "model.yaml"
    for name, (family, words) in WRITTEN.items():
        code = main(["init", *words, "--facts", str(folder_of(family))])
        printed = capsys.readouterr()
        found[name] = {"exit": code, "text": printed.out or printed.err}
        path.write_text(printed.out)
        assert code or main(["validate", "-f", str(path)]) == 0
        capsys.readouterr()
    golden.check_yaml("init.yaml", found)
