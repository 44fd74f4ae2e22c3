"""The encoder's share of a GPU: the smallest that keeps up with the images requested."""

import json
from pathlib import Path
from typing import Any

import pytest

from mm_api.documents.trtllm_build import GpuModel
from mm_operator.model import Outcome
from mm_operator.plan.engine.encoder_share import SHARES, Work
from mm_operator.plan.engine.tables import fp16_tflops, gpu_names, gpu_of
from mm_operator.status.derive import derive
from support.cases import cases
from support.gpu_nodes import H100, node
from support.model_configs import WITH_ENGINES, WITH_IMAGES, facts_of, planned
from support.staged import inspected

BENCH = Path(__file__).resolve().parents[4] / "bench" / "sharing"
MEASURED = json.loads((BENCH / "results" / "h100_shares.json").read_text())
TOWERS: dict[str, Any] = MEASURED["towers"]


def share(family: str, **vision: Any) -> int:
    sharing = planned(family, {}, vision=vision).serving_plan.sharing
    return int(sharing.thread_percentage)


@pytest.mark.parametrize(
    "case",
    MEASURED["cases"][1:],
    ids=lambda case: f"{case['tower']}-{case['encoder_batch']}-{case['share']}",
)
def test_what_is_reckoned_was_measured(case: dict[str, Any]) -> None:
    """Every tower encoded as many images on an H100 as are reckoned, and less than half more."""
    layers, positions, width, _, inner = TOWERS[case["tower"]]
    weights = layers * (4 * width**2 + 2 * width * inner)
    flops = 2 * weights * positions + 4 * positions**2 * width * layers
    tflops = fp16_tflops(H100)
    assert tflops is not None

    reckoned = Work(flops, case["encoder_batch"]).per_second(tflops, int(case["share"]))
    assert 1.0 <= case["images_per_second"] / reckoned < 1.5


@cases(
    "family rate expected",
    {
        "nothing-requested": ("llava", None, 25),
        "the-smallest-does": ("llava", 100, 25),
        "a-little-more": ("llava", 200, 30),
        "half": ("llava", 300, 50),
        "nineteen-tiles-an-image": ("llava-onevision", 5, 40),
        "large-images-one-by-one": ("qwen2-vl", 10, 40),
    },
)
def test_the_smallest_that_keeps_up_is_planned(
    family: str, rate: int | None, expected: int
) -> None:
    """More images a second, or larger ones, need a larger share."""
    requested = {} if rate is None else {"imagesPerSecond": rate}
    assert expected == share(family, **requested)


@pytest.mark.parametrize("family", sorted({*WITH_IMAGES} & {*WITH_ENGINES}))
def test_a_share_grows_with_the_rate(family: str) -> None:
    """No rate gets less than a smaller one, and none anything but the shares that were measured."""
    found = [share(family, imagesPerSecond=rate) for rate in (1, 3, 10, 30, 100, 300, 1000)]
    assert found == sorted(found)
    assert set(found) <= set(SHARES)
    assert found[-1] == SHARES[-1]


def test_what_no_share_does_is_reported_before_a_gpu_is_taken() -> None:
    """The status warns in numbers once the checkpoint was read; the model is built all the same."""
    spec = {
        "engine": {"backend": "TensorRT"},
        "build": {"trtllmVersion": "0.20.0"},
        "vision": {"imagesPerSecond": 500},
    }
    snapshot, plan = inspected(spec, facts=facts_of("llava"), gpu_nodes=(node("a", H100),))
    status = derive(snapshot, plan, Outcome())

    assert status["plan"]["warnings"][0].startswith(
        "500 images a second are requested of each pod's encoder; with 50 % of the GPU it encodes "
        "387.1 of the largest size at most"
    )
    assert "use 2 pods" in status["plan"]["warnings"][0]
    assert status["plan"]["verdict"] == "Fits"


def test_a_written_share_is_kept() -> None:
    fast = planned("llava", {}, vision={"threadPercentage": 60, "imagesPerSecond": 200})
    slow = planned("llava", {}, vision={"threadPercentage": 10, "imagesPerSecond": 200})
    reported = [
        [one.code for one in plan.warnings if one.code == "EncoderTooSlow"] for plan in (fast, slow)
    ]
    shares = [plan.serving_plan.sharing.thread_percentage for plan in (fast, slow)]
    assert (shares, reported) == ([60, 10], [[], ["EncoderTooSlow"]])


def test_an_unknown_gpu_gets_the_largest() -> None:
    """Without a data sheet nothing can be reckoned: half of the GPU, and a warning that says so."""
    odd = GpuModel(product="custom", memory_bytes=80 << 30, compute_capability="9.0")
    plan = planned("llava", {}, gpu=odd, vision={"imagesPerSecond": 5})
    assert plan.serving_plan.sharing.thread_percentage == SHARES[-1]
    assert plan.warnings[0].message.startswith("the speed of a custom is not known")


def test_every_gpu_of_the_table_has_a_speed() -> None:
    """A GPU that is planned for by name is known by its data sheet."""
    assert all(fp16_tflops(gpu_of(name).product) for name in gpu_names())


def test_a_family_without_images_has_no_rate() -> None:
    plan = planned("t5", {}, vision={"imagesPerSecond": 5})
    assert [error.path for error in plan.errors] == ["spec.vision.imagesPerSecond"]
