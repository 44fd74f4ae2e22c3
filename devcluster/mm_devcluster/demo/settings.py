"""What the demo uses: names, places, deadlines."""

from dataclasses import dataclass
from pathlib import Path

from mm_devcluster.images.sources import ROOT

SYSTEM_NAMESPACE = "multimodal-system"
RELEASE = "multimodal-operator"
CHART = ROOT / "charts" / "multimodal-operator"

DEMO_NAMESPACE = "demo"
MODEL = "tiny-llava"
MODEL_MANIFEST = ROOT / "examples" / "tiny-llava.yaml"
CLAIM_MANIFEST = ROOT / "examples" / "tiny-llava-claim.yaml"
CLAIM = "checkpoints"
CHECKPOINT = ROOT / "examples" / "tiny-llava" / "checkpoint"
CHECKPOINT_PATH = "tiny-llava"
SAMPLE_IMAGES = ROOT / "examples" / "tiny-llava" / "images"

MADE_BY_DEMO = "multimodal-demo"
"""Value of app.kubernetes.io/managed-by on namespaces that the demo made and may delete."""

ROLLOUT_TIMEOUT = 180.0  # seconds; measured about 5
INSPECT_TIMEOUT = 180.0  # seconds; measured about 5
BUILD_TIMEOUT = 600.0  # seconds; measured about 20
READY_TIMEOUT = 300.0  # seconds; measured about 15


@dataclass(frozen=True)
class Options:
    """What a caller of the demo may choose."""

    cluster: str = "dev"
    """Name of the development cluster, or ``current``."""
    operator_image: str = ""
    """Reference of an operator image that the cluster can pull; empty: built and loaded."""
    runtime_image: str = ""
    """Reference of a runtime image that the cluster can pull; empty: built and loaded."""
    manifest: Path = MODEL_MANIFEST
    """The model that is applied."""
    checkpoint: Path = CHECKPOINT
    """The directory that is uploaded into the claim."""
