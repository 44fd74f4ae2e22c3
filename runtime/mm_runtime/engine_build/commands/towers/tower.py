"""The record that describes one vision half to exporter and verifier."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
import transformers

from mm_api.documents.model_facts import ModelFacts, VisionFacts
from mm_api.families import FAMILIES
from mm_runtime.engine_build.commands import vision_samples
from mm_runtime.reference_engine.all_weights import load_weights

Array: TypeAlias = npt.NDArray[Any]
Sample: TypeAlias = dict[str, Array]


@dataclass(frozen=True, slots=True)
class TowerInput:
    """One input of the exported model."""

    name: str
    dims: tuple[int | str, ...]
    """Sizes; a name stands for a size that may differ from run to run, its first one is `batch`."""

    largest: int = 4096
    """Bound of every named size other than `batch`, as the exporter wants one."""


@dataclass(frozen=True, slots=True)
class Tower:
    """A module with its inputs, and what the checkpoint's own class makes of samples."""

    module: torch.nn.Module
    """Takes the inputs in their order; returns float32 [batch, rows, hidden]."""

    inputs: tuple[TowerInput, ...]
    samples: tuple[Sample, ...]
    """Inputs of single runs, of different batches; the first has a batch of at least 2."""

    reference: Callable[[Sample], torch.Tensor]
    """The model's own way from a sample to features [batch, rows, hidden]."""

    extras: Mapping[str, Array] = field(default_factory=dict)
    """Vectors that are needed beside the graph to put features together."""

    def torch_inputs(self, sample: Sample) -> tuple[torch.Tensor, ...]:
        return tuple(torch.from_numpy(sample[one.name]) for one in self.inputs)


@dataclass(frozen=True, slots=True)
class TowerSource:
    """A checkpoint whose vision half is loaded."""

    llm: Path
    """Folder of config.json and safetensors."""
    facts: ModelFacts
    trust_remote_code: bool

    @property
    def vision(self) -> VisionFacts:
        assert self.facts.vision is not None  # noqa: S101 (a family with a tower has them)
        return self.facts.vision

    def model(self, **changes: Any) -> Any:
        """Return its class of transformers in float32, with a language model of no layers.

        transformers then skips the weights of all the layers: a checkpoint of 14 GB loads in the
        memory of its vision tower and embeddings.

        `changes`: other values of the language model's part of the configuration.

        Raises:
            WeightsUnusableError: as `load_weights`.
        """
        kind = getattr(transformers, FAMILIES[self.facts.family].transformers_class)
        trusts = {"trust_remote_code": self.trust_remote_code}
        config = transformers.AutoConfig.from_pretrained(self.llm, **trusts)
        section = config.text_config
        section.num_hidden_layers = 0
        if getattr(section, "layer_types", None):
            section.layer_types = []
        for name, value in changes.items():
            setattr(section, name, value)
        # It would list every weight of the layers that are left out.
        transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
        transformers.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        given: dict[str, Any] = {
            "dtype": torch.float32,
            "attn_implementation": "eager",  # the exporter writes plain matrix products
            "in_part": True,  # the language model's loader takes its layers
        }
        model = load_weights(kind, self.llm, config=config, **trusts, **given)
        model.requires_grad_(requires_grad=False)  # from_pretrained has called eval() already
        return model


def image_samples(images: npt.NDArray[np.float32]) -> tuple[Sample, ...]:
    """Return all images as one batch, then one by one.

    A batch dimension that was baked in shows only in one of the two.
    """
    return ({"pixel_values": images}, *({"pixel_values": image[None]} for image in images))


def square_tower(
    module: torch.nn.Module,
    vision: VisionFacts,
    features: Callable[[torch.Tensor], torch.Tensor],
    **extras: Array,
) -> Tower:
    """Return a vision half that reads `pixel_values` [batch, 3, side, side] and nothing else.

    `features`: the model's own way from pixels to features [batch, rows, hidden].
    """
    side = vision.image_size
    return Tower(
        module=module,
        inputs=(TowerInput("pixel_values", ("batch", 3, side, side)),),
        samples=image_samples(vision_samples.images(side)),
        reference=lambda sample: features(torch.from_numpy(sample["pixel_values"])),
        extras=extras,
    )


def feature_rows(output: Any) -> torch.Tensor:
    """Return features [batch, rows, hidden] of what `get_image_features` returned.

    transformers 5 wraps what 4 returned, as one tensor or as a list with one entry an image.
    """
    rows = getattr(output, "pooler_output", output)
    return torch.stack([row.reshape(-1, row.shape[-1]) for row in rows])
