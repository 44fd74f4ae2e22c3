"""What one stage hands to the next: filled in stage by stage."""

from dataclasses import dataclass, field

from mm_devcluster.demo.settings import Options
from mm_devcluster.demo.target import Target
from mm_devcluster.images.oci import Image, Layer


@dataclass
class Session:
    """The state of one run. The order of the stages makes sure that a part is there when read."""

    options: Options
    found_target: Target | None = None
    base: Layer | None = None
    images: dict[str, Image] = field(default_factory=dict)
    """By name of the recipe: ``operator``, ``runtime``, ``vllm``."""

    @property
    def target(self) -> Target:
        """The cluster, once there is one."""
        if self.found_target is None:
            raise RuntimeError("a stage that needs the cluster ran before the one that starts it")
        return self.found_target

    def image_reference(self, name: str) -> str:
        """Return the reference that pods use for an image."""
        given = {
            "operator": self.options.operator_image,
            "runtime": self.options.runtime_image,
        }
        return given.get(name) or self.images[name].reference
