"""Backend PyTorch with a quantization: the step around NVIDIA's Model-Optimizer, without it."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from mm_api.contract import ExitCode
from mm_api.documents.build_result import BuildReason
from mm_api.documents.quantization import HF_QUANT_CONFIG
from mm_ctl.commands.plan_commands import as_commands
from mm_runtime.backends import steps
from mm_runtime.engine_build.commands.step import StepContext
from mm_runtime.engine_build.commands.verify_quantized import verify_quantized
from mm_runtime.errors import PermanentError, StoreNotWritableError, VerificationFailedError
from mm_runtime.quantization.__main__ import main
from mm_runtime.quantization.calibration import read_texts
from mm_runtime.quantization.program import Request, quantize
from support.cases import cases
from support.staging_sites import StagingSite, staging_site, write_source

FP8 = {"quantization": "FP8"}
KEPT = ["lm_head", "visual*"]


def test_the_plan_prints_what_the_build_runs(tmp_path: Path) -> None:
    """One command more than without; the checkpoint is verified before it, the result after it."""
    site = staging_site(tmp_path, engine=FP8)
    found = {step.name: step for step in steps(site.plan)}
    assert list(found) == ["fetch", "verify-weights", "quantize", "verify-quantized"]
    lines = as_commands(site.planned).replace("\\\n", " ").splitlines()
    command = next(line.split() for line in lines if line.startswith("python3"))
    assert command == list(found["quantize"].command)
    assert command == [
        *("python3", "-m", "mm_runtime.quantization", "--checkpoint", "checkpoint"),
        *("--output", "engine/checkpoint", "--format", "FP8", "--kv-cache", "FP8"),
    ]


def test_a_quantized_checkpoint_is_another_engine(tmp_path: Path) -> None:
    """Its fingerprint is its own, whatever the limits; and its weights take less of a GPU."""
    plain = staging_site(tmp_path / "plain").planned
    source = tmp_path / "plain" / "source"
    first = staging_site(tmp_path / "one", engine=FP8, source=source).planned
    second = staging_site(tmp_path / "two", engine={**FP8, "maxBatchSize": 2}, source=source)
    assert first.fingerprint == second.planned.fingerprint
    assert first.fingerprint != plain.fingerprint
    assert first.memory
    assert plain.memory
    assert first.memory.per_gpu[0].weights_bytes < 0.65 * plain.memory.per_gpu[0].weights_bytes


def request_for(folder: Path) -> Request:
    return Request(write_source(folder / "in", "qwen2-vl"), folder / "out", "FP8", "FP8")


def quantized_already(request: Request) -> None:
    path = request.checkpoint / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"quantization_config": {}}))


def output_there(request: Request) -> None:
    request.output.mkdir()


def no_library(_: Request) -> None:
    """Leave the rest to the test: the image has none."""


@cases(
    "spoil words",
    {
        "quantized": (quantized_already, "is quantized already; remove"),
        "output": (output_there, "exists; expected a folder that is to be made"),
        "image": (no_library, r"has no module modelopt.*nvidia-modelopt .*spec\.build\.image"),
    },
)
def test_what_cannot_be_quantized_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Request], None], words: str
) -> None:
    monkeypatch.delitem(sys.modules, "mm_runtime.quantization.model_optimizer", raising=False)
    monkeypatch.setitem(sys.modules, "modelopt", None)
    request = request_for(tmp_path)
    spoil(request)
    with pytest.raises(PermanentError, match=words):
        quantize(request)


def test_too_little_room_is_reported_first(tmp_path: Path) -> None:
    """A file with a hole is larger than any disk; hours of work would end on a full one."""
    request = request_for(tmp_path)
    free = os.statvfs(tmp_path)
    os.truncate(request.checkpoint / "model.safetensors", 4 * free.f_bavail * free.f_frsize)
    with pytest.raises(StoreNotWritableError, match=r"needs [0-9,]+ or more"):
        quantize(request)


@cases(
    "changed",
    {
        "format": ("--format", "INT8"),
        "cache": ("--kv-cache", "FP4"),
        "unknown": ("--calibrate", "FP8"),
    },
)
def test_arguments_are_strict(changed: tuple[str, str], tmp_path: Path) -> None:
    """As argparse says it: exit code 2."""
    where = ["--checkpoint", str(tmp_path), "--output", str(tmp_path / "out")]
    with pytest.raises(SystemExit) as refused:
        main([*where, "--format", "FP8", "--kv-cache", "FP8", *changed])
    assert refused.value.code == ExitCode.USAGE


def test_its_exit_codes_are_ours(tmp_path: Path) -> None:
    """A refusal of the program is permanent, and the build's message is its last line."""
    source = write_source(tmp_path / "source", "qwen2-vl")
    (source / HF_QUANT_CONFIG).write_text("{}")
    site = staging_site(tmp_path, engine=FP8, source=source)
    result, code = site.build()
    assert result.failure is not None
    assert (code, result.failure.reason) == (ExitCode.PERMANENT, BuildReason.STEP_FAILED)
    assert (result.failure.step, "is quantized already" in result.failure.message) == (
        "quantize",
        True,
    )
    assert not site.paths.engine.exists()


