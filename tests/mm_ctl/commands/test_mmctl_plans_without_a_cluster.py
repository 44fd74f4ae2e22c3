"""`mmctl plan` for every family, from folders of small files."""

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from mm_api.documents.model_plan import ModelPlan
from mm_api.families import FAMILIES
from mm_ctl.cli import main
from support.model_configs import FOLDERS, WITHOUT_ENGINES, folder_of
from support.model_documents import document

ALLOWED = {"model": {"allowPickle": True}}


def resource(folder: Path, spec: dict[str, Any] | None = None) -> str:
    path = folder / "model.yaml"
    engine = {"backend": "TensorRT"}
    text = yaml.safe_dump(document({"engine": engine, **ALLOWED, **(spec or {})}, name="m"))
    path.write_text(text)
    return str(path)


def checkpoint(family: str) -> str:
    return str(folder_of(family))


@pytest.mark.parametrize("family", FOLDERS)
@pytest.mark.parametrize("gpu", ["l4-24gb", "a100-40gb", "h100-80gb"])
def test_every_model_gets_a_plan_or_a_reason(
    family: str, gpu: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec: dict[str, Any] = {}
    if family in WITHOUT_ENGINES:
        spec = {"engine": {"backend": "PyTorch" if FAMILIES[family].pytorch else "Reference"}}
    on_processors = spec.get("engine") == {"backend": "Reference"}
    device = [] if on_processors else ["--gpu", gpu]
    code = main(["plan", "-f", resource(tmp_path, spec), "--facts", checkpoint(family), *device])
    printed = capsys.readouterr()

    assert (code, "DoesNotFit" in printed.out) in {(0, False), (3, True)}
    assert ("iB are missing" in printed.err) == (code == 3)
    assert ("WHAT WOULD FIT" in printed.out) == (code == 3)


def test_commands_are_a_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`-o commands` prints what a person would run: the plan's argument vectors, quoted."""
    arguments = ["--facts", checkpoint("mllama"), "--gpu", "h100-80gb"]
    path = resource(tmp_path)
    assert main(["plan", "-f", path, *arguments, "-o", "json"]) == 0
    plan = ModelPlan.from_json(capsys.readouterr().out)
    assert main(["plan", "-f", path, *arguments, "-o", "commands"]) == 0
    script = capsys.readouterr().out.replace("\\\n", " ")

    written = [shlex.split(line) for line in script.splitlines() if line and line[0] not in "#s"]
    first = [plan.build_plan.trtllm.tokenizer_info.argv, plan.convert.argv]
    assert written == [*first, *(engine.argv for engine in plan.engines)]
