"""The images of the project, and one of vLLM alone, as layers and configuration.

`tools/generate_dockerfiles.py` writes the same as Dockerfiles, for people with a container engine.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mm_devcluster.images import code, environment
from mm_devcluster.images.layers import cached_layer, layer_key
from mm_devcluster.images.oci import Entry, Image, ImageConfig, Layer, build_image
from mm_devcluster.images.sources import ROOT, SITE_PACKAGES, USER, VENV

REGISTRY = "localhost/multimodal"
"""No such registry exists: a node that lacks the image must fail instead of pulling it."""


@dataclass(frozen=True)
class Stock:
    """An image that holds nothing of ours: its name, what lies on the base layer, what it runs."""

    name: str
    environment: environment.Environment
    entrypoint: str
    """Command that runs when a pod names none."""
    variables: dict[str, str] = field(default_factory=dict)

    def top(self) -> Layer:
        """Return the layer above the environment."""
        files = vllm_files()
        return cached_layer(f"{self.name}-files-{layer_key(map(repr, files))}", lambda: files)


@dataclass(frozen=True, kw_only=True)
class Recipe(Stock):
    """An image with our code."""

    code: code.Code

    def top(self) -> Layer:
        return code.code_layer(self.code)


OPERATOR = Recipe("operator", environment.OPERATOR, "mm-operator", code=code.OPERATOR)
RUNTIME = Recipe("runtime", environment.RUNTIME_CPU, "mm-runtime", code=code.RUNTIME)
VLLM = Stock(
    "vllm",
    environment.VLLM_CPU,
    "vllm",
    # There is no C++ compiler in it, which torch.compile would start.
    {"TORCHDYNAMO_DISABLE": "1"},
)
"""What vLLM's own image for CPUs has, without its compiler."""


def vllm_version() -> str:
    """Return the version as vLLM's own builds for CPUs have it."""
    text = (ROOT / "requirements" / f"{VLLM.environment.name}.txt").read_text(encoding="utf-8")
    return f"{re.findall(r'^vllm-cpu==([0-9.]+)', text, re.MULTILINE)[0]}+cpu"


def vllm_files() -> tuple[Entry, ...]:
    """Return what the packages lack: the program, a library of Debian's, and who they are.

    vLLM computes on the CPU where a distribution `vllm` has a version that ends with `+cpu`.
    """
    metadata = f"Metadata-Version: 2.1\nName: vllm\nVersion: {vllm_version()}\n"
    numa = "/usr/lib/x86_64-linux-gnu/libnuma.so.1"
    return (
        code.command_entry("vllm", "vllm.entrypoints.cli.main:main"),
        Entry(
            f"{SITE_PACKAGES}/vllm-{vllm_version()}.dist-info/METADATA", content=metadata.encode()
        ),
        Entry(numa, source=Path(numa)),
    )


VARIABLES = {
    "HOME": "/tmp",  # noqa: S108 - the one directory of a pod that libraries may write to
    "LANG": "C.UTF-8",
    "PATH": f"{VENV}/bin:/usr/local/bin:/usr/bin:/bin",
    "PYTHONDONTWRITEBYTECODE": "1",  # the root file system is read only
    "PYTHONUNBUFFERED": "1",  # a log line is in the log when it was written
}


def compose(
    recipe: Stock,
    layers: Sequence[Layer],
    reference: str | None = None,
    labels: Mapping[str, str] | None = None,
) -> Image:
    """Put an image together.

    Args:
        recipe: Which image.
        layers: Lowest first.
        reference: Its name; None: one whose tag is the digest of what it holds.
        labels: More labels than its title.
    """
    config = ImageConfig(
        entrypoint=(f"{VENV}/bin/{recipe.entrypoint}",),
        environment={**VARIABLES, **recipe.variables},
        user=f"{USER}:{USER}",
        labels={"org.opencontainers.image.title": f"multimodal-{recipe.name}", **(labels or {})},
    )
    if reference:
        return build_image(reference, config, layers)
    content = [layer.diff_id for layer in layers], config.entrypoint, config.environment
    tag = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]
    return build_image(f"{REGISTRY}/{recipe.name}:{tag}", config, layers)
