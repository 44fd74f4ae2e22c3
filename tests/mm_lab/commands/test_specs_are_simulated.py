"""`mm-lab simulate` reports what a spec would have done with a trace."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import yaml

from mm_lab.cli import main
from support.cases import cases
from support.model_documents import document

PROFILE = {
    "name": "one request a second",
    "prompt_seconds": 0.5,
    "image_token_seconds": 0.0,
    "text_token_seconds": 0.0,
    "step_seconds": 0.05,
    "step_seconds_per_request": 0.0,
    "slots": 4,
    "queue_size": 8,
    "cold_start_seconds": 60.0,
}
AUTOSCALING: dict[str, Any] = {
    "minReplicas": 1,
    "maxReplicas": 6,
    "objectives": [{"metric": "TimeToFirstToken", "target": "2s"}],
}
HEADER = "at,image_tokens,text_tokens,output_tokens"


def _profile(**changes: object) -> str:
    return yaml.safe_dump({**PROFILE, **changes})


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    lines = [f"{second * 0.33:.2f},100,20,10" for second in range(3000)]
    model = document({"autoscaling": AUTOSCALING})
    texts = {
        "model": yaml.safe_dump(model),
        "profile": yaml.safe_dump(PROFILE),
        "trace": "\n".join([HEADER, *lines]),
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return {name: str(tmp_path / name) for name in texts}


def simulated(files: dict[str, str], *more: str) -> int:
    where = ["--trace", files["trace"], "--profile", files["profile"]]
    return main(["simulate", "-f", files["model"], *where, *more])


def test_changes_are_reported_with_their_reasons(
    files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert simulated(files) == 0
    printed = capsys.readouterr().out

    assert printed.startswith("3000 requests over 16 min, one request a second\nautoscaling: ")
    assert "replicas, constant: " in printed
    assert "Demand: The arriving work keeps" in printed


def test_programs_get_json(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert simulated(files, "-o", "json") == 0
    body = json.loads(capsys.readouterr().out)

    assert body["profile"] == {**PROFILE, "beside_seconds": 0.0}
    assert body["autoscaling"]["requests"] == 3000
    assert body["autoscaling"]["changes"]


@cases(
    "metric target kept",
    {
        "first-token": ("TimeToFirstToken", "600ms", 1 / 3),
        "inter-token": ("InterTokenLatency", "80ms", 2 / 3),
        "request": ("RequestLatency", "2s", 1 / 3),
        "longer-request": ("RequestLatency", "2s300ms", 2 / 3),
        "queue": ("QueueTime", "100ms", 1 / 3),
        "longer-queue": ("QueueTime", "300ms", 2 / 3),
    },
)
def test_each_objective_is_judged(
    metric: str, target: str, kept: float, files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Each prompt takes 0.5 s: three requests wait 0, 0.25 and 0.5 s, and all end at 3.45 s."""
    spec = {**AUTOSCALING, "objectives": [{"metric": metric, "target": target}]}
    Path(files["model"]).write_text(yaml.safe_dump(document({"autoscaling": spec})))
    lines = [*(f"{at},0,0,20" for at in (1.0, 1.25, 1.5)), "60,0,0,1"]
    Path(files["trace"]).write_text("\n".join([HEADER, *lines]))

    assert simulated(files, "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["autoscaling"]["attainment"] == pytest.approx(kept)


@cases(
    "expected name text",
    {
        "columns": ("must name at, image_tokens", "trace", "time,tokens\n1,2"),
        "no-number": ("line 2", "trace", f"{HEADER}\nsoon,1,1,1"),
        "negative": ("0 or more", "trace", f"{HEADER}\n1,-5,1,1"),
        "nan": ("0 or more", "trace", f"{HEADER}\nnan,5,1,1"),
        "epoch": ("from the start", "trace", f"{HEADER}\n1700000000,5,1,1"),
        "empty": ("holds no request", "trace", HEADER),
        "profile": ("it lacks name, prompt_seconds", "profile", "speed: 3"),
        "no-yaml": ("not a service profile", "profile", "{"),
        "unknown-field": ("has speed besides", "profile", _profile(speed=1)),
        "word": ("slots is 'four'", "profile", _profile(slots="four")),
        "no-slot": ("slots is 0: expected a whole number", "profile", _profile(slots=0)),
        "queue": ("queue_size is -5", "profile", _profile(queue_size=-5)),
        "time": ("is -1: expected a number", "profile", _profile(step_seconds=-1)),
        "no-time": ("is nan", "profile", _profile(cold_start_seconds=math.nan)),
        "no-field": ("no spec.autoscaling", "model", yaml.safe_dump(document())),
        "bounds": (
            "minReplicas",
            "model",
            yaml.safe_dump(document({"autoscaling": AUTOSCALING | {"minReplicas": 9}})),
        ),
    },
)
def test_wrong_files_are_explained(
    expected: str, name: str, text: str, files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path(files[name]).write_text(text)

    assert simulated(files) == 2
    assert expected in capsys.readouterr().err


@cases(
    "change note",
    {
        "mode": ({"mode": "Off"}, "mode is Off: this is what Enforce would"),
    },
)
def test_what_is_left_out_is_reported(
    change: dict[str, Any], note: str, files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    model = document({"autoscaling": AUTOSCALING | change})
    Path(files["model"]).write_text(yaml.safe_dump(model))
    Path(files["trace"]).write_text(f"{HEADER}\n1,1,1,1")

    assert simulated(files) == 0
    assert f"note: {note}" in capsys.readouterr().err
