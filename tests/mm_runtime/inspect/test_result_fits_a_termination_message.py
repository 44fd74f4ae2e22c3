"""What inspect prints is what Kubernetes keeps: valid JSON of at most 4,096 bytes."""

import json
from pathlib import Path

import pytest

from mm_api.documents.model_facts import MESSAGE_LIMIT_BYTES, InspectReason, InspectResult
from mm_runtime.cli import main
from mm_runtime.errors import InspectRefusedError
from mm_runtime.inspect.report import refusal_report
from support.broken_checkpoints import copied, edit_json


def test_facts_are_printed_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = copied("tiny-llava", tmp_path / "checkpoint")
    message = tmp_path / "termination-log"
    code = main(["inspect", "--source", str(source), "--termination-log", str(message)])
    printed = capsys.readouterr().out.strip()
    result = InspectResult.from_json(message.read_text())
    assert (0, printed) == (code, message.read_text())
    assert result.facts is not None
    assert result.facts.family == "llava"


def test_refusal_is_permanent(tmp_path: Path) -> None:
    message = tmp_path / "termination-log"
    code = main(["inspect", "--source", str(tmp_path), "--termination-log", str(message)])
    result = InspectResult.from_json(message.read_text())
    assert result.error is not None
    assert (code, result.error.reason) == (3, InspectReason.CONFIG_MISSING)


@pytest.mark.parametrize(
    "text", ["x" * 50_000, "ü" * 50_000, '"\n\\' * 20_000], ids=["ascii", "umlauts", "escapes"]
)
def test_long_messages_are_shortened(text: str) -> None:
    report = refusal_report(InspectRefusedError(InspectReason.CONFIG_INVALID, text))
    error = json.loads(report)["error"]
    assert len(report.encode()) <= MESSAGE_LIMIT_BYTES
    assert error["message"].endswith(" ...")
    assert len(report.encode()) > MESSAGE_LIMIT_BYTES // 2  # not shortened to nothing


def test_absurd_names_are_refused(tmp_path: Path) -> None:
    source = copied("tiny-llava", tmp_path / "checkpoint")
    edit_json(source / "config.json", architectures=["X" * 5000])
    message = tmp_path / "message"
    code = main(["inspect", "--source", str(source), "--termination-log", str(message)])
    result = InspectResult.from_json(message.read_text())
    assert result.error is not None
    assert (code, result.error.reason) == (3, InspectReason.CONFIG_INVALID)
