"""A plan says when a Triton with vulnerabilities, or one without a guard, can be reached."""

from typing import Any

import pytest

from mm_operator.plan.engine.exposure import exposure_warnings
from support.models import spec_of

TOKENS = {"authSecretRef": {"name": "tokens", "key": "clients"}}
EXPOSED = {"triton": {"expose": True}}
NVIDIA = "nvcr.io/nvidia/tritonserver"


def _codes(image: str | None, **changes: Any) -> list[str]:
    return [one.code for one in exposure_warnings(spec_of(changes), image)]


@pytest.mark.parametrize(
    ("changes", "image", "expected"),
    [
        pytest.param({}, None, [], id="loopback"),
        pytest.param({"gateway": TOKENS}, None, [], id="loopback beside tokens"),
        pytest.param({"runtime": EXPOSED}, None, ["TritonOutdated"], id="published CPU image"),
        pytest.param(
            {"runtime": EXPOSED, "gateway": TOKENS},
            None,
            ["TritonWithoutAuth", "TritonOutdated"],
            id="published beside tokens",
        ),
        pytest.param({}, f"{NVIDIA}:25.06-trtllm-python-py3", ["TritonOutdated"], id="before"),
        pytest.param({}, f"{NVIDIA}:25.07-trtllm-python-py3", [], id="fixed"),
        pytest.param({}, "example.org/own:1", [], id="own image"),
    ],
)
def test_warnings(changes: dict[str, Any], image: str | None, expected: list[str]) -> None:
    """What a plan warns of follows from image and spec."""
    assert expected == _codes(image, **changes)
