"""The images that the cluster itself needs: pause, DNS, and a probe for its own tests."""

from pathlib import Path

from mm_devcluster.config.containerd import PAUSE_IMAGE
from mm_devcluster.images.layers import cached_layer
from mm_devcluster.images.oci import Entry, Image, ImageConfig, build_image

COREDNS_IMAGE = "mm.local/coredns:1"
PROBE_IMAGE = "mm.local/probe:1"


def build_pause_image(program: Path) -> Image:
    """Return the image of the container that holds a pod's namespaces."""
    return _single_program(PAUSE_IMAGE, program)


def build_coredns_image(program: Path) -> Image:
    """Return the image of cluster DNS."""
    return _single_program(COREDNS_IMAGE, program)


def build_probe_image(program: Path) -> Image:
    """Return the image that tests run to look at the cluster from inside."""
    return _single_program(PROBE_IMAGE, program)


def _single_program(reference: str, program: Path) -> Image:
    # The program's directory is named by the key of its build.
    key = f"{program.name}-{program.parent.name}"
    entries = (
        Entry("/tmp", directory=True, mode=0o1777),  # noqa: S108 - a path inside the image
        Entry(f"/{program.name}", source=program, mode=0o755),
    )
    layer = cached_layer(key, lambda: entries)
    return build_image(reference, ImageConfig(entrypoint=(f"/{program.name}",)), (layer,))
