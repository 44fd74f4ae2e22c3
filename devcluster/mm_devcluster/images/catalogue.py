"""The two images of the project, as layers and configuration.

`tools/generate_dockerfiles.py` writes the same as Dockerfiles, for people with a container engine.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from mm_devcluster.images import code, environment
from mm_devcluster.images.oci import Image, ImageConfig, Layer, build_image
from mm_devcluster.images.sources import USER, VENV

REGISTRY = "localhost/multimodal"
"""No such registry exists: a node that lacks the image must fail instead of pulling it."""


@dataclass(frozen=True)
class Recipe:
    """One image: its name, what lies on the base layer, what it runs."""

    name: str
    environment: environment.Environment
    code: code.Code
    entrypoint: str
    """Command that runs when a pod names none."""
    variables: dict[str, str] = field(default_factory=dict)


OPERATOR = Recipe("operator", environment.OPERATOR, code.OPERATOR, "mm-operator")
RUNTIME = Recipe("runtime", environment.RUNTIME_CPU, code.RUNTIME, "mm-runtime")

VARIABLES = {
    "HOME": "/tmp",  # noqa: S108 - the one directory of a pod that libraries may write to
    "LANG": "C.UTF-8",
    "PATH": f"{VENV}/bin:/usr/local/bin:/usr/bin:/bin",
    "PYTHONDONTWRITEBYTECODE": "1",  # the root file system is read only
    "PYTHONUNBUFFERED": "1",  # a log line is in the log when it was written
}


def compose(recipe: Recipe, layers: Sequence[Layer]) -> Image:
    """Put an image together; its tag is the digest of what it holds.

    Args:
        recipe: Which image.
        layers: Lowest first.
    """
    config = ImageConfig(
        entrypoint=(f"{VENV}/bin/{recipe.entrypoint}",),
        environment={**VARIABLES, **recipe.variables},
        user=f"{USER}:{USER}",
        labels={"org.opencontainers.image.title": f"multimodal-{recipe.name}"},
    )
    content = [layer.diff_id for layer in layers], config.entrypoint, config.environment
    tag = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]
    return build_image(f"{REGISTRY}/{recipe.name}:{tag}", config, layers)
