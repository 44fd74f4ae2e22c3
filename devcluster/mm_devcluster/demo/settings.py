"""What the demo uses: names, places, deadlines."""

from dataclasses import dataclass
from pathlib import Path

from mm_devcluster import addresses
from mm_devcluster.images.sources import ROOT

SYSTEM_NAMESPACE = "multimodal-system"
RELEASE = "multimodal-operator"
CHART = ROOT / "charts" / "multimodal-operator"

DEMO_NAMESPACE = "demo"
CLAIM_MANIFEST = ROOT / "examples" / "tiny-llava-claim.yaml"
CLAIM = "checkpoints"

MADE_BY_DEMO = "multimodal-demo"
"""Value of app.kubernetes.io/managed-by on namespaces that the demo made and may delete."""

ROLLOUT_TIMEOUT = 180.0  # seconds; measured about 5
INSPECT_TIMEOUT = 180.0  # seconds; measured about 5
BUILD_TIMEOUT = 600.0  # seconds; measured about 20
READY_TIMEOUT = 300.0  # seconds; measured about 15


@dataclass(frozen=True)
class Family:
    """A model of examples/ that the demo can serve."""

    model: str
    """Its name, its folder's, and the checkpoint's path in the claim."""

    @property
    def manifest(self) -> Path:
        """The model that is applied."""
        return ROOT / "examples" / f"{self.model}.yaml"

    @property
    def checkpoint(self) -> Path:
        """The directory that is uploaded into the claim."""
        return ROOT / "examples" / self.model / "checkpoint"

    @property
    def samples(self) -> Path:
        """Images and videos with known answers."""
        return ROOT / "examples" / self.model / "images"


FIRST = "llava-tiny"
FAMILIES = {FIRST: Family("tiny-llava"), "qwen2.5-vl-tiny": Family("tiny-qwen2-5-vl")}
"""What `make demo FAMILY=...` takes."""

MODEL = FAMILIES[FIRST].model
"""Model of the demo of the autoscaler, which follows `make demo`."""


@dataclass(frozen=True)
class Options:
    """What a caller of the demo may choose."""

    cluster: str = "dev"
    """Name of the development cluster, or ``current``."""
    operator_image: str = ""
    """Reference of an operator image that the cluster can pull; empty: built and loaded."""
    runtime_image: str = ""
    """Reference of a runtime image that the cluster can pull; empty: built and loaded."""
    family: Family = FAMILIES[FIRST]
    """What is served."""
    ip_family: addresses.Family = addresses.Family.IPV4
    """Addresses of the development cluster that is started."""
