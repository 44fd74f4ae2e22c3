"""A plan says when a Triton with vulnerabilities, or one without a guard, can be reached."""

from typing import Any

from mm_operator.plan.engine.exposure import exposure_warnings
from support.cases import cases
from support.models import spec_of

TOKENS = {"authSecretRef": {"name": "tokens", "key": "clients"}}
EXPOSED = {"triton": {"expose": True}}
NVIDIA = "nvcr.io/nvidia/tritonserver"


def _codes(image: str | None, **changes: Any) -> list[str]:
    return [one.code for one in exposure_warnings(spec_of(changes), image)]


@cases(
    "changes image expected",
    {
        "loopback": ({}, None, []),
        "loopback beside tokens": ({"gateway": TOKENS}, None, []),
        "published CPU image": ({"runtime": EXPOSED}, None, ["TritonOutdated"]),
        "published beside tokens": (
            {"runtime": EXPOSED, "gateway": TOKENS},
            None,
            ["TritonWithoutAuth", "TritonOutdated"],
        ),
        "before": ({}, f"{NVIDIA}:25.06-trtllm-python-py3", ["TritonOutdated"]),
        "fixed": ({}, f"{NVIDIA}:25.07-trtllm-python-py3", []),
        "own image": ({}, "example.org/own:1", []),
    },
)
def test_warnings(changes: dict[str, Any], image: str | None, expected: list[str]) -> None:
    assert expected == _codes(image, **changes)
