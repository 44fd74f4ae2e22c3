"""What the demo uses: names, places, deadlines."""

from dataclasses import dataclass, replace
from pathlib import Path

from mm_api.backends import BACKENDS, Name
from mm_devcluster import addresses
from mm_devcluster.errors import DevClusterError
from mm_devcluster.images.catalogue import VLLM, Stock
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
    backend: Name = "Reference"
    """That serves it."""

    @property
    def manifest(self) -> Path:
        """The model that is applied."""
        suffix = "-vllm" if self.images else ""
        return ROOT / "examples" / f"{self.model}{suffix}.yaml"

    @property
    def images(self) -> tuple[Stock, ...]:
        """What is served with beside our own images."""
        return () if BACKENDS[self.backend].supervised else (VLLM,)

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


def chosen(family: str, backend: Name) -> Family:
    """Return what `make demo FAMILY=... BACKEND=...` serves.

    Raises:
        DevClusterError: examples/ has no manifest of it.
    """
    found = replace(FAMILIES[family], backend=backend)
    if not found.manifest.exists():
        raise DevClusterError(
            f"FAMILY={family} is not served with BACKEND={backend} in the demo: leave one of them "
            "out"
        )
    return found


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