def test_texts_are_many_and_different() -> None:
    """Scripts, code, numbers; each long enough to be more than a greeting."""
    texts = read_texts()
    assert 24 == len(set(texts)) == len(texts)
    assert min(len(text) for text in texts) > 60


Weights = dict[str, torch.Tensor]


def quantized_by_hand(folder: Path) -> StagingSite:
    """Return a site that has come as far as verify-quantized."""
    site = staging_site(folder, engine=FP8)
    torch.manual_seed(0)
    exact: Weights = {
        "model.layers.0.mlp.down_proj.weight": torch.randn(16, 32, dtype=torch.bfloat16),
        "visual.merger.weight": torch.randn(8, 8, dtype=torch.bfloat16),
        "lm_head.weight": torch.randn(8, 8, dtype=torch.bfloat16),
        "model.norm.weight": torch.randn(8, dtype=torch.bfloat16),
    }
    name = "model.layers.0.mlp.down_proj"
    scale = exact[f"{name}.weight"].float().abs().max() / 448
    made = exact | {
        f"{name}.weight": (exact[f"{name}.weight"].float() / scale).to(torch.float8_e4m3fn),
        f"{name}.weight_scale": scale,
    }
    for where, weights in ((site.paths.weights, exact), (site.paths.staged_checkpoint, made)):
        where.mkdir(parents=True)
        save_file(weights, where / "model.safetensors")
    settings = {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": KEPT}
    config = site.paths.staged_checkpoint / HF_QUANT_CONFIG
    config.write_text(json.dumps({"quantization": settings}))
    return site


def verify(site: StagingSite) -> None:
    verify_quantized(StepContext(site.plan, "", site.paths))


def test_a_right_quantization_passes(tmp_path: Path) -> None:
    """The report says what was found, within half a step of FP8."""
    site = quantized_by_hand(tmp_path)
    verify(site)
    report = json.loads(site.paths.quantized_report.read_text())
    assert (report["quantized"], report["kept"]) == (1, 2)
    assert 0 < report["largestError"] <= 2**-4


def weights(change: Callable[[Weights], None]) -> Callable[[Path], None]:
    """Return what changes the weights of a quantized checkpoint."""

    def changed(folder: Path) -> None:
        found = load_file(folder / "model.safetensors")
        change(found)
        save_file(found, folder / "model.safetensors")

    return changed


def without(name: str) -> Callable[[Weights], None]:
    """Return what removes a tensor."""

    def removed(found: Weights) -> None:
        del found[name]

    return removed


def settings(**changes: Any) -> Callable[[Path], None]:
    """Return what changes hf_quant_config.json."""

    def changed(folder: Path) -> None:
        path = folder / HF_QUANT_CONFIG
        found = json.loads(path.read_text())
        path.write_text(json.dumps({"quantization": found["quantization"] | changes}))

    return changed


SCALE = "model.layers.0.mlp.down_proj.weight_scale"


@cases(
    "change words",
    {
        "scale": (
            weights(lambda all_: all_.update({SCALE: all_[SCALE] * 1.2})),
            r"down_proj\.weight differs by .* more than FP8",
        ),
        "kept": (
            weights(lambda all_: all_.update({"lm_head.weight": all_["lm_head.weight"] * 2})),
            r"lm_head\.weight is not quantized and has other numbers",
        ),
        "images": (
            weights(lambda all_: all_.update({"visual.merger.weight_scale": torch.ones(())})),
            r"visual\.merger reads images and is quantized",
        ),
        "gone": (
            weights(without("model.norm.weight")),
            r"1 tensors are gone, model\.norm\.weight for one",
        ),
        "nothing": (weights(without(SCALE)), "nothing is quantized"),
        "kind": (settings(quant_algo="NVFP4"), "says quant_algo = NVFP4; the plan says FP8"),
        "cache": (settings(kv_cache_quant_algo=None), "kv_cache_quant_algo = None"),
        "not-excluded": (
            settings(exclude_modules=["lm_head", "model.layers.visual*"]),
            r"visual\.merger is not quantized, and .* does not exclude it",
        ),
        "excluded": (
            settings(exclude_modules=[*KEPT, "model*"]),
            r"down_proj is quantized, and .* excludes it",
        ),
    },
)
def test_a_wrong_quantization_is_refused(
    tmp_path: Path, change: Callable[[Path], None], words: str
) -> None:
    """What a server would load as something else, or not at all."""
    site = quantized_by_hand(tmp_path)
    change(site.paths.staged_checkpoint)
    with pytest.raises(VerificationFailedError, match=words):
        verify(site)
