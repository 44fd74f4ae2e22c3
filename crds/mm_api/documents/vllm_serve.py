"""How vLLM serves a staged checkpoint: the command of a stock image, and its environment.

Part of `ModelPlan` (what `mmctl plan` prints) and of `ServingPlan` (what pods read): the two are
equal word for word. The command runs in the engine's folder, where the checkpoint is `checkpoint`.
"""

import json

from pydantic import Field

from mm_api.base import Document


class FeatureFolder(Document):
    """Shared memory in which the gateway hands features of images over to vLLM."""

    path: str
    most_bytes: int = Field(ge=1, description="Of all files; vLLM encodes images beyond itself.")


def ec_transfer_config(features: FeatureFolder) -> str:
    """Return the flag's value: vLLM's own connector looks for features of images in the folder."""
    return json.dumps(
        {
            "ec_connector": "ECExampleConnector",
            "ec_role": "ec_consumer",
            "ec_connector_extra_config": {"shared_storage_path": features.path},
        },
        separators=(",", ":"),
    )


class VllmServe(Document):
    """`vllm serve` with its arguments."""

    version: str = Field(description="Of vLLM; the serving image must have it.")
    tensor_parallel: int = Field(default=1, ge=1)
    pipeline_parallel: int = Field(default=1, ge=1)
    nodes: int | None = Field(
        default=None,
        ge=2,
        description="Pods of a replica: others than the first have the same command with "
        "--headless. None: one.",
    )
    port: int = Field(ge=1, le=65535)
    argv: list[str] = Field(min_length=1)
    environment: dict[str, str] = Field(
        default={}, description="Beside what every container of ours has."
    )
    features: FeatureFolder | None = Field(
        default=None, description="None: vLLM encodes all images itself."
    )
